package wheel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

const never = math.MaxInt64

// collectAll collects everything due at or before tick, through a buffer of the given size.
func collectAll(r *wheel.Ring, tick int64, size int) (ts []*wheel.Timer) {
	buf := make([]*wheel.Timer, size)
	for {
		n, finished := r.Collect(tick, buf)
		ts = append(ts, buf[:n]...)
		if finished {
			return ts
		}
	}
}

func TestRingTickIsTheFirstNotBeforeTheDeadline(t *testing.T) {
	for _, c := range []struct {
		name                 string
		tick, slots          int64
		deadline, open, want int64
	}{
		{"at the start", 10, 8, 0, 0, 0},
		{"just behind the start", 10, 8, 1, 0, 1},
		{"just before a tick", 10, 8, 29, 0, 3},
		{"at a tick", 10, 8, 30, 0, 3},
		{"just behind a tick", 10, 8, 31, 0, 4},
		{"at the wheel's span", 10, 8, 80, 0, 8},
		{"a multiple of the span", 10, 8, 800, 0, 80},
		{"overdue", 10, 8, 30, 7, 7},
		{"at the open tick", 10, 8, 70, 7, 7},
		{"one slot", 10, 1, 31, 0, 4},
		{"tick of an odd length", 7, 4, 50, 0, 8},
		{"never", 10, 8, never, 0, never},
		{"the last that comes", 10, 8, never - 10, 0, (never - 10 + 9) / 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := wheel.NewRing(c.tick, c.slots)
			var timer wheel.Timer
			require.Equal(t, c.want, r.Add(&timer, c.deadline, c.open))
			require.NoError(t, r.Check(1))
			require.Equal(t, c.want, r.Next())
			if c.want == never {
				require.Empty(t, collectAll(r, 1<<40, 4))
				return
			}
			if c.want > 0 {
				require.Empty(t, collectAll(r, c.want-1, 4), "early")
				require.Equal(t, c.want, r.Next())
			}
			require.Equal(t, []*wheel.Timer{&timer}, collectAll(r, c.want, 4))
			require.Equal(t, int64(never), r.Next())
			require.NoError(t, r.Check(0))
		})
	}
}

func TestRingFarAndNearTimersShareABucket(t *testing.T) {
	const lap = 64 * 4 // ticks from a far bucket's to those that it has next
	r := wheel.NewRing(10, 8)
	later, first := make([]wheel.Timer, 100), make([]wheel.Timer, 100)
	for i := range later {
		r.Add(&later[i], 10*(20+lap), 0)
		r.Add(&first[i], 10*20, 0)
	}
	require.NoError(t, r.Check(200))
	require.Equal(t, int64(20), r.Next())
	require.Len(t, collectAll(r, 20, 7), 100)
	require.NoError(t, r.Check(100))
	require.Equal(t, int64(20+lap), r.Next(), "no tick in between concerns the later ones")
	require.Len(t, collectAll(r, 20+lap, 7), 100)
}

func TestRingCatchUpTakesEveryDueTimerOnce(t *testing.T) {
	r := wheel.NewRing(10, 8)
	ts := make([]wheel.Timer, 1000)
	for i := range ts {
		r.Add(&ts[i], int64(i), 0)
	}
	got := collectAll(r, 90, 3)
	require.Len(t, got, 901)
	seen := map[*wheel.Timer]bool{}
	for _, timer := range got {
		require.False(t, seen[timer])
		require.LessOrEqual(t, r.Deadline(timer), int64(900))
		seen[timer] = true
	}
	require.NoError(t, r.Check(99))
}

func TestRingTimerFiledDuringAPassIsNotInIt(t *testing.T) {
	r := wheel.NewRing(10, 8)
	ts := make([]wheel.Timer, 3)
	for i := range ts {
		r.Add(&ts[i], 50, 0)
	}
	buf := make([]*wheel.Timer, 1)
	n, finished := r.Collect(5, buf)
	require.Equal(t, 1, n)
	require.False(t, finished)
	require.Equal(t, int64(6), r.Add(buf[0], 50, 6), "overdue, it goes to the next tick")
	require.Len(t, collectAll(r, 5, 1), 2)
	require.NoError(t, r.Check(1))
	require.Equal(t, int64(6), r.Next())
}

