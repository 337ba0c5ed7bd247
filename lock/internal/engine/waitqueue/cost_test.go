package waitqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// most is how many instructions an event of one caller may work out.
const most = 8

// countUpdates counts how often l works out an instruction.
func countUpdates(l *Line[int, *int]) *uint64 {
	n := new(uint64)
	l.testRule = func(_ *Line[int, *int], _ *Caller[int, *int], in Instruction[*int]) Instruction[*int] {
		*n++
		return in
	}
	return n
}

// joinAndLeave lets n callers join and leave, and returns how many instructions
// were worked out for one event at most.
func joinAndLeave(n int, owner func(i int) int, order []int) (worst uint64) {
	l := NewLine[int, *int](Exclusive, &testRun)
	updates := countUpdates(&l)
	callers := make([]Caller[int, *int], n)
	looks := func(event func()) {
		before := *updates
		event()
		worst = max(worst, *updates-before)
	}
	for i := range callers {
		callers[i].Owner = owner(i)
		looks(func() { l.Join(&callers[i]) })
	}
	looks(func() { l.Began(&callers[0]) })
	looks(func() { l.Refused(&callers[0]) })
	for _, i := range order {
		looks(func() { l.Leave(&callers[i]) })
	}
	return worst
}

func TestJoiningAndLeavingCostTheSameHoweverManyWait(t *testing.T) {
	const n = 20_000
	for name, owner := range map[string]func(int) int{
		"own":  func(i int) int { return i },
		"some": func(i int) int { return i % 100 },
		"one":  func(int) int { return 0 },
	} {
		order := rand.New(rand.NewPCG(1, 1)).Perm(n)
		require.LessOrEqual(t, joinAndLeave(n, owner, order), uint64(most), name)
		require.Greater(t, joinAndLeave(100, owner, order[:0:0]), uint64(0), name)
	}
}

// TestWhoSharesAnOwnerIsToldOnce: when all waiters may re-enter a hold, each of them is woken once, and
// its instruction is not worked out again while nothing changes for it.
func TestWhoSharesAnOwnerIsToldOnce(t *testing.T) {
	l := NewLine[int, *int](Exclusive, &testRun)
	updates := countUpdates(&l)
	callers := make([]Caller[int, *int], 1000)
	for i := range callers {
		l.Join(&callers[i])
	}
	l.Began(&callers[0])
	before := *updates
	require.Len(t, l.Took(&callers[0], new(int)).Wake, 999)
	require.LessOrEqual(t, *updates-before, uint64(999+most))
	before = *updates
	require.Empty(t, l.Leave(&callers[1]).Wake)
	require.LessOrEqual(t, *updates-before, uint64(most))
}

func TestNothingIsAllocatedButTheCaller(t *testing.T) {
	l := NewLine[int, *int](Exclusive, &testRun)
	h := new(int)
	callers := make([]Caller[int, *int], 4*101)
	i := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c := callers[i : i+4]
		i += 4
		for n := range c {
			c[n].Owner = n
			l.Join(&c[n])
		}
		l.Began(&c[0])
		l.Took(&c[0], h)
		next, _, _ := l.Leaving(0, h, 0, false)
		l.Handed(0, h, next, h, 0)
		l.Take(next)
		l.Leaving(next.Owner, h, 0, false)
		l.HoldEnded(next.Owner, h)
		l.Leave(&c[3])
		l.Leave(&c[2])
	}))
	require.Zero(t, l.groups.n, "a line that is never empty would keep all owners")
	require.Nil(t, l.groups.first)
}

// BenchmarkJoinAndLeave measures a caller that joins and leaves a line of waiting
// callers. Each caller has an owner of its own.
func BenchmarkJoinAndLeave(b *testing.B) {
	for _, waiting := range []int{1, 50_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			l := NewLine[int, *int](Exclusive, &testRun)
			callers := make([]Caller[int, *int], waiting)
			for i := range callers {
				callers[i].Owner = i
				l.Join(&callers[i])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c := &callers[i%waiting]
				l.Leave(c)
				owner := c.Owner
				*c = Caller[int, *int]{Owner: owner}
				l.Join(c)
				i++
			}
		})
	}
}

// BenchmarkAllLeave measures 50,000 callers that join, and then all leave in the order in which their
// contexts end.
func BenchmarkAllLeave(b *testing.B) {
	const n = 50_000
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	b.ReportAllocs()
	for b.Loop() {
		joinAndLeave(n, func(i int) int { return i }, order)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/caller")
}
