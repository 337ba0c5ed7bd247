package points

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"time"
)

// The name of a goroutine is the name of its creator and a number, which counts the goroutines of
// this creator. So a goroutine has the same name each time that a seed is simulated.

// Born wraps f, the function of a goroutine that the running goroutine makes. The new goroutine
// gets a name. f may run more than once.
func Born(f func()) func() {
	s := current.Load()
	if s == nil {
		return f
	}
	name := s.nameChild()
	times := 0
	return func() {
		s.registerRunning(name, &times)
		defer s.forgetRunning()
		Here("start")
		f()
	}
}

// Go runs f on a goroutine of that name.
func Go(name string, f func()) {
	s := current.Load()
	if s == nil {
		go f()
		return
	}
	go func() {
		s.registerRunning(name, new(int))
		defer s.forgetRunning()
		Here("start")
		f()
	}()
}

func (s *Scheduler) nameChild() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.runningLocked()
	if g.name == "" { // the end of a context, see stopAt
		s.timers++
		return fmt.Sprint("timer ", s.timers)
	}
	g.children++
	return fmt.Sprint(g.name, ".", g.children)
}

// registerRunning names the running goroutine.
func (s *Scheduler) registerRunning(name string, times *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *times++; *times > 1 && name != "" {
		name = fmt.Sprint(name, "#", *times)
	}
	g := &goroutineState{name: name, goOn: make(chan struct{}, 1)}
	g.priority = s.drawPriorityLocked(name)
	s.goroutine[goroutine()] = g
}

// drawPriorityLocked returns the first priority of a goroutine of that name.
func (s *Scheduler) drawPriorityLocked(name string) float64 {
	if name == "" {
		return s.rng.Float64()
	}
	h := fnv.New64a()
	fmt.Fprint(h, s.plan.Seed, " ", name)
	return float64(h.Sum64()) / (1 << 64)
}

// forgetRunning forgets the running goroutine, which ends.
func (s *Scheduler) forgetRunning() {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.goroutine, goroutine())
}

// Flip chooses in which order the running goroutine tries the cases of a select.
func Flip() bool {
	s := current.Load()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off || s.plan.InOrder {
		return false
	}
	g := s.runningLocked()
	g.flips++
	h := fnv.New64a()
	fmt.Fprint(h, s.plan.Seed, g.name, g.flips)
	if s.plan.Log && g.name != "" {
		_, file, line, _ := runtime.Caller(1)
		s.log = append(s.log, fmt.Sprintf("   flip %s %d %s:%d", g.name, g.flips, file, line))
	}
	return h.Sum64()*0x9e3779b97f4a7c15>>63 != 0
}

// Float64 is rand.Float64 by the name of the running goroutine. It counts the calls.
func Float64() float64 {
	s := current.Load()
	if s == nil {
		return rand.Float64()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.runningLocked()
	g.draws++
	h := fnv.New64a()
	fmt.Fprint(h, s.plan.Seed, " ", g.name, " ", g.draws)
	return float64(h.Sum64()*0x9e3779b97f4a7c15>>11) / (1 << 53)
}

// ID fills b, which identifies a client.
func ID(b []byte) {
	s := current.Load()
	if s == nil {
		panic("points: an identity is asked for without a scheduler")
	}
	h := fnv.New128a()
	fmt.Fprint(h, s.plan.Seed, " ", s.nameChild())
	copy(b, h.Sum(nil))
}

const (
	offset64 = 14695981039346656037
	prime64  = 1099511628211
)

// noteLocked adds to the hash and the log that g goes on.
func (s *Scheduler) noteLocked(g *goroutineState) {
	at := time.Since(s.began)
	h := s.hash
	for i := range len(g.name) {
		h = (h ^ uint64(g.name[i])) * prime64
	}
	for i := range len(g.place) {
		h = (h ^ uint64(g.place[i])) * prime64
	}
	s.hash = (h ^ uint64(at)) * prime64
	if s.plan.Log {
		s.log = append(s.log, fmt.Sprintf("%d %v %s %s", s.steps, at, g.name, g.place))
	}
}

// Hash returns a hash of all steps until now: which goroutine continued, where and when.
func (s *Scheduler) Hash() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hash
}

// Log returns all steps until now, if Plan.Log is set.
func (s *Scheduler) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}
