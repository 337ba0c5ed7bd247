package wheel_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/wheel"
)

// simpleEvery is the slow, obvious Every: it goes from one moment at which something
// happens to the next.
type simpleEvery struct {
	tick, period time.Duration
	async        bool // calls run in the Executor, beside the driver
	calls        []everyCall

	now      time.Duration
	pending  bool
	deadline time.Duration
	least    time.Duration // the earliest tick at which it may fire
	busy     bool
	until    time.Duration // the present call returns then
	next     time.Duration // what its claim has armed
	moved    bool          // somebody has moved or stopped the timer since

	began   []time.Duration // the calls
	refused int
	stats   wheel.Stats
}

// everyCall says what becomes of a call.
type everyCall struct {
	Refused bool
	Panics  bool
	Takes   time.Duration
	Stops   bool          // its own timer
	Resets  time.Duration // its own timer, if above 0
}

var errFull = errors.New("full")

func (w *simpleEvery) arm(deadline time.Duration) {
	if !w.pending {
		w.stats.Armed++
		w.stats.Pending++
	}
	w.pending, w.deadline, w.moved = true, deadline, true
}

func (w *simpleEvery) stop() bool {
	if !w.pending {
		return false
	}
	w.pending, w.moved = false, true
	w.stats.Pending--
	w.stats.Stopped++
	return true
}

// skip returns the first deadline after now, counted from last. It counts skipped periods.
func (w *simpleEvery) skip(last time.Duration) time.Duration {
	for last += w.period; last <= w.now; last += w.period {
		w.stats.SkippedPeriods++
	}
	return last
}

func (w *simpleEvery) advance(d time.Duration) {
	end := w.now + d
	for {
		at := time.Duration(1<<62 - 1)
		if w.pending {
			tick := max((w.deadline+w.tick-1)/w.tick*w.tick, w.least)
			at = max(tick, w.now)
			if w.busy && !w.async {
				at = max(at, w.until) // the driver makes the call
			}
		}
		if w.busy && w.until <= min(at, end) {
			w.now, w.busy = w.until, false
			if w.pending && !w.moved && w.deadline == w.next && w.next <= w.now {
				w.stats.SkippedPeriods++
				w.deadline = w.skip(w.next)
			}
			continue
		}
		if at > end {
			w.now = end
			return
		}
		w.now = at
		w.claim()
	}
}

func (w *simpleEvery) claim() {
	w.least = max((w.deadline+w.tick-1)/w.tick*w.tick, w.least) + w.tick
	w.stats.Armed++
	w.stats.Fired++
	w.deadline = w.skip(w.deadline)
	if w.busy {
		w.stats.SkippedPeriods++
		return
	}
	w.next, w.moved = w.deadline, false
	call := w.calls[(len(w.began)+w.refused)%len(w.calls)]
	if call.Refused && w.async {
		w.refused++
		w.stats.SkippedPeriods++
		return
	}
	w.began = append(w.began, w.now)
	w.busy, w.until = true, w.now+call.Takes
	if call.Panics {
		w.stats.Panics++
	}
	if call.Resets > 0 {
		w.arm(w.now + call.Resets)
	}
	if call.Stops {
		w.stop()
	}
}

