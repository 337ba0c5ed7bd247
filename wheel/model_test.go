package wheel_test

import (
	"fmt"
	"maps"
	"math/bits"
	"os"
	"slices"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/wheel"
)

// simpleWheel is the slow, obvious wheel: a slice of timers, sorted when time moves.
type simpleWheel struct {
	tick  time.Duration
	now   time.Duration
	since time.Duration // the last tick at which callbacks ran; a timer that a callback arms fires at a later tick
	ts    []*simpleTimer
	stats wheel.Stats
	late  time.Duration // the sum of all latenesses
	fired []event
}

type simpleTimer struct {
	id       int
	state    wheel.State
	deadline time.Duration
	at       time.Duration // the tick at which it fires
	then     action        // what its callback does
}

type event struct {
	id int
	at time.Duration
}

// action is what a callback does with its own timer.
type action struct {
	kind  byte // 0 nothing, 1 Next, 2 Reset
	d     time.Duration
	times int
}

func (w *simpleWheel) arm(t *simpleTimer, deadline time.Duration, inCallback bool) {
	if t.state != wheel.Pending {
		w.stats.Armed++
		w.stats.Pending++
	}
	t.state, t.deadline = wheel.Pending, deadline
	t.at = (deadline + w.tick - 1) / w.tick * w.tick
	if inCallback && t.at <= w.since {
		t.at = w.since + w.tick
	}
}

func (w *simpleWheel) stop(t *simpleTimer) bool {
	if t.state != wheel.Pending {
		return false
	}
	t.state = wheel.Stopped
	w.stats.Pending--
	w.stats.Stopped++
	return true
}

func (w *simpleWheel) next(t *simpleTimer, period time.Duration, inCallback bool) {
	deadline := t.deadline + period
	for deadline <= w.now {
		deadline += period
		w.stats.SkippedPeriods++
	}
	w.arm(t, deadline, inCallback)
}

// roundWithin is the deadline of a ScheduleWithin: it looks at every tick that may be.
func (w *simpleWheel) roundWithin(deadline, slack time.Duration) time.Duration {
	best, zeros := deadline, -1
	for k := (deadline + w.tick - 1) / w.tick; k*w.tick <= deadline+slack; k++ {
		if n := bits.TrailingZeros64(uint64(k)); n > zeros && slack > 0 {
			best, zeros = k*w.tick, n
		}
	}
	if (deadline+w.tick-1)/w.tick >= (deadline+slack)/w.tick {
		return deadline // at most one tick: exact
	}
	return best
}

func (w *simpleWheel) advance(d time.Duration) {
	end := w.now + d
	for {
		sort.SliceStable(w.ts, func(i, j int) bool { return w.ts[i].at < w.ts[j].at })
		i := slices.IndexFunc(w.ts, func(t *simpleTimer) bool { return t.state == wheel.Pending })
		if i < 0 || w.ts[i].at > end {
			w.now = end
			return
		}
		t := w.ts[i]
		w.now, w.since = t.at, t.at
		t.state = wheel.Fired
		w.stats.Pending--
		w.stats.Fired++
		w.late += t.at - t.deadline
		w.fired = append(w.fired, event{t.id, t.at})
		if t.then.times > 0 {
			t.then.times--
			switch t.then.kind {
			case 1:
				w.next(t, t.then.d, true)
			case 2:
				w.arm(t, w.now+max(0, t.then.d), true)
			}
		}
	}
}

// modelTimer is the same timer in the wheel.
type modelTimer struct {
	wheel.Timer
	id   int
	then action
	m    *model
}

type model struct {
	began time.Time
	fired []event
}

func (t *modelTimer) Fire(timer *wheel.Timer) {
	t.m.fired = append(t.m.fired, event{t.id, time.Since(t.m.began)})
	if t.then.times > 0 {
		t.then.times--
		switch t.then.kind {
		case 1:
			_ = timer.Next(t.then.d)
		case 2:
			_, _ = timer.Reset(t.then.d)
		}
	}
}

