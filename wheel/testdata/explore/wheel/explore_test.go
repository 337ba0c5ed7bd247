// This test belongs to a copy of package wheel in which every operation on shared memory is a point where its goroutine
// can be held up; see sched, and ../../../explore_test.go, which makes the copy and runs it.
package wheel

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"explored/sched"
)

const length = 10 // of a tick, ns

// record is a timer, and counts what becomes of it.
type record struct {
	Timer
	name     string
	m        *world
	armed    int // armings that a call has reported
	fired    int
	stopped  int // Stops that returned true
	earliest int64
	fire     func(*Timer) // what its callback does
}

func (r *record) Fire(t *Timer) {
	r.fired++
	if r == &r.m.x {
		r.m.history.note(0, "fire", 0, func() (bool, error) { return true, nil })
	}
	if now := sched.Time(); now < r.earliest {
		sched.Failf("%s fired at %d, before %d", r.name, now, r.earliest)
	}
	if r.fire != nil {
		r.fire(t)
	}
}

// world is a wheel with two shards and four slots, whose driver the explorer steps.
type world struct {
	w          *Wheel
	other      *Wheel // x goes to it in some stories; it has no driver
	history    history
	from       model // x at the beginning
	x, y, a, b record
	until      int64 // the tick until which the driver sleeps, -1 if it is awake
	gone       bool  // Wheel.Stop was called
	returned   int
	uncounted  bool // there is a Next, which does not say whether it armed x or moved it
}

func (m *world) records() []*record { return []*record{&m.x, &m.y, &m.a, &m.b} }

// operation is what a caller does.
type operation struct {
	name  string
	x     bool // it uses x, which is then armed at the beginning
	stops bool // it calls Wheel.Stop
	moves bool // x goes to the other wheel
	do    func(m *world, own *record)
}

// thread is the number of the caller whose own record is given.
func (m *world) thread(own *record) int {
	if own == &m.a {
		return 1
	}
	return 2
}

// of returns an operation that makes a call of x and notes it.
func of(call string, d int64, do func(m *world) (bool, error)) func(*world, *record) {
	return func(m *world, own *record) {
		m.x.expect(sched.Time() + d*length)
		m.history.note(m.thread(own), call, d*length, func() (bool, error) { return do(m) })
	}
}

// then returns an operation that makes calls one after the other.
func then(calls ...func(*world, *record)) func(*world, *record) {
	return func(m *world, own *record) {
		for _, call := range calls {
			call(m, own)
		}
	}
}

func (r *record) expect(at int64) { r.earliest = min(r.earliest, at) }

// arm returns an operation that schedules the caller's own timer d ticks ahead of the clock.
func arm(d int64) func(*world, *record) {
	return func(m *world, own *record) {
		own.expect(sched.Time() + d*length)
		if err := m.w.Schedule(&own.Timer, duration(d*length), own); err == nil {
			own.armed++
		} else if err != ErrStopped {
			sched.Failf("Schedule of %s: %v", own.name, err)
		}
	}
}

func reset(d int64) func(*world, *record) {
	return of("Reset", d, func(m *world) (bool, error) {
		was, err := m.x.Reset(duration(d * length))
		if err == nil && !was {
			m.x.armed++
		} else if err != nil && err != ErrStopped {
			sched.Failf("Reset: %v", err)
		}
		return was, err
	})
}

func touch(d int64) func(*world, *record) {
	return of("Touch", d, func(m *world) (bool, error) { return m.x.Touch(duration(d * length)), nil })
}

func next() func(*world, *record) {
	return of("Next", 1, func(m *world) (bool, error) {
		m.uncounted = true
		err := m.x.Next(length)
		return err == nil, err
	})
}

// schedule returns an operation that schedules x.
func schedule(call string, d int64, on func(*world) *Wheel) func(*world, *record) {
	return of(call, d, func(m *world) (bool, error) {
		err := on(m).Schedule(&m.x.Timer, duration(d*length), &m.x)
		if err == nil {
			m.x.armed++
		}
		return err == nil, err
	})
}

var stop = of("Stop", 0, func(m *world) (bool, error) {
	ok := m.x.Stop()
	if ok {
		m.x.stopped++
	}
	return ok, nil
})

var stopWheel = of("Wheel.Stop", 0, func(m *world) (ok bool, err error) {
	ts := m.w.Stop()
	m.returned += len(ts)
	m.gone = true
	return slices.Contains(ts, &m.x.Timer), nil
})

