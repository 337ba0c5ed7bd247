package holders

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// sweep keeps locks without timers: for each master one goroutine renews all of
// its locks, one script call after the other on one connection, each third of the
// lease.
type sweep struct {
	*lockSet
	stop   chan struct{}
	lanes  []*lane // immutable
	tasks  sync.WaitGroup
	starts []sync.Once // by lane: starts the goroutine with the first lock

	mu    sync.Mutex // guards order
	order [][]int32  // by lane: the locks as they were taken
}

func newSweep(k *lockSet) *sweep {
	s := &sweep{lockSet: k, stop: make(chan struct{}), starts: make([]sync.Once, len(k.pools)), order: make([][]int32, len(k.pools))}
	for number, n := range k.countPerLane() {
		s.lanes = append(s.lanes, &lane{locks: k, number: number})
		s.order[number] = make([]int32, 0, n)
	}
	return s
}

func (s *sweep) Acquire(ctx context.Context, i int) error {
	if err := s.acquire(ctx, i); err != nil {
		return err
	}
	number := s.records[i].lane
	s.mu.Lock()
	s.order[number] = append(s.order[number], int32(i))
	s.mu.Unlock()
	s.starts[number].Do(func() { s.tasks.Go(func() { s.renewAll(s.lanes[number]) }) })
	return nil
}

// renewAll sweeps until stop.
func (s *sweep) renewAll(l *lane) {
	interval := s.lease / 3
	due := time.Now().Add(rand.N(interval)) // a random phase
	call := make([]int32, 0, BatchSize)
	for s.waitUnlessStopped(time.Until(due)) {
		s.mu.Lock()
		all := s.order[l.number] // later ones wait for the next sweep
		s.mu.Unlock()
		for len(all) > 0 && s.waitUnlessStopped(0) {
			call = append(call[:0], all[:min(BatchSize, len(all))]...)
			all = all[len(call):]
			l.renew(call) // what was not answered is renewed by the next sweep, if trust lasts
		}
		// A sweep that took longer than its interval delays the next one, but not the
		// ones after that.
		if due = due.Add(interval); time.Until(due) < 0 {
			due = time.Now()
		}
	}
}

// waitUnlessStopped waits for d. It returns false as soon as the sweep must end.
func (s *sweep) waitUnlessStopped(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.stop:
		return false
	case <-t.C:
		return true
	}
}

func (s *sweep) Close() {
	close(s.stop)
	for _, l := range s.lanes {
		l.close()
	}
	s.tasks.Wait()
	s.closePools()
}