// play runs byte-coded operations on a wheel and on its simple model, and compares them after each. Call it
// in a bubble. No operation comes at a tick, so it is always clear whether a tick has been processed.
func play(t require.TestingT, ops []byte) {
	read := func() int {
		if len(ops) == 0 {
			return 0
		}
		b := ops[0]
		ops = ops[1:]
		return int(b)
	}
	ticks := []time.Duration{10 * ms, ms, 7 * ms, 1_000_003}
	cfg := wheel.Config{Tick: ticks[read()%4], Slots: 1 << (read() % 8)}
	w, err := wheel.New(cfg)
	require.NoError(t, err)
	defer func() {
		w.Stop()
		<-w.Done()
	}()
	tw := &simpleWheel{tick: cfg.Tick}
	m := &model{began: time.Now()}
	var timers []*modelTimer
	var twins []*simpleTimer
	pass := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
		tw.advance(d)
	}
	pass(1)
	// delay is one of many kinds: short, some ticks, around the wheel's span, some revolutions.
	span := cfg.Tick * time.Duration(cfg.Slots)
	delay := func() time.Duration {
		n := time.Duration(read())
		switch kind := read() % 6; kind {
		case 0:
			return n - 128
		case 1:
			return n * cfg.Tick / 64
		case 2:
			return n * cfg.Tick
		case 3:
			return span + (n-128)*cfg.Tick/16
		case 4:
			return n * span / 8
		default:
			return n % 8 * cfg.Tick // many to one tick
		}
	}
	for len(ops) > 0 {
		op := read()
		var i int
		if len(timers) > 0 {
			i = read() % len(timers)
		}
		switch op := op % 9; {
		case op <= 1 || len(timers) == 0: // a new timer
			d := delay()
			then := action{byte(read() % 3), max(cfg.Tick/7, delay()), read() % 4}
			timer := &modelTimer{id: len(timers), then: then, m: m}
			other := &simpleTimer{id: timer.id, then: then}
			timers, twins = append(timers, timer), append(twins, other)
			tw.ts = append(tw.ts, other)
			if op == 1 {
				slack := delay() % (300 * cfg.Tick)
				require.NoError(t, w.ScheduleWithin(&timer.Timer, d, slack, timer))
				tw.arm(other, tw.roundWithin(tw.now+max(0, d), slack), false)
			} else {
				require.NoError(t, w.Schedule(&timer.Timer, d, timer))
				tw.arm(other, tw.now+max(0, d), false)
			}
		case op == 2:
			require.Equal(t, tw.stop(twins[i]), timers[i].Stop())
		case op == 3 || op == 4:
			d := delay()
			was, err := timers[i].Reset(d)
			require.NoError(t, err)
			require.Equal(t, twins[i].state == wheel.Pending, was)
			tw.arm(twins[i], tw.now+max(0, d), false)
		case op == 5:
			d := max(cfg.Tick/3, delay())
			require.NoError(t, timers[i].Next(d))
			tw.next(twins[i], d, false)
		case op == 6:
			d := delay()
			was := timers[i].Touch(d)
			require.Equal(t, twins[i].state == wheel.Pending, was)
			if was {
				tw.arm(twins[i], tw.now+max(0, d), false)
			}
		default:
			d := max(0, delay())
			if (tw.now+d)%cfg.Tick == 0 {
				d++
			}
			pass(d)
		}
		require.Equal(t, sorted(tw.fired), sorted(m.fired))
		tw.fired, m.fired = nil, nil
		st := w.Stats()
		require.EqualValues(t, st.Fired, st.Lateness.Count)
		require.Equal(t, tw.late, st.Lateness.Sum)
		require.LessOrEqual(t, st.Lateness.Max, cfg.Tick, "nothing delays them here")
		st.WakeUps, st.LargestLateness, st.Lateness = 0, 0, wheel.Distribution{}
		require.Equal(t, tw.stats, st)
		for i := range timers {
			require.Equal(t, twins[i].state, timers[i].State(), "timer %d", i)
			require.Equal(t, twins[i].deadline, timers[i].Deadline().Sub(m.began), "timer %d", i)
		}
	}
	pending := 0
	for _, other := range twins {
		if other.state == wheel.Pending {
			pending++
		}
	}
	require.Len(t, w.Stop(), pending)
}

func sorted(es []event) []event {
	slices.SortFunc(es, func(a, b event) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.id - b.id
	})
	return es
}

// verdict takes a failure out of the bubble, so that rapid can look for a shorter sequence that fails.
type verdict struct{ failure string }

func (v *verdict) Errorf(format string, args ...any) { v.failure = fmt.Sprintf(format, args...) }
func (v *verdict) FailNow()                          { panic(v) }

func TestWheelBehavesAsItsTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 400).Draw(rt, "n") // without a fixed length, rapid draws mostly short slices
		ops := rapid.SliceOfN(rapid.Byte(), n, n).Draw(rt, "ops")
		var v verdict
		synctest.Test(t, func(*testing.T) {
			defer func() {
				if r := recover(); r != nil && r != &v {
					panic(r)
				}
			}()
			play(&v, ops)
		})
		if v.failure != "" {
			rt.Fatal(v.failure)
		}
	})
}

func FuzzWheel(f *testing.F) {
	f.Add([]byte("\x00\x03\x00\x00\x07\x05\x01\x02\x02\x03\x07\x00\x40\x02"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 2000 {
			t.Skip("long inputs find nothing that short ones do not")
		}
		synctest.Test(t, func(t *testing.T) { play(t, ops) })
	})
}

