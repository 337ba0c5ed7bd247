// This test belongs to a copy of package wheel in which every operation on shared memory is a point where its goroutine
// can be held up; see sched, and ../../../explore_test.go, which makes the copy and runs it.
package wheel

import (
	"fmt"
	"testing"
	"unsafe"

	"explored/sched"
)

const length = 10 // of a tick, ns

// record is a timer and what became of it.
type record struct {
	Timer
	name     string
	m        *world
	armed    int // armings that callers know of
	fired    int
	stopped  int // Stops that said true
	earliest int64
	fire     func(*Timer) // what its callback does
}

func (r *record) Fire(t *Timer) {
	r.fired++
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
	x, y, a, b record
	until      int64 // what the driver sleeps to, -1 if it is awake
	gone       bool  // Wheel.Stop was called
	returned   int
}

func (m *world) records() []*record { return []*record{&m.x, &m.y, &m.a, &m.b} }

// operation is one that a caller does.
type operation struct {
	name  string
	x     bool // it is of x, which is armed then
	stops bool
	do    func(m *world, own *record)
}

func (r *record) expect(at int64) { r.earliest = min(r.earliest, at) }

// arm is a Schedule d ticks ahead of the clock.
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
	return func(m *world, _ *record) {
		m.x.expect(sched.Time() + d*length)
		if was, err := m.x.Reset(duration(d * length)); err == nil && !was {
			m.x.armed++
		} else if err != nil && err != ErrStopped {
			sched.Failf("Reset: %v", err)
		}
	}
}

var operations = []operation{
	{name: "Schedule now", do: arm(0)},
	{name: "Schedule in a tick", do: arm(1)},
	{name: "Schedule far", do: arm(6)},
	{x: true, name: "x.Reset later", do: reset(3)},
	{x: true, name: "x.Reset now", do: reset(0)},
	{x: true, name: "x.Touch", do: func(m *world, _ *record) {
		m.x.expect(sched.Time() + length)
		m.x.Touch(length)
	}},
	{x: true, name: "x.Stop", do: func(m *world, _ *record) {
		if m.x.Stop() {
			m.x.stopped++
		}
	}},
	{name: "y.Stop", do: func(m *world, _ *record) {
		if m.y.Stop() {
			m.y.stopped++
		}
	}},
	{x: true, name: "x.Schedule", do: func(m *world, _ *record) {
		m.x.expect(sched.Time())
		if err := m.w.Schedule(&m.x.Timer, 0, &m.x); err == nil {
			m.x.armed++
		}
	}},
	{name: "Wheel.Stop", stops: true, do: func(m *world, _ *record) {
		m.returned += len(m.w.Stop())
		m.gone = true
	}},
}

// newWorld has x due at tick 1 in shard 0 and y at tick 2 in shard 1. a and b are the callers' own, of shards 0 and 1.
func newWorld(first, second operation, again bool) func() ([]sched.Thread, func()) {
	return func() ([]sched.Thread, func()) {
		w, err := New(Config{Tick: 1000, Slots: 4, OnError: func(err *CallbackError) { sched.Failf("%v", err) }})
		if err != nil {
			panic(err)
		}
		w.cfg.Tick = length
		m := &world{w: w, until: -1}
		w.started.Store(true)
		w.wakeAt.Store(awake)
		w.driver = &driver{}
		for i := range w.shards {
			s := &w.shards[i]
			s.ring.tick = length
			sched.ID(unsafe.Pointer(s), false)
			s.mu.Watch(fmt.Sprintf("shard %d", i))
			s.next.WatchUnder(s.mu.Held, fmt.Sprintf("next of shard %d", i))
		}
		w.open.Watch("open")
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
			w.driver.slots[i].is(undecided)
		}
		if again { // x is periodic
			m.x.fire = func(t *Timer) {
				if m.x.fired == 1 {
					_ = t.Next(length)
				}
			}
		}
		if first.x || second.x {
			arm(1)(m, &m.x)
		}
		arm(2)(m, &m.y)
		drive := func() {
			for !w.stopped.Load() {
				until, sleep := w.step(w.now())
				if !sleep {
					continue
				}
				m.until = until
				sched.Block(&w.wakeObject, "sleep, until", func() bool {
					return len(w.wake) > 0 || until != never && sched.Time() >= until*length
				})
				m.until = -1
				select {
				case <-w.wake:
				default:
				}
				w.stayAwake()
			}
		}
		threads := []sched.Thread{
			{Name: "driver", Body: drive},
			{Name: "caller 1", Body: func() { first.do(m, &m.a) }},
			{Name: "caller 2", Body: func() { second.do(m, &m.b) }},
		}
		return threads, m.check
	}
}

// check is of a state in which nobody can go on.
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
			if latest := max(s.ring.tickOf(r.deadline), now/length+1); m.until > latest {
				sched.Failf("%s is due at tick %d, it is tick %d, and the driver sleeps to tick %d", r.name, s.ring.tickOf(r.deadline), now/length, m.until)
			}
		}
		armed, fired, stopped = armed+r.armed, fired+r.fired, stopped+r.stopped
	}
	st := w.Stats()
	if fired != int(st.Fired) || stopped != int(st.Stopped) || m.returned != int(st.Returned) || pending != st.Pending || m.x.fire == nil && armed != int(st.Armed) {
		sched.Failf("%d armings, %d fired, %d stopped, %d returned, %d pending, but %+v", armed, fired, stopped, m.returned, pending, st)
	}
}

// stories are pairs of operations, and how often their goroutines and the driver may be held up.
var stories = []struct {
	first, second string
	heldUp        int
}{
	{"Schedule in a tick", "Schedule now", 2},
	{"x.Stop", "x.Reset later", sched.Unbounded},
	{"x.Stop", "x.Reset now", sched.Unbounded},
	{"x.Stop", "x.Touch", sched.Unbounded},
	{"x.Stop", "y.Stop", sched.Unbounded},
	{"x.Stop", "x.Schedule", sched.Unbounded},
	{"x.Reset later", "x.Reset now", 1},
	{"x.Touch", "x.Schedule", 2},
	{"Schedule far", "x.Reset now", 2},
	{"Wheel.Stop", "x.Stop", 2},
	{"Wheel.Stop", "Schedule in a tick", 2},
}

func TestExplore(t *testing.T) {
	byName := map[string]operation{}
	for _, o := range operations {
		byName[o.name] = o
	}
	total := 0
	for _, s := range stories {
		first, second := byName[s.first], byName[s.second]
		for _, again := range []bool{false, true} {
			if again && !first.x && !second.x {
				continue
			}
			p := sched.Program{Setup: newWorld(first, second, again), Clock: []int64{0, 2 * length}, HeldUp: s.heldUp}
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