func TestRingPostponedTimerStaysInItsPlaceUntilVisited(t *testing.T) {
	r := wheel.NewRing(10, 8)
	var timer wheel.Timer
	r.Add(&timer, 50, 0)
	require.Equal(t, int64(never), r.Postpone(&timer, 200, 0), "nothing earlier than before")
	require.Equal(t, int64(5), r.Next(), "not re-filed yet")
	require.Equal(t, int64(never), r.Postpone(&timer, 170, 0), "back, but not before its place")
	require.Empty(t, collectAll(r, 5, 4))
	require.Equal(t, int64(17), r.Next())
	require.Equal(t, int64(12), r.Postpone(&timer, 115, 6), "before its place: re-filed")
	require.Len(t, collectAll(r, 12, 4), 1)
}

func TestRingPostponedWithinItsSlotKeepsIt(t *testing.T) {
	r := wheel.NewRing(10, 8)
	var timer wheel.Timer
	r.Add(&timer, 50, 0)
	r.Postpone(&timer, 50+80, 0)
	require.Empty(t, collectAll(r, 5, 4))
	require.NoError(t, r.Check(1))
	require.Equal(t, int64(13), r.Next())
}

func TestRingWalkGoesOnWhereTimersWereRemoved(t *testing.T) {
	// Timers are removed between two collects, ahead of the collector and behind it. Every other
	// due timer is still collected once.
	for removed := range 40 {
		r := wheel.NewRing(10, 8)
		ts := make([]wheel.Timer, 60) // due and far ones in turn
		for i := range ts {
			r.Add(&ts[i], 50+int64(i%2)*800, 0)
		}
		buf := make([]*wheel.Timer, 5)
		got := map[*wheel.Timer]bool{}
		n, _ := r.Collect(5, buf)
		for _, timer := range buf[:n] {
			got[timer] = true
		}
		gone := map[*wheel.Timer]bool{}
		for i := range removed {
			timer := &ts[(i*7)%60]
			if !got[timer] {
				r.Remove(timer)
				gone[timer] = true
			}
		}
		for _, timer := range collectAll(r, 5, 5) {
			require.False(t, got[timer] || gone[timer])
			got[timer] = true
		}
		far := 0
		for i := range ts {
			if !gone[&ts[i]] {
				require.Equal(t, i%2 == 0, got[&ts[i]], "timer %d", i)
				far += i % 2
			}
		}
		require.NoError(t, r.Check(far))
		if far > 0 {
			require.Equal(t, int64(85), r.Next())
		}
	}
}

func TestRingCollectIsBoundedInOneBucketOfFarTimers(t *testing.T) {
	for what, later := range map[string]int64{"soon": 1, "much later": 64 * 1000} {
		t.Run(what, func(t *testing.T) {
			r := wheel.NewRing(10, 8)
			ts := make([]wheel.Timer, 20_000)
			var first wheel.Timer
			r.Add(&first, 10*1000, 0)
			for i := range ts {
				r.Add(&ts[i], 10*(1000+later), 0)
			}
			calls := 1
			buf := make([]*wheel.Timer, 4)
			for n := 0; ; calls++ {
				k, finished := r.Collect(1000, buf)
				if n += k; finished {
					require.Equal(t, 1, n)
					break
				}
			}
			require.Greater(t, calls, 20_000/16/40, "the lock is let go now and then")
			require.Equal(t, 1000+later, r.Next())
			require.NoError(t, r.Check(20_000))
		})
	}
}

