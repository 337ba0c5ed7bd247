package points

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Plan says how a Scheduler chooses.
type Plan struct {
	// Seed determines all random choices.
	Seed uint64
	// Priorities: the goroutine with the highest priority goes on. Otherwise a random one does.
	Priorities bool `json:",omitempty"`
	// Demotions is how often the goroutine that was chosen gets the lowest priority
	// instead, at random among the first Within steps.
	Demotions int `json:",omitempty"`
	Within    int `json:",omitempty"`
	// HoldUps: one in HoldUps goroutines is held up before it continues, for a time drawn from
	// Lengths; 0: none. If Place is set, only goroutines that have stopped there are held up. If
	// Function is set, only goroutines that have stopped in a call of a function whose name
	// ends with it.
	HoldUps  int             `json:",omitempty"`
	Lengths  []time.Duration `json:",omitempty"`
	Place    string          `json:",omitempty"`
	Function string          `json:",omitempty"`
	// InOrder: the goroutine that stopped first goes on. Delays are steps at which it becomes the
	// last instead (Emmi, Qadeer, Rakamaric, Delay-Bounded Scheduling, POPL 2011). Then nothing
	// is random except hold-ups.
	InOrder bool  `json:",omitempty"`
	Delays  []int `json:",omitempty"`
	// Exact: all goroutines that stop must have names, so that a seed is a history: see Born.
	Exact bool `json:",omitempty"`
	// Log: Scheduler.Log is kept.
	Log bool `json:",omitempty"`
}

// patience is how many steps a goroutine may take in a row. No real scheduler would let it run for
// so long.
const patience = 2000

// Scheduler stops goroutines at points and lets one at a time go on. Its caller must be
// in the bubble of testing/synctest that it stops; the caller's goroutine is never
// stopped.
type Scheduler struct {
	news chan struct{} // of capacity 1: a goroutine has stopped

	plan Plan // immutable

	mu        sync.Mutex // guards what follows; never held while anything is waited for
	rng       *rand.Rand
	goroutine map[uintptr]*goroutineState
	forget    map[unsafe.Pointer]func() // see OnForget
	stopped   []*goroutineState         // in the order in which they stopped
	off       bool                      // points do nothing any more
	steps     int
	demote    []int // steps at which a goroutine is demoted
	lowest    float64
	latest    *goroutineState // the one that went on last
	repeats   int             // how many steps in a row it has taken
	timers    int             // how many goroutines the ends of contexts have made
	hash      uint64          // of all steps
	log       []string        // of all steps, see Plan.Log
	began     time.Time
	heldUp    int           // how many goroutines are held up
	since     time.Time     // since when at least one is held up, if heldUp is above 0
	standing  time.Duration // for how long at least one was held up, before since
	last      time.Time     // when the last one that was held up went on
}

// goroutineState is a goroutine that has met a point.
type goroutineState struct {
	name         string        // the same in each run of a seed; empty if it is not known
	children     int           // how many goroutines it has made
	flips        int           // calls of Flip
	draws        int           // calls of Float64
	since        int           // the step at which it has stopped
	goOn         chan struct{} // of capacity 1
	priority     float64
	heldMutexes  int // how many Mutexes it holds
	exempt       bool
	place        string // where it has stopped
	isInFunction bool   // in a call of Plan.Function
	wasHeldUp    bool   // it was held up there
}

// Start makes a scheduler and puts it in charge of all points of the process. Stop must
// be called.
func Start(plan Plan) *Scheduler {
	s := &Scheduler{
		news: make(chan struct{}, 1), plan: plan, rng: rand.New(rand.NewPCG(plan.Seed, 1)),
		goroutine: map[uintptr]*goroutineState{}, forget: map[unsafe.Pointer]func(){}, last: time.Now(), began: time.Now(), hash: offset64,
	}
	for range plan.Demotions {
		s.demote = append(s.demote, s.rng.IntN(plan.Within))
	}
	s.mu.Lock()
	me := s.runningLocked()
	me.exempt, me.name = true, "world"
	s.mu.Unlock()
	if !current.CompareAndSwap(nil, s) {
		panic("points: there is a scheduler already")
	}
	return s
}

// Free lets all goroutines go on and makes points do nothing from now on.
func (s *Scheduler) Free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
	for _, g := range s.stopped {
		g.goOn <- struct{}{}
	}
	s.stopped = nil
}

// Stop is Free, and makes room for another scheduler.
func (s *Scheduler) Stop() {
	s.Free()
	current.Store(nil)
}

// News gets a value when a goroutine has stopped. While its reader waits, virtual time
// goes on.
func (s *Scheduler) News() <-chan struct{} { return s.news }

// Steps returns how many steps there were.
func (s *Scheduler) Steps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// Stopped says where goroutines have stopped now.
func (s *Scheduler) Stopped() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, g := range s.stopped {
		counts[g.place]++
	}
	return fmt.Sprint(counts)
}