var operations = []operation{
	{name: "Schedule now", do: arm(0)},
	{name: "Schedule in a tick", do: arm(1)},
	{name: "Schedule far", do: arm(6)},
	{x: true, name: "x.Reset later", do: reset(3)},
	{x: true, name: "x.Reset now", do: reset(0)},
	{x: true, name: "x.Reset in a tick", do: reset(1)},
	{x: true, name: "x.Touch", do: touch(1)},
	{x: true, name: "x.Touch later", do: touch(3)},
	{x: true, name: "x.Touch twice", do: then(touch(2), touch(3))},
	{x: true, name: "x.Reset later and now", do: then(reset(3), reset(0))},
	{x: true, name: "x.Reset later and x.Stop", do: then(reset(3), stop)},
	{x: true, name: "x.Stop, x.Schedule and x.Touch", do: then(stop, schedule("Schedule", 2, wheelOf), touch(2))},
	{x: true, name: "x.Stop and x.Touch", do: then(stop, touch(3))},
	{x: true, name: "x.Next", do: next()},
	{x: true, name: "x.Stop", do: stop},
	{x: true, stops: true, moves: true, name: "x to another wheel", do: then(stopWheel, schedule("Schedule elsewhere", 1, otherOf), touch(1))},
	{name: "y.Stop", do: func(m *world, _ *record) {
		if m.y.Stop() {
			m.y.stopped++
		}
	}},
	{x: true, name: "x.Schedule", do: schedule("Schedule", 0, wheelOf)},
	{name: "Wheel.Stop", stops: true, do: stopWheel},
}

func wheelOf(m *world) *Wheel { return m.w }
func otherOf(m *world) *Wheel { return m.other }

// newWorld makes a world in which x is due at tick 1, in shard 0, and y at tick 2, in shard 1. a and b are the callers' own
// timers, in shards 0 and 1. If moved is not 0, x is filed at tick 1 and was then moved to tick moved, so that its deadline is movable.
func newWorld(first, second operation, again bool, moved int64) func() ([]sched.Thread, func()) {
	return func() ([]sched.Thread, func()) {
		w, err := New(Config{Tick: 1000, Slots: 4, OnError: func(err *CallbackError) { sched.Failf("%v", err) }})
		if err != nil {
			panic(err)
		}
		w.cfg.Tick, w.start = length, time.Unix(0, 0)
		m := &world{w: w, until: -1}
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
		if first.stops || second.stops {
			w.mu.Watch("Wheel.mu")
			w.stopped.Watch("stopped")
		}
		for i, r := range m.records() {
			r.name, r.m, r.earliest = string("xyab"[i]), m, never
			sched.ID(unsafe.Pointer(&r.Timer), false)
			r.shard.Store(&w.shards[i%2])
		}
		for i := range 4 {
			w.driver.slots[i].hasState(undecided)
		}
		if again { // x is periodic
			m.uncounted = true
			m.x.fire = func(t *Timer) {
				if m.x.fired == 1 {
					m.history.note(0, "Next", length, func() (bool, error) {
						err := t.Next(length)
						return err == nil, err
					})
				}
			}
		}
		if moved != 0 { // x goes into a bucket, because what is in the inbox is filed anew before each tick
			m.x.shard.Load().ring.makeBuckets()
		}
		if first.x || second.x {
			arm(1)(m, &m.x)
			word := &m.x.deadline.word
			word.WatchUnder(func() bool { return word.Peek() >= 0 && m.x.shard.Peek().mu.Held() }, "deadline of x")
		}
		m.from = model{m.x.state, m.x.deadline.at(), false}
		if moved != 0 {
			m.x.shard.Load().ring.emptyInbox()
			if was, err := m.x.Reset(duration(moved * length)); !was || err != nil || m.x.deadline.word.Load() >= 0 {
				panic("x cannot be moved without the lock")
			}
			m.from.deadline = moved * length
		}
		if first.moves || second.moves {
			m.addOther()
		}
		arm(2)(m, &m.y)
		threads := []sched.Thread{
			{Name: "driver", Body: func() { drive(w, &m.until) }},
			{Name: "caller 1", Body: func() { first.do(m, &m.a) }},
			{Name: "caller 2", Body: func() { second.do(m, &m.b) }},
		}
		return threads, m.check
	}
}

// drive is the driver's loop. It sets *sleepsTo to the tick until which it sleeps, and to -1 while it is awake.
func drive(w *Wheel, sleepsTo *int64) {
	for !w.stopped.Load() {
		until, sleep := w.step(w.now())
		if !sleep {
			continue
		}
		*sleepsTo = until
		sched.Block(&w.wakeObject, "sleep, until", func() bool {
			return len(w.wake) > 0 || until != never && sched.Time() >= until*length
		})
		*sleepsTo = -1
		select {
		case <-w.wake:
		default:
		}
		w.stayAwake()
	}
}

// addOther makes the other wheel. It is a tick older than the first, so the deadline of the same instant is another number on it.
func (m *world) addOther() {
	w, err := New(Config{Tick: 1000, Slots: 4})
	if err != nil {
		panic(err)
	}
	m.other = w
	w.cfg.Tick, w.start = length, time.Unix(0, -length)
	w.started.Store(true)
	w.wakeAt.Store(awake)
	for i := range w.shards {
		s := &w.shards[i]
		s.ring.tickLength = length
		sched.ID(unsafe.Pointer(s), false)
		s.mu.Watch(fmt.Sprintf("shard %d of the other wheel", i))
		s.next.WatchUnder(s.mu.Held, fmt.Sprintf("next of shard %d of the other wheel", i))
	}
	m.x.shard.Watch("shard of x")
}