func TestRingFarTimersFireAtTheirTicksAndCostNoWakeUp(t *testing.T) {
	for _, slots := range []int64{1, 2, 8, 64, 1024} {
		random := rand.New(rand.NewPCG(uint64(slots), 1))
		r := wheel.NewRing(10, slots)
		ts := make([]wheel.Timer, 2000)
		for i := range ts {
			r.Add(&ts[i], random.Int64N(slots*10*300), 0)
		}
		ticks := map[int64]bool{}
		left := len(ts)
		for left > 0 {
			tick := r.Next()
			require.False(t, ticks[tick])
			ticks[tick] = true
			got := collectAll(r, tick, 7)
			require.NotEmpty(t, got, "a wake-up at tick %d of %d slots, for nothing", tick, slots)
			for _, timer := range got {
				require.Equal(t, tick, (r.Deadline(timer)+9)/10)
			}
			left -= len(got)
			require.NoError(t, r.Check(left))
		}
		require.Equal(t, int64(never), r.Next())
	}
}

func TestRingFarTimersComeNearAFewAtATime(t *testing.T) {
	const slots, first = 1024, 20 * 512 // the first tick of a far bucket
	r := wheel.NewRing(10, slots)
	ts := make([]wheel.Timer, 512)
	for i := range ts {
		r.Add(&ts[i], int64(first+i)*10, 0)
	}
	require.Empty(t, collectAll(r, 1, 7))
	require.Equal(t, 512, r.Far())
	require.Len(t, collectAll(r, first, 7), 1)
	require.Equal(t, 512-1-slots/32, r.Far())
}

func TestRingHasNothingToDoForFarTimersThatAreGone(t *testing.T) {
	r := wheel.NewRing(10, 8)
	ts := make([]wheel.Timer, 2)
	r.Add(&ts[0], 10*100, 0)
	r.Add(&ts[1], 10*300, 0)
	require.Empty(t, collectAll(r, 1, 4)) // they are in their buckets now
	require.Equal(t, 2, r.Far())
	r.Remove(&ts[0])
	require.Equal(t, int64(300), r.Next())
	r.Remove(&ts[1])
	require.Equal(t, int64(never), r.Next())
}

func TestRingFreeListIsBoundedByWhatIsInUse(t *testing.T) {
	r := wheel.NewRing(10, 8)
	ts := make([]wheel.Timer, 15_000)
	for i := range ts {
		r.Add(&ts[i], 50, 0)
	}
	for i := range ts {
		r.Remove(&ts[i])
		if i%500 == 0 {
			require.NoError(t, r.Check(len(ts)-i-1))
		}
	}
	require.NoError(t, r.Check(0))
	require.LessOrEqual(t, r.SpareChunks(), 17)
}

func TestAnEmptyRingKeepsNoHeadersOfTheChunksThatItHad(t *testing.T) {
	r := wheel.NewRing(10, 8)
	ts := make([]wheel.Timer, 100_000)
	for _, fire := range []bool{false, true} {
		for i := range ts {
			r.Add(&ts[i], 50, r.Next())
		}
		require.Greater(t, r.Headers(), len(ts)/16)
		if fire {
			require.Len(t, collectAll(r, 20, 1000), len(ts))
		} else {
			for i := range ts {
				r.Remove(&ts[i])
			}
		}
		require.NoError(t, r.Check(0))
		require.LessOrEqual(t, r.Headers(), 1000)
	}
}

func TestShardsDoNotShareCacheLines(t *testing.T) {
	if ^uint(0)>>32 == 0 {
		t.Skip("padded for 64 bits")
	}
	require.Zero(t, wheel.CacheLines)
}

func TestRingNeverGoesBack(t *testing.T) {
	r := wheel.NewRing(10, 1024)
	require.Empty(t, collectAll(r, 12, 4))
	require.Empty(t, collectAll(r, 5, 4), "a driver that goes back")
	var timer wheel.Timer
	require.Equal(t, int64(13), r.Add(&timer, 90, 6), "a caller that read open before the driver passed")
	require.NoError(t, r.Check(1))
	require.Equal(t, int64(13), r.Next())
	require.Equal(t, []*wheel.Timer{&timer}, collectAll(r, 13, 4))
}