// Standing returns for how long at least one goroutine was held up, and when the last one went on.
func (s *Scheduler) Standing() (total time.Duration, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heldUp > 0 {
		return s.standing + time.Since(s.since), time.Now()
	}
	return s.standing, s.last
}

// HeldUp is how many goroutines are held up now.
func (s *Scheduler) HeldUp() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heldUp
}

// Step lets one stopped goroutine continue. It returns false if there is none.
// All other goroutines must be blocked.
func (s *Scheduler) Step() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stopped) == 0 {
		return false
	}
	i := s.chooseLocked()
	if slices.Contains(s.demote, s.steps) {
		s.lowest--
		s.stopped[i].priority = s.lowest
		i = s.chooseLocked()
	}
	if slices.Contains(s.plan.Delays, s.steps) {
		s.stopped[i].since = s.steps + 1
		i = s.chooseLocked()
	}
	g := s.stopped[i]
	if g != s.latest {
		s.latest, s.repeats = g, 0
	} else if s.repeats++; s.repeats == patience {
		// It waits for another goroutine, and does not sleep meanwhile.
		s.repeats = 0
		s.lowest--
		g.priority, g.since = s.lowest, s.steps+1
		i = s.chooseLocked()
		g = s.stopped[i]
	}
	s.stopped = slices.Delete(s.stopped, i, i+1)
	s.noteLocked(g)
	s.steps++
	if s.drawHoldUpLocked(g) {
		s.holdUpLocked(g)
		return true
	}
	g.goOn <- struct{}{}
	return true
}

// chooseLocked returns the index of the stopped goroutine that continues.
func (s *Scheduler) chooseLocked() int {
	if s.plan.InOrder {
		first := 0
		for i, g := range s.stopped {
			if c := cmp.Compare(g.since, s.stopped[first].since); c < 0 || c == 0 && g.name < s.stopped[first].name {
				first = i
			}
		}
		return first
	}
	if s.plan.Exact { // several may have stopped after one step, in an order that differs from run to run
		slices.SortFunc(s.stopped, func(a, b *goroutineState) int { return cmp.Compare(a.name, b.name) })
	}
	if !s.plan.Priorities {
		return s.rng.IntN(len(s.stopped))
	}
	best := 0
	for i, g := range s.stopped {
		if g.priority > s.stopped[best].priority {
			best = i
		}
	}
	return best
}

// drawHoldUpLocked decides whether g is held up, which happens once at a point.
func (s *Scheduler) drawHoldUpLocked(g *goroutineState) bool {
	if s.plan.HoldUps == 0 || g.wasHeldUp || s.plan.Place != "" && s.plan.Place != g.place || !g.isInFunction {
		return false
	}
	return s.rng.IntN(s.plan.HoldUps) == 0
}

// holdUpLocked lets g go on after some virtual time, by a choice at that time.
func (s *Scheduler) holdUpLocked(g *goroutineState) {
	if s.heldUp == 0 {
		s.since = time.Now()
	}
	s.heldUp++
	g.wasHeldUp = true
	time.AfterFunc(s.plan.Lengths[s.rng.IntN(len(s.plan.Lengths))], func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heldUp--
		if s.heldUp == 0 {
			s.standing += time.Since(s.since)
			s.last = time.Now()
		}
		s.addStoppedLocked(g)
	})
}

// addStoppedLocked adds g to the stopped goroutines.
func (s *Scheduler) addStoppedLocked(g *goroutineState) {
	if s.off {
		g.goOn <- struct{}{}
		return
	}
	g.since = s.steps
	s.stopped = append(s.stopped, g)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// isInCallOf reports whether the running goroutine is in a call of a function whose name ends with this.
func isInCallOf(function string) bool {
	if function == "" {
		return true
	}
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, function) {
			return true
		}
		if !more {
			return false
		}
	}
}

// stopAt is a point.
func (s *Scheduler) stopAt(place string) {
	within := isInCallOf(s.plan.Function)
	s.mu.Lock()
	g := s.runningLocked()
	if s.off || g.exempt || g.heldMutexes > 0 {
		s.mu.Unlock()
		return
	}
	if s.plan.Exact && g.name == "" {
		s.mu.Unlock()
		if !bytes.Contains(debug.Stack(), []byte("context.WithDeadlineCause.func")) {
			panic("points: a goroutine without a name has stopped: make it by what Born returns")
		}
		return // the end of a context, whose goroutine is that package's
	}
	g.place, g.wasHeldUp, g.isInFunction = place, false, within
	s.addStoppedLocked(g)
	s.mu.Unlock()
	<-g.goOn
}

func (s *Scheduler) addHeldMutexes(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runningLocked().heldMutexes += n
}

// runningLocked returns the state of the running goroutine. When a goroutine has ended, a later one
// reuses its state, because a goroutine that ends holds nothing.
func (s *Scheduler) runningLocked() *goroutineState {
	id := goroutine()
	g := s.goroutine[id]
	if g == nil {
		g = &goroutineState{goOn: make(chan struct{}, 1)}
		if !s.plan.Exact {
			g.priority = s.rng.Float64()
		}
		s.goroutine[id] = g
	}
	return g
}