// check checks a state in which no thread can continue.
func (m *world) check() {
	w := m.w
	if m.until < 0 && !m.gone {
		sched.Failf("the driver is stuck")
	}
	now := sched.Time()
	var armed, fired, stopped, pending int
	for _, r := range m.records() {
		s := r.shard.Load()
		switch state := s.stateOf(&r.Timer); {
		case state != Pending:
		case r.state == due:
			sched.Failf("%s was collected and never claimed", r.name)
		default:
			pending++
			if e, _, _ := s.ring.entry(&r.Timer); e == nil {
				sched.Failf("%s is pending, but not in its ring", r.name)
			}
			due := s.ring.tickOf(r.deadline.at())
			if latest := max(due, now/length+1); s.wheel == w && m.until > latest {
				sched.Failf("%s is due at tick %d, it is tick %d, and the driver sleeps to tick %d", r.name, due, now/length, m.until)
			}
		}
		armed, fired, stopped = armed+r.armed, fired+r.fired, stopped+r.stopped
	}
	s := m.x.shard.Load()
	to := model{s.stateOf(&m.x.Timer), m.x.deadline.at() + s.wheel.start.UnixNano(), s.isWheelStopped}
	if m.from.state != Idle && !m.history.explains(m.from, to) {
		sched.Failf("no order of the calls explains this: x was %v, then %v, and now it is %v", m.from, m.history, to)
	}
	st := w.Stats()
	if m.other != nil {
		more := m.other.Stats()
		st.Armed, st.Pending = st.Armed+more.Armed, st.Pending+more.Pending
	}
	if fired != int(st.Fired) || stopped != int(st.Stopped) || m.returned != int(st.Returned) || pending != st.Pending || !m.uncounted && armed != int(st.Armed) {
		sched.Failf("%d armings, %d fired, %d stopped, %d returned, %d pending, but %+v", armed, fired, stopped, m.returned, pending, st)
	}
}

// stories has pairs of operations, how often their goroutines and the driver may be held up, and the tick to which x was moved
// before, 0 if it was not.
var stories = []struct {
	first, second string
	heldUp        int
	moved         int64
}{
	// x is moved without the lock. The stories that find most faults are first, so that tests with a built-in fault end soon.
	{"x.Reset later", "x.Stop", sched.Unbounded, 1},
	{"x.Touch", "x.Stop and x.Touch", 1, 1},
	{"x.Touch later", "x.Next", 1, 1},
	{"x.Reset later", "x to another wheel", 1, 2},
	{"x.Reset later", "x.Reset in a tick", 2, 2},

	{"Schedule in a tick", "Schedule now", atMost(2), 0},
	{"x.Stop", "x.Reset later", sched.Unbounded, 0},
	{"x.Stop", "x.Reset now", sched.Unbounded, 0},
	{"x.Stop", "x.Touch", sched.Unbounded, 0},
	{"x.Stop", "y.Stop", sched.Unbounded, 0},
	{"x.Stop", "x.Schedule", sched.Unbounded, 0},
	{"x.Reset later", "x.Reset now", 1, 0},
	{"x.Touch", "x.Schedule", atMost(2), 0},
	{"Schedule far", "x.Reset now", atMost(2), 0},
	{"Wheel.Stop", "x.Stop", 2, 0},
	{"Wheel.Stop", "Schedule in a tick", 2, 0},

	{"x.Reset later", "x.Reset now", 1, 2},
	{"x.Touch later", "x.Touch", 2, 1},
	{"x.Touch later", "Wheel.Stop", 2, 1},
	{"x.Touch twice", "x.Stop", 2, 1},
	{"x.Touch twice", "x.Reset later and now", 1, 1},
	{"x.Reset later and x.Stop", "x.Touch later", 1, 1},
	{"x.Touch later", "x.Stop, x.Schedule and x.Touch", 1, 2},
}

// atMost returns n if WHEELLOCK_STATES=all, else n-1, because n takes long.
func atMost(n int) int {
	if os.Getenv("WHEELLOCK_STATES") == "all" {
		return n
	}
	return n - 1
}

func TestExplore(t *testing.T) {
	byName := map[string]operation{}
	for _, o := range operations {
		byName[o.name] = o
	}
	total := 0
	for i, s := range stories {
		first, second := byName[s.first], byName[s.second]
		for _, again := range []bool{false, true} {
			if again && !first.x && !second.x || os.Getenv("WHEELLOCK_STATES") == "" && (again == (s.moved == 0) || i%2 == 1) {
				continue
			}
			p := sched.Program{Setup: newWorld(first, second, again, s.moved), Clock: []int64{0, 2 * length}, HeldUp: s.heldUp}
			states, story := sched.Explore(p)
			total += states
			if story != "" {
				t.Fatalf("%s and %s, x periodic: %v, after %d states: %s", first.name, second.name, again, total, story)
			}
			fmt.Printf("%s and %s, x periodic: %v: %d states\n", first.name, second.name, again, states)
		}
	}
	fmt.Println("states:", total)
}
