// Package sched is a model checker. It runs a few threads as coroutines, one at a time, and explores the orders in which
// their operations on shared memory can come. Every operation of the packages sync and atomic beside it is a scheduling
// point: there a thread can be held up for any time.
//
// The exploration is depth first and visits every state once. A state has the values of the atomics, the owners of the
// locks, and the history of each thread: all that the thread has read. The history decides the next steps of the thread.
// Data under a lock is not in the state, because the order in which threads had the lock, with their histories, decides it.
package sched

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
)

// Object is what threads share: an atomic value, a lock, or a channel.
type Object struct {
	// Guard, if it is set, reports whether the running thread has the lock that every write of the object needs. If so, its
	// reads are no points, because no other thread can change the value.
	Guard func() bool

	name  string
	run   *run
	id    int
	value uint64
}

// run is one execution from the beginning.
type run struct {
	threads  []*thread
	current  *thread
	objects  []*Object
	pointers map[any]uint64
	places   map[*uint32]*Object
	now      int64
	clock    Object
	setup    bool
	aborted  bool
	failure  string
}

type thread struct {
	name  string
	next  func() (string, bool)
	stop  func()
	seen  uint64 // a hash of all that it has seen
	ready func() bool
	done  bool
	at    string // the operation that it is about to do
	yield func(string) bool
}

var the *run

type aborted struct{}

func mix(a, b uint64) uint64 {
	a ^= b + 0x9e3779b97f4a7c15 + a<<6 + a>>2
	a *= 0xff51afd7ed558ccd
	return a ^ a>>32
}

// Point is where the running thread can be held up, before an operation on o.
func Point(o *Object, op string) { PointIf(o, op, nil) }

// PointIf is Point before an operation that is possible only while ready says so.
func PointIf(o *Object, op string, ready func() bool) {
	r := the
	if r.setup {
		return
	}
	if r.aborted {
		if r.current == nil {
			return // the check at the end
		}
		panic(aborted{})
	}
	if o.Guard != nil && op == "load" && o.Guard() {
		return
	}
	if o.run != r { // o is not watched: this is no point, but the caller notes what it reads
		if ready != nil {
			panic("not watched: " + op)
		}
		return
	}
	t := r.current
	t.ready = ready
	if !t.yield(op + " " + o.name) {
		panic(aborted{})
	}
	t.seen = mix(t.seen, uint64(o.id)<<8|uint64(len(op)))
}

// Current returns the running thread, to be compared.
func Current() any { return the.current }

// See notes a value that the running thread has read.
func See(v uint64) {
	if t := the.current; t != nil {
		t.seen = mix(t.seen, v)
	}
}

// Set sets the value of o that the state has.
func Set(o *Object, v uint64) { o.value = v }

// History sets the value of o to the history of the running thread. o is a lock, and the value stands for the data under it.
func History(o *Object) {
	if t := the.current; t != nil {
		o.value = t.seen
	}
}

// Watch makes the operations of o points. Call it in the set-up. The value of an object that is not watched must
// depend only on the histories.
func Watch(o *Object, name string) {
	o.name, o.run, o.id = name, the, len(the.objects)
	the.objects = append(the.objects, o)
}

// At returns the object that stands for the memory at p, which plain stores write too.
func At(p *uint32) *Object {
	o := the.places[p]
	if o == nil {
		if !the.setup {
			return new(Object)
		}
		o = new(Object)
		the.places[p] = o
		Watch(o, "a slot")
	}
	return o
}

// Value returns the value that was set last.
func Value(o *Object) uint64 { return o.value }

// ID returns a number for a pointer that is the same in every run. Pointers are numbered by Name, in the set-up.
func ID(p any, isNil bool) uint64 {
	if isNil {
		return 0
	}
	id, ok := the.pointers[p]
	if !ok {
		if !the.setup {
			panic(fmt.Sprintf("a pointer that was not named in the set-up: %T", p))
		}
		id = uint64(len(the.pointers) + 1)
		the.pointers[p] = id
	}
	return id
}

// Time returns the time, for the explorer and its checks. It is no point.
func Time() int64 { return the.now }

// Off reports whether operations are no points now, because the set-up or the end runs.
func Off() bool { return the.setup || the.aborted }

// Now returns the time to a thread, as a point.
func Now() int64 {
	Point(&the.clock, "read")
	See(uint64(the.now))
	return the.now
}

// Failf ends the exploration: a promise was broken.
func Failf(format string, args ...any) {
	if the.failure == "" {
		the.failure = fmt.Sprintf(format, args...)
	}
}