// TestRingBehavesAsASortedSlice compares the ring with a slice, in time that the test moves.
func TestRingBehavesAsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tick := rapid.Int64Range(1, 20).Draw(t, "tick")
		slots := int64(1) << rapid.IntRange(0, 9).Draw(t, "slots")
		r := wheel.NewRing(tick, slots)
		type filed struct{ deadline, at int64 }
		pending := map[*wheel.Timer]filed{}
		var ts []*wheel.Timer // of pending, in the order of arrival
		var done int64 = -1
		left := map[int64]bool{} // ticks that a timer was stopped or moved away from: one look at each is allowed
		earliest := func() int64 {
			low := int64(never)
			for _, f := range pending {
				low = min(low, f.at)
			}
			return low
		}
		at := func(deadline int64) int64 {
			if deadline == never {
				return never
			}
			return max((deadline+tick-1)/tick, done+1)
		}
		deadline := func(t *rapid.T) int64 {
			if rapid.IntRange(0, 20).Draw(t, "never") == 0 {
				return never
			}
			revolutions := rapid.SampledFrom([]int64{1, 3, 100}).Draw(t, "revolutions") // a far bucket comes again after 32
			return max(0, (done+1)*tick+rapid.Int64Range(-5*tick, revolutions*tick*slots).Draw(t, "deadline"))
		}
		drop := func(timer *wheel.Timer) {
			delete(pending, timer)
			ts = slices.DeleteFunc(ts, func(x *wheel.Timer) bool { return x == timer })
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				d := deadline(t)
				for range rapid.IntRange(1, 40).Draw(t, "n") {
					timer := new(wheel.Timer)
					r.Add(timer, d, done+1)
					pending[timer] = filed{d, at(d)}
					ts = append(ts, timer)
				}
			},
			"remove": func(t *rapid.T) {
				if len(ts) == 0 {
					t.Skip()
				}
				timer := rapid.SampledFrom(ts).Draw(t, "timer")
				r.Remove(timer)
				left[pending[timer].at] = true
				drop(timer)
			},
			"postpone": func(t *rapid.T) {
				if len(ts) == 0 {
					t.Skip()
				}
				timer := rapid.SampledFrom(ts).Draw(t, "timer")
				d := deadline(t)
				old := pending[timer]
				r.Postpone(timer, d, done+1)
				f := filed{d, at(d)}
				if d <= old.deadline && old.deadline <= done*tick {
					f.at = max(f.at, old.at)
				}
				pending[timer] = f
				left[old.at] = true
			},
			"postpone without the lock": func(t *rapid.T) {
				if len(ts) == 0 {
					t.Skip()
				}
				timer := rapid.SampledFrom(ts).Draw(t, "timer")
				d := deadline(t)
				old := pending[timer]
				if want := timer.Movable() && d >= old.deadline; r.PostponeUnlocked(timer, d) != want {
					t.Fatalf("moved from %d to %d: %v", old.deadline, d, !want)
				} else if !want {
					return
				}
				pending[timer] = filed{d, at(d)}
				left[old.at] = true
			},
			"collect": func(t *rapid.T) {
				to := done + rapid.Int64Range(0, 3*slots).Draw(t, "ticks")
				if low := earliest(); low != never && rapid.Bool().Draw(t, "as the driver does") {
					to = max(done, low)
				}
				buf := make([]*wheel.Timer, rapid.IntRange(1, 50).Draw(t, "buffer"))
				for finished := false; !finished; {
					var n int
					n, finished = r.Collect(to, buf)
					for _, timer := range buf[:n] {
						f, ok := pending[timer]
						if !ok || f.deadline > to*tick || timer.Movable() {
							t.Fatalf("collected at %d: %v %v %v", to*tick, f, ok, timer.Movable())
						}
						drop(timer)
					}
					if !finished && len(ts) > 0 && rapid.Bool().Draw(t, "remove between") {
						timer := rapid.SampledFrom(ts).Draw(t, "timer")
						r.Remove(timer)
						left[pending[timer].at] = true
						drop(timer)
					}
				}
				done = max(done, to)
				if low := earliest(); low <= to {
					t.Fatalf("left behind at %d: one due at %d", to, low)
				}
				maps.DeleteFunc(left, func(at int64, _ bool) bool { return at <= to })
			},
			"": func(t *rapid.T) {
				if err := r.Check(len(pending)); err != nil {
					t.Fatal(err)
				}
				next, want := r.Next(), earliest()
				if next > want || next < want && !left[next] {
					t.Fatalf("next is %d, the earliest is at %d, left: %v", next, want, left)
				}
			},
		})
	})
}

// TestFuzzCorpusIsThere: the corpus of FuzzWheel is committed.
func TestFuzzCorpusIsThere(t *testing.T) {
	entries, err := os.ReadDir("testdata/fuzz/FuzzWheel")
	require.NoError(t, err)
	require.Greater(t, len(entries), 10, fmt.Sprint(entries))
}
