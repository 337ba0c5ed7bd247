package wheel

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
	"unsafe"

	"explored/sched"
)

// job is an Every whose calls an Executor runs, and counts what becomes of it.
type job struct {
	w       *Wheel
	every   *every
	until   int64 // the tick until which the driver sleeps, -1 if it is awake
	queue   []func()
	queued  sched.Object
	call    sched.Object
	running bool
	calls   int
	refuse  int // how many further calls the Executor refuses
	refused int
	stopped int
	resets  int // Resets that started a stopped timer again
	gone    bool
	ended   bool // the last call of the only caller was Stop
}

// jobOperation is what the only caller does.
type jobOperation struct {
	name   string
	heldUp int // how often a goroutine may be held up
	refuse int
	do     func(*job)
}

func (j *job) stop() {
	if j.every.timer.Stop() {
		j.stopped++
	} else if !j.gone {
		sched.Failf("a Stop found the job not pending")
	}
	j.ended = true
}

func (j *job) reset(d int64) {
	was, err := j.every.timer.Reset(duration(d * length))
	if err != nil && !j.gone {
		sched.Failf("Reset: %v", err)
	}
	if err == nil && !was {
		j.resets++
	}
	j.ended = false
}

// The operations that find most faults are first, so that tests with a built-in fault end soon.
var jobOperations = []jobOperation{
	{"Stop", 1, 0, (*job).stop},
	{"a refusal, and Reset now", 1, 1, func(j *job) { j.reset(0) }},
	{"a refusal, and Wheel.Stop", 2, 1, func(j *job) { j.w.Stop(); j.gone = true }},
	{"Wheel.Stop", 1, 0, func(j *job) { j.w.Stop(); j.gone = true }},
	{"Reset now", atMost(1), 0, func(j *job) { j.reset(0) }},
	{"Stop, and Reset now", 0, 0, func(j *job) { j.stop(); j.reset(0) }},
}

func newJob(o jobOperation) func() ([]sched.Thread, func()) {
	return func() ([]sched.Thread, func()) {
		j := &job{until: -1, refuse: o.refuse}
		full := errors.New("full")
		w, err := New(Config{Tick: 1000, Slots: 4, MaxPending: 1, SlowCallback: time.Hour,
			OnError: func(err *CallbackError) {
				if !errors.Is(err, full) {
					sched.Failf("%v", err)
				}
			},
			Executor: func(run func()) error {
				if j.refuse > 0 {
					j.refuse--
					j.refused++
					return full
				}
				sched.Point(&j.queued, "give to")
				j.queue = append(j.queue, run)
				sched.Set(&j.queued, uint64(len(j.queue)+j.calls<<8))
				return nil
			}})
		if err != nil {
			panic(err)
		}
		j.w = w
		w.cfg.Tick, w.start = length, time.Unix(0, 0)
		w.started.Store(true)
		w.wakeAt.Store(awake)
		w.driver = &driver{}
		for i := range w.shards {
			s := &w.shards[i]
			s.ring.tickLength = length
			sched.ID(unsafe.Pointer(s), false)
			s.mu.Watch(fmt.Sprintf("shard %d", i))
			s.next.WatchUnder(s.mu.Held, fmt.Sprintf("next of shard %d", i))
		}
		w.firstOpenTick.Watch("firstOpenTick")
		w.wakeAt.Watch("wakeAt")
		sched.Watch(&w.wakeObject, "wake")
		w.mu.Watch("Wheel.mu")
		w.stopped.Watch("stopped")
		sched.Watch(&j.queued, "the Executor's queue")
		sched.Watch(&j.call, "a call")
		for i := range 2 {
			w.driver.slots[i].hasState(undecided)
		}
		timer, err := w.Every(length, func(t *Timer) {
			if j.running {
				sched.Failf("two calls overlap")
			}
			if state := t.State(); state != Pending && j.stopped == 0 && !w.stopped.Load() {
				sched.Failf("the timer is %v while its call runs", state)
			}
			j.running = true
			j.calls++
			sched.Point(&j.call, "work in")
			j.running = false
		})
		if err != nil {
			panic(err)
		}
		j.every = timer.Task().(*every)
		j.every.busy.Watch("busy")
		work := func() {
			for {
				sched.Block(&j.queued, "take from", func() bool { return len(j.queue) > 0 })
				run := j.queue[0]
				j.queue = j.queue[1:]
				sched.Set(&j.queued, uint64(len(j.queue)+j.calls<<8))
				run()
			}
		}
		return []sched.Thread{
			{Name: "driver", Body: func() { drive(w, &j.until) }},
			{Name: "Executor", Body: work},
			{Name: "Executor, too", Body: work},
			{Name: "caller", Body: func() { o.do(j) }},
		}, j.check
	}
}

// check checks a state in which no thread can continue.
func (j *job) check() {
	w, t := j.w, &j.every.timer
	if j.until < 0 && !w.stopped.Load() {
		sched.Failf("the driver is stuck")
	}
	if j.every.busy.Load() {
		sched.Failf("a call that has ended keeps the job busy")
	}
	st, state := w.Stats(), t.State()
	switch {
	case w.stopped.Load() || j.ended:
		if state != Stopped {
			sched.Failf("it is %v and not stopped", state)
		}
	case state != Pending:
		sched.Failf("the job has ended by itself: it is %v", state)
	case j.until > max(t.shard.Load().ring.tickOf(t.deadline.at()), sched.Time()/length+1):
		sched.Failf("it is due at tick %d, and the driver sleeps to tick %d", t.shard.Load().ring.tickOf(t.deadline.at()), j.until)
	}
	if st.Armed != int64(st.Pending)+st.Fired+st.Stopped+st.Returned || int(st.Stopped) != j.stopped ||
		st.Armed != 1+st.Fired+int64(j.resets) || int64(j.calls+j.refused) > st.Fired {
		sched.Failf("%d calls, %d refused, %d stopped, %d begun again, but %+v", j.calls, j.refused, j.stopped, j.resets, st)
	}
	if int64(j.calls+j.refused)+st.SkippedPeriods < st.Fired {
		sched.Failf("%d of %d firings were neither calls nor counted: %+v", st.Fired-int64(j.calls), st.Fired, st)
	}
	if w.pending.Load() != int64(st.Pending) {
		sched.Failf("%d places are taken, for %d pending", w.pending.Load(), st.Pending)
	}
}

func TestExploreEvery(t *testing.T) {
	total := 0
	for i, o := range jobOperations {
		if os.Getenv("WHEELLOCK_STATES") == "" && i%2 == 1 {
			continue
		}
		p := sched.Program{Setup: newJob(o), Clock: []int64{0, 2 * length, 4 * length}, HeldUp: o.heldUp}
		states, story := sched.Explore(p)
		total += states
		if story != "" {
			t.Fatalf("Every and %s, after %d states: %s", o.name, total, story)
		}
		fmt.Printf("Every and %s: %d states\n", o.name, states)
	}
	fmt.Println("states of Every:", total)
}