// Program is the program to explore.
type Program struct {
	// Setup makes everything anew. It returns the threads, by name, and a check of the state in which nothing can go on.
	Setup func() (threads []Thread, check func())
	// Clock has the times that the clock shows, one after the other. It may go on to the next at any point.
	Clock []int64
	// HeldUp is how often, in one execution, a thread that could go on may be held up (preempted). A thread that waits
	// for a lock, sleeps or ends does not count, and neither does the clock.
	HeldUp int
}

// Unbounded is a HeldUp that bounds nothing.
const Unbounded = 1 << 30

// Thread is a thread of a Program.
type Thread struct {
	Name string
	Body func()
}

// Block is where the running thread waits for ready.
func Block(o *Object, op string, ready func() bool) { PointIf(o, op, ready) }

// Explore runs p in all orders. It returns how many states there are, and the story of the first order that broke a promise, "" if
// there is none.
func Explore(p Program) (states int, story string) {
	visited := map[uint64]struct{}{}
	type choice struct{ taken, left []int }
	var path []choice
	for {
		r, check := begin(p)
		var told []string
		ended := false
		previous, heldUp := -1, 0
		for depth := 0; ; depth++ {
			var enabled []int
			for i, t := range r.threads {
				if !t.done && (t.ready == nil || t.ready()) {
					enabled = append(enabled, i)
				}
			}
			if r.failure != "" {
				break
			}
			if len(enabled) == 0 {
				ended = true
				break
			}
			if slices.Contains(enabled, previous) && heldUp == p.HeldUp {
				only := []int{previous}
				if clock := len(r.threads) - 1; slices.Contains(enabled, clock) {
					only = append(only, clock)
				}
				enabled = only
			}
			if depth == len(path) {
				k := r.key()
				if p.HeldUp < Unbounded {
					k = mix(mix(k, uint64(heldUp)), uint64(previous+1))
				}
				if _, ok := visited[k]; ok {
					break
				}
				visited[k] = struct{}{}
				path = append(path, choice{nil, enabled})
			}
			c := &path[depth]
			if len(c.taken) == 0 {
				c.taken, c.left = c.left[:1], c.left[1:]
			}
			t := r.threads[c.taken[0]]
			if i := c.taken[0]; i != len(r.threads)-1 {
				if previous >= 0 && i != previous && slices.Contains(enabled, previous) {
					heldUp++
				}
				previous = i
			}
			told = append(told, fmt.Sprintf("%s: %s", t.name, t.at))
			r.step(t)
		}
		if ended {
			r.aborted = true // no points any more
			r.current = nil
			check()
		}
		failure := r.failure
		r.end()
		if failure != "" {
			return len(visited), failure + "\n    " + strings.Join(told, "\n    ")
		}
		// The next order: the last choice that has another thread left.
		for len(path) > 0 && len(path[len(path)-1].left) == 0 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return len(visited), ""
		}
		last := &path[len(path)-1]
		last.taken, last.left = last.left[:1], last.left[1:]
	}
}

func begin(p Program) (*run, func()) {
	r := &run{setup: true, pointers: map[any]uint64{}, places: map[*uint32]*Object{}}
	the = r
	r.now = p.Clock[0]
	Watch(&r.clock, "the clock")
	threads, check := p.Setup()
	r.setup = false
	threads = append(threads, Thread{"clock", func() {
		for _, now := range p.Clock[1:] {
			Point(&r.clock, fmt.Sprintf("go on to %d:", now))
			r.now = now
		}
	}})
	for _, th := range threads {
		t := &thread{name: th.Name}
		t.next, t.stop = iter.Pull(func(yield func(string) bool) {
			t.yield = yield
			defer func() {
				if v := recover(); v != nil {
					if _, ok := v.(aborted); !ok {
						buf := make([]byte, 4096)
						Failf("%s panicked: %v\n%s", t.name, v, buf[:runtime.Stack(buf, false)])
					}
				}
			}()
			th.Body()
		})
		r.threads = append(r.threads, t)
		r.step(t) // to its first point
	}
	return r, check
}

// step lets t do one operation.
func (r *run) step(t *thread) {
	r.current = t
	op, ok := t.next()
	r.current = nil
	t.at, t.done = op, !ok
}

func (r *run) end() {
	r.aborted = true
	for _, t := range r.threads {
		r.current = t
		t.stop()
	}
	r.current = nil
}

func (r *run) key() uint64 {
	k := uint64(r.now)
	for _, t := range r.threads {
		k = mix(k, t.seen)
		if t.done {
			k = mix(k, 1)
		}
	}
	for _, o := range r.objects {
		k = mix(k, o.value)
	}
	for p, o := range r.places {
		if *p != 0 {
			k += mix(uint64(o.id)<<32, uint64(*p)) // in any order
		}
	}
	return k
}
