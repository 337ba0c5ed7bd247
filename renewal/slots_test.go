package renewal

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
)

// newTestSlots returns the slots of a lane, at a random place in the interval.
func newTestSlots(t testing.TB, cfg Config) slots {
	cfg, err := cfg.withDefaults()
	require.NoError(t, err)
	return newSlots(cfg, rand.Uint64())
}

// counts returns the number of leases of each slot that has any.
func (s *slots) counts() (counts []int) {
	for _, one := range s.all {
		if one.leaseCount > 0 {
			counts = append(counts, int(one.leaseCount))
		}
	}
	return counts
}

func TestSlotsAreAsManyAsFullBatches(t *testing.T) {
	for leases, want := range map[int]int{1: 1, 1000: 1, 1024: 1, 1025: 2, 10_000: 10, 100_000: 98, 1_000_000: 977} {
		b := newTestSlots(t, Config{})
		for range leases {
			b.join()
		}
		require.Len(t, b.counts(), want, leases)
		require.EqualValues(t, min(leases, maxSlotLeases), slices.Max(b.counts()))
	}
}

// TestSlotsAreSpreadEvenly: no gap between two of them is more than twice the mean.
func TestSlotsAreSpreadEvenly(t *testing.T) {
	b := newTestSlots(t, Config{MaxBatch: 1})
	for n := 1; n <= 500; n++ {
		k := b.join()
		require.EqualValues(t, n, k)
		at := make([]instant, n)
		for i := range at {
			at[i] = b.nextMoment(uint16(i+1), 0)
		}
		slices.Sort(at)
		widest := at[0].plus(b.interval) - at[n-1]
		for i := 1; i < n; i++ {
			widest = max(widest, at[i]-at[i-1])
		}
		require.LessOrEqual(t, widest, 2*instant(b.interval)/instant(n)+instant(b.tick), "%d slots", n)
	}
}

// TestSlotsAreNoMoreThanTicks: more slots would share wake-ups. Leases for which there is no
// room make all slots larger.
func TestSlotsAreNoMoreThanTicks(t *testing.T) {
	b := newTestSlots(t, Config{TTL: MinTTL, MaxBatch: 10})
	for range 10_000 {
		b.join()
	}
	require.Len(t, b.counts(), 33)
	require.Less(t, slices.Max(b.counts())-slices.Min(b.counts()), 12)
}

// TestTheNextRenewalIsAtTheSlot, or once halfway if that would be too early; never
// later than an interval.
func TestTheNextRenewalIsAtTheSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, err := Config{TTL: time.Duration(rapid.IntRange(100, 60_000).Draw(t, "ttl")) * time.Millisecond, MaxBatch: 1}.withDefaults()
		require.NoError(t, err)
		b := newSlots(cfg, rapid.Uint64().Draw(t, "phase"))
		k := uint16(0)
		for range rapid.IntRange(1, 30).Draw(t, "slots") {
			k = b.join()
		}
		interval := instant(b.interval)
		require.Less(t, cfg.TTL/3-b.interval, b.tick)
		sent := instant(rapid.Int64Range(0, int64(10*interval)).Draw(t, "sent"))
		next := b.nextMoment(k, sent)
		require.Greater(t, next, sent)
		require.LessOrEqual(t, next, sent+interval)
		require.Equal(t, next+interval, b.nextMoment(k, next))
		require.Zero(t, next%instant(b.tick))

		due := b.nextRenewal(k, sent)
		require.GreaterOrEqual(t, due-sent, interval/2)
		require.LessOrEqual(t, due-sent, interval)
		if next-sent >= interval/2 {
			require.Equal(t, next, due)
			return
		}
		require.GreaterOrEqual(t, next+interval-due, interval/2-instant(b.tick))
		require.LessOrEqual(t, next+interval-due, interval)
	})
}

// renewedLease is a lease that rhythm renews.
type renewedLease struct {
	slot        uint16
	due         instant
	first, last instant // renewals
	renewals    int
	released    bool
}

// byDue is a heap of leases, the earliest due first.
type byDue []*renewedLease