// TestEveryBehavesAsItsTwin: calls that hang, fail, are refused, stop or move their timer; and
// others who stop and move it meanwhile.
func TestEveryBehavesAsItsTwin(t *testing.T) {
	const tick = 10 * ms
	rapid.Check(t, func(rt *rapid.T) {
		// No moment is on a tick or equal to another one, so the order of two is always clear.
		odd := func(label string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(rt, label))*ms + time.Duration(1+2*rapid.IntRange(0, 9999).Draw(rt, label+" ns"))
		}
		twin := &simpleEvery{tick: tick, period: ms + odd("period", 60), async: rapid.Bool().Draw(rt, "async")}
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			call := everyCall{Takes: odd("takes", 9)}
			switch rapid.IntRange(0, 7).Draw(rt, "kind") {
			case 0:
				call.Refused = true
			case 1:
				call.Panics = true
			case 2:
				call.Takes = odd("hangs", 300)
			case 3:
				call.Resets = odd("resets", 100)
			case 4:
				call.Resets, call.Takes = odd("resets", 30), odd("hangs", 200)
			case 5:
				call.Stops = rapid.IntRange(0, 3).Draw(rt, "stops") == 0
			}
			twin.calls = append(twin.calls, call)
		}
		type op struct {
			kind int
			d    time.Duration
		}
		var ops []op
		for range rapid.IntRange(1, 30).Draw(rt, "ops") {
			ops = append(ops, op{rapid.IntRange(0, 9).Draw(rt, "op"), odd("for", 150)})
		}
		var failure string
		synctest.Test(t, func(t *testing.T) {
			failure = playEvery(t, twin, len(ops), func(i int) (int, time.Duration) { return ops[i].kind, ops[i].d })
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

// playEvery runs operations on an Every and on its simple model, and says where they differ.
func playEvery(t *testing.T, twin *simpleEvery, n int, op func(int) (int, time.Duration)) string {
	var v verdict
	defer func() {
		if r := recover(); r != nil && r != &v {
			panic(r)
		}
	}()
	var mu sync.Mutex // guards what follows
	var began []time.Duration
	refusals, given, running, overlap := 0, 0, false, false
	cfg := wheel.Config{Tick: twin.tick, Slots: 16, MaxPending: 1, SlowCallback: time.Hour, OnError: func(*wheel.CallbackError) {}}
	if twin.async {
		cfg.Executor = func(run func()) error {
			mu.Lock()
			defer mu.Unlock()
			call := twin.calls[given%len(twin.calls)]
			given++
			if call.Refused {
				refusals++
				return errFull
			}
			go run()
			return nil
		}
	}
	w, err := wheel.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	timer, err := w.Every(twin.period, func(timer *wheel.Timer) {
		mu.Lock()
		overlap, running = overlap || running, true
		call := twin.calls[(len(began)+refusals)%len(twin.calls)]
		began = append(began, time.Since(start))
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			running = false
		}()
		if call.Resets > 0 {
			_, _ = timer.Reset(call.Resets)
		}
		if call.Stops {
			timer.Stop()
		}
		time.Sleep(call.Takes)
		if call.Panics {
			panic("in a call")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	twin.arm(twin.period)
	for i := range n {
		kind, d := op(i)
		switch {
		case kind == 0:
			if got, want := timer.Stop(), twin.stop(); got != want {
				v.Errorf("op %d: Stop is %v and not %v", i, got, want)
			}
		case kind <= 2:
			if _, err := timer.Reset(d); err != nil {
				v.Errorf("op %d: Reset: %v", i, err)
			}
			twin.arm(twin.now + d)
		default:
			time.Sleep(d)
			synctest.Wait()
			twin.advance(d)
		}
		st := w.Stats()
		st.Lateness = wheel.Distribution{}
		st.WakeUps, st.LargestLateness, st.Running, st.RunningFor, st.Behind = 0, 0, nil, 0, 0
		twin.stats.Panics = min(twin.stats.Panics, st.Panics+1) // that of a call that has not returned is still to come
		if twin.busy || st.Panics == twin.stats.Panics {
			st.Panics = twin.stats.Panics
		}
		mu.Lock()
		calls, refused, twice := slices.Clone(began), refusals, overlap
		mu.Unlock()
		switch {
		case twice:
			v.Errorf("op %d: two calls overlap", i)
		case !slices.Equal(calls, twin.began):
			v.Errorf("op %d: the calls were at %v and not at %v", i, calls, twin.began)
		case st != twin.stats:
			v.Errorf("op %d: %+v and not %+v", i, st, twin.stats)
		case refused != twin.refused:
			v.Errorf("op %d: %d were refused, and not %d", i, refused, twin.refused)
		}
		if v.failure != "" {
			break
		}
	}
	returned, err := w.Shutdown(t.Context())
	if err != nil || len(returned) != twin.stats.Pending {
		v.Errorf("Shutdown: %d timers, %v", len(returned), err)
	}
	return v.failure
}