func (q byDue) Len() int           { return len(q) }
func (q byDue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q byDue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byDue) Push(x any)        { *q = append(*q, x.(*renewedLease)) }
func (q *byDue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// rhythm renews leases by slots, in time that it moves by hand.
type rhythm struct {
	t      testing.TB
	b      slots
	now    instant
	queue  byDue
	leases []*renewedLease // not released
	times  []instant       // the times at which renewals were due in the last run
	early  time.Duration   // how much too early a renewal was at most, except for the first of each lease
}

func (r *rhythm) hold(n int) {
	for range n {
		l := &renewedLease{slot: r.b.join()}
		l.due = r.b.nextMoment(l.slot, r.now)
		require.Greater(r.t, l.due, r.now)
		require.LessOrEqual(r.t, l.due, r.now.plus(r.b.interval))
		r.leases = append(r.leases, l)
		heap.Push(&r.queue, l)
	}
}

// release ends n leases, at random.
func (r *rhythm) release(n int) {
	for range n {
		i, last := rand.IntN(len(r.leases)), len(r.leases)-1
		l := r.leases[i]
		r.leases[i] = r.leases[last]
		r.leases = r.leases[:last]
		l.released = true
		r.b.leave(l.slot)
	}
}

// run lets d pass. Each renewal is late by at most late, at random.
func (r *rhythm) run(d, late time.Duration) {
	r.times = nil
	end := r.now.plus(d)
	for len(r.queue) > 0 && r.queue[0].due <= end {
		l := heap.Pop(&r.queue).(*renewedLease)
		if l.released {
			continue
		}
		if len(r.times) == 0 || r.times[len(r.times)-1] != l.due {
			r.times = append(r.times, l.due)
		}
		r.now = max(r.now, l.due)
		sent := l.due.plus(rand.N(late + 1))
		if l.renewals++; l.renewals == 1 {
			l.first = sent
		} else {
			r.early = max(r.early, r.b.interval-time.Duration(sent-l.last))
		}
		l.last = sent
		l.slot = r.b.keepOrChange(l.slot, r.now)
		l.due = r.b.nextRenewal(l.slot, sent)
		require.LessOrEqual(r.t, l.due, sent.plus(r.b.interval))
		heap.Push(&r.queue, l)
	}
	r.now = end
}

// requireEven: every wake-up is for a batch of its own, and they are evenly spread.
func (r *rhythm) requireEven() {
	r.t.Helper()
	r.run(r.b.interval, 0)
	want := (len(r.leases)-1)/int(r.b.maxLeases) + 1
	require.InDelta(r.t, want, len(r.times), 1+float64(want)/20, "%d leases; some slots share a tick", len(r.leases))
	for i := 1; i < len(r.times); i++ {
		require.LessOrEqual(r.t, r.times[i]-r.times[i-1], 2*instant(r.b.interval)/instant(want)+2*instant(r.b.tick))
	}
}

// TestTheRhythmAfterChanges: there are as few wake-ups as full batches, and they are evenly
// spread, whatever was taken and released before.
func TestTheRhythmAfterChanges(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("slow, and other tests make the same calls")
	}
	for _, leases := range []int{1, 1000, 10_000, 100_000} {
		r := &rhythm{t: t, b: newTestSlots(t, Config{})}
		for range 10 { // all of them in a second
			r.hold(max(leases/10, 1))
			r.run(100*time.Millisecond, 0)
		}
		r.run(2*r.b.interval, 0)
		require.Zero(t, r.early)
		r.requireEven()
		if leases > 1 {
			r.release(leases / 2)
			r.run(3*r.b.interval, 0) // the leases of a slot that is closed are moved, some in two steps
			r.requireEven()
			r.release(leases/2 - 1)
			r.run((restIntervals+3)*r.b.interval, 0)
			r.requireEven()
			require.Len(t, r.leases, 1)
			require.Len(t, r.times, 1)
		}
		require.LessOrEqual(t, r.early, r.b.interval/2+r.b.tick)
	}
}

// TestTheMeanIntervalStaysLong: whatever comes and goes, a lease is renewed at most a
// tenth more often than every interval.
func TestTheMeanIntervalStaysLong(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &rhythm{t: t, b: newTestSlots(t, Config{MaxBatch: 4})}
		r.hold(rapid.IntRange(1, 30).Draw(rt, "leases"))
		for range 200 {
			n := len(r.leases)
			if rapid.Bool().Draw(rt, "hold") {
				r.hold(rapid.IntRange(0, 10).Draw(rt, "n"))
			} else {
				r.release(min(rapid.IntRange(0, 10).Draw(rt, "n"), n-1))
			}
			r.run(rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(0, 3*int(r.b.interval/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
			}).Draw(rt, "pause"), r.b.interval/100)
			require.Equal(rt, len(r.leases), r.b.leaseCount)
			require.LessOrEqual(rt, slices.Max(r.b.counts()), 4)
		}
		for _, l := range r.leases {
			if l.renewals > 2*restIntervals {
				mean := time.Duration(l.last-l.first) / time.Duration(l.renewals-1)
				require.Greater(rt, mean, r.b.interval*9/10, "%d renewals", l.renewals)
			}
		}
		require.LessOrEqual(rt, r.early, r.b.interval/2+r.b.tick+r.b.interval/100)
	})
}

// TestTheNearestEndOfTrustComesFirst, also after a lease of the first group has ended while the
// group waits for a dispatcher.
func TestTheNearestEndOfTrustComesFirst(t *testing.T) {
	ln := &Lane{}
	push := func(ends ...instant) *group {
		c := &group{lane: ln, trust: never, armed: never}
		for _, end := range ends {
			l := &Lease{}
			l.trust.Store(int64(end))
			c.addLocked(l)
		}
		ln.queue.push(c)
		return c
	}
	first, second := push(1, 10), push(5)
	require.Same(t, first, ln.queue[0])
	require.Len(t, first.endedLocked(2, nil), 1)
	require.Same(t, second, ln.queue[0])
}
