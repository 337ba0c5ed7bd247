package waitqueue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
)

// This file has a client in miniature. It uses only the exported API of Line and Probe, as package lock
// does, over a server that loses answers and messages.

// server has one key.
type server struct {
	mu    sync.Mutex
	rng   *rand.Rand
	field int64          // who has the key; 0: nobody
	gone  map[int64]bool // released fields, which are never taken again
	ears  []func()
	calm  bool // the server loses nothing any more
}

var errUnknown, errRefused, errClosed = errors.New("unknown"), errors.New("refused"), errors.New("closed")

// call carries out f once, perhaps later than its caller knows.
func (s *server) call(ctx context.Context, f func()) error {
	s.mu.Lock()
	there, back := time.Duration(s.rng.IntN(3000))*time.Microsecond, time.Duration(s.rng.IntN(3000))*time.Microsecond
	fate := s.rng.IntN(20)
	if s.calm {
		fate = 9
	}
	s.mu.Unlock()
	lost := fate < 3 // the call is not carried out, or too late, or its answer is lost
	switch fate {
	case 1:
		there += 50 * time.Millisecond
	case 2:
		there += 400 * time.Millisecond
	}
	done := make(chan struct{})
	if fate != 0 {
		time.AfterFunc(there, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			f()
			time.AfterFunc(back, func() { close(done) })
		})
	}
	var answered chan struct{}
	if !lost {
		answered = done
	}
	timeout := time.NewTimer(100 * time.Millisecond)
	defer timeout.Stop()
	select {
	case <-answered:
		return nil
	case <-timeout.C:
		return errUnknown
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) acquire(ctx context.Context, field int64) error {
	taken := false
	err := s.call(ctx, func() {
		if s.field == 0 && !s.gone[field] {
			s.field = field
		}
		taken = s.field == field
	})
	if err == nil && !taken {
		err = errRefused
	}
	return err
}

// release is sent until it is answered.
func (s *server) release(field int64) {
	for s.call(context.Background(), func() {
		s.gone[field] = true
		if s.field != field {
			return
		}
		s.field = 0
		for _, ear := range s.ears {
			if s.calm || s.rng.IntN(3) > 0 { // else the message is lost
				time.AfterFunc(time.Duration(s.rng.IntN(2000))*time.Microsecond, ear)
			}
		}
	}) != nil {
	}
}

// check is a request that changes nothing.
func (s *server) check(ctx context.Context, field int64) error {
	there := false
	err := s.call(ctx, func() { there = s.field == field })
	if err == nil && !there {
		err = errors.New("the field is not there")
	}
	return err
}

// hold is a hold of a client.
type hold struct {
	owner   int
	field   int64 // of the run
	count   int
	leaving bool
}

type (
	line   = waitqueue.Line[int, *hold]
	caller = waitqueue.Caller[int, *hold]
	step   = waitqueue.Step[int, *hold]
)

// entry is the state that a client keeps for an object while callers wait for it.
type entry struct {
	line  line
	probe waitqueue.Probe
}

// client has one lock.
type client struct {
	server *server
	start  time.Time
	fields *atomic.Int64
	wg     sync.WaitGroup

	mu       sync.Mutex // guards what follows; in package lock, of a shard
	hold     *hold
	entry    *entry // nil while nobody waits
	heard    waitqueue.Heard
	closed   bool
	handed   int
	released int
}

var (
	pacing = waitqueue.Pacing{
		Pace: 2 * time.Millisecond, MaxPoll: 500 * time.Millisecond,
		Back: 10 * time.Millisecond, BackMost: time.Second, Defer: 5 * time.Millisecond, DeferEach: time.Millisecond,
	}
	runs = waitqueue.RunLimits{Length: 4, Least: 2, Time: 100 * time.Millisecond}
)

func newClient(s *server, fields *atomic.Int64) *client {
	c := &client{server: s, start: time.Now(), fields: fields}
	c.heard.Confirmed = 1
	s.ears = append(s.ears, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heard.Messages++
		c.wakeFirstLocked()
	})
	return c
}

func (c *client) now() waitqueue.Instant { return waitqueue.Instant(time.Since(c.start)) }

func (c *client) wakeFirstLocked() {
	if c.entry != nil {
		if first := c.entry.line.First(); first != nil {
			signal(first)
		}
	}
}

func signal(w *caller) {
	select {
	case w.User.(chan struct{}) <- struct{}{}:
	default:
	}
}

// stepLocked carries out the Step of an event.
func (c *client) stepLocked(s step) {
	for _, w := range s.Wake {
		signal(w)
	}
	for _, h := range s.PassOn {
		c.wg.Go(func() { c.unlock(h) }) // other calls of the owner may have re-entered it
	}
}

func (c *client) entryLocked() *entry {
	if c.entry == nil {
		c.entry = &entry{line: waitqueue.NewLine[int, *hold](waitqueue.Exclusive, &runs), probe: waitqueue.NewProbe(&pacing)}
		if c.hold != nil && !c.hold.leaving {
			c.entry.line.AddHold(c.hold.owner, false, c.hold)
		}
		if c.closed {
			c.entry.line.Close()
		}
	}
	return c.entry
}

func (c *client) dropLocked() {
	if c.entry != nil && c.entry.line.Idle() {
		c.entry = nil
	}
}

// lock is Lock and, with try, TryLock.
func (c *client) lock(ctx context.Context, owner int, try bool) (*hold, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &caller{Owner: owner, NoWait: try, User: make(chan struct{}, 1)}
	e := c.entryLocked()
	defer c.dropLocked()
	c.stepLocked(e.line.Join(w))
	last := errRefused
	for unknowns := 0; ; {
		if ctx.Err() != nil {
			c.stepLocked(e.line.Leave(w))
			return nil, ctx.Err()
		}
		switch in := e.line.Instruction(w); in.Do {
		case waitqueue.DoTake:
			c.stepLocked(e.line.Take(w))
			return in.Hold, nil
		case waitqueue.DoRefuse:
			c.stepLocked(e.line.Leave(w))
			return nil, last
		case waitqueue.DoGiveUp:
			c.stepLocked(e.line.Leave(w))
			return nil, errClosed
		case waitqueue.DoWait:
			c.sleepLocked(ctx, w, -1)
		case waitqueue.DoReenter:
			c.mu.Unlock()
			err := c.server.check(ctx, in.Hold.field)
			c.mu.Lock()
			if err == nil && !in.Hold.leaving {
				in.Hold.count++
				c.stepLocked(e.line.Leave(w))
				return in.Hold, nil
			}
			if errors.Is(err, errUnknown) {
				unknowns++
				c.sleepLocked(ctx, w, pacing.Backoff(unknowns, rand.Float64()))
			}
		case waitqueue.DoProbe:
			now := c.now()
			e.probe.Hear(now, c.heard)
			var mark waitqueue.Mark
			if w == e.line.First() {
				if due := e.probe.Due(1); due > now {
					c.sleepLocked(ctx, w, time.Duration(due-now))
					continue
				}
				mark = e.probe.Began(now)
			} else {
				mark = e.probe.BeganBeside()
			}
			if h, err := c.probeLocked(ctx, e, w, mark); h != nil {
				return h, nil
			} else if last = err; errors.Is(err, errClosed) {
				return nil, err
			}
		}
	}
}

// probeLocked asks the server once.
func (c *client) probeLocked(ctx context.Context, e *entry, w *caller, mark waitqueue.Mark) (*hold, error) {
	c.stepLocked(e.line.Began(w))
	field := c.fields.Add(1)
	c.mu.Unlock()
	err := c.server.acquire(ctx, field)
	c.mu.Lock()
	switch {
	case err == nil:
		e.probe.Took(c.now(), mark, 0)
		h := &hold{owner: w.Owner, field: field, count: 1}
		c.hold = h
		s := e.line.Took(w, h)
		c.stepLocked(s)
		if len(s.PassOn) > 0 {
			return nil, errClosed
		}
		return h, nil
	case errors.Is(err, errRefused):
		e.probe.Refused(c.now(), mark, waitqueue.Answer{TTL: -1, Spread: rand.Float64()})
		c.stepLocked(e.line.Refused(w))
	default:
		if ctx.Err() == nil {
			e.probe.Unanswered(c.now(), mark, rand.Float64())
		}
		c.stepLocked(e.line.Unanswered(w))
		c.wg.Go(func() { // releases what the unknown probe may have taken
			c.server.release(field)
		})
	}
	if w != e.line.First() {
		c.wakeFirstLocked() // its next probe may be due sooner
	}
	return nil, err
}

// sleepLocked waits until w is woken, at most d if that is not below 0.
func (c *client) sleepLocked(ctx context.Context, w *caller, d time.Duration) {
	c.mu.Unlock()
	defer c.mu.Lock()
	var due <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-w.User.(chan struct{}):
	case <-due:
	case <-ctx.Done():
	}
}

func (c *client) unlock(h *hold) {
	c.mu.Lock()
	h.count--
	last := h.count == 0
	if last {
		h.leaving = true
	}
	c.mu.Unlock()
	if last {
		c.end(h)
	}
}

// end hands h over or releases it.
func (c *client) end(h *hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.leaving = true
	runOver := false
	if e := c.entry; e != nil {
		runOver = e.line.RunLength() > 0
		next, over, s := e.line.Leaving(h.owner, h, c.now(), false)
		c.stepLocked(s)
		if next != nil && !over { // otherwise it is another client's turn
			c.handed++
			to := &hold{owner: next.Owner, field: h.field, count: 1}
			c.hold = to
			c.stepLocked(e.line.Handed(h.owner, h, next, to, c.now()))
			return
		}
		e.probe.Releasing(c.now())
	}
	c.released++
	c.mu.Unlock()
	began := time.Now()
	c.server.release(h.field)
	c.mu.Lock()
	if c.hold == h {
		c.hold = nil
	}
	if e := c.entry; e != nil {
		e.probe.Hear(c.now(), c.heard)
		e.probe.Freed()
		if runOver {
			e.probe.RunEnded(c.now(), c.heard.Messages+1, time.Since(began), false)
		}
		c.stepLocked(e.line.HoldEnded(h.owner, h))
		c.dropLocked()
	}
}

func (c *client) close() {
	c.mu.Lock()
	c.closed = true
	if c.entry != nil {
		c.stepLocked(c.entry.line.Close())
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// TestAClientOfLineAndProbe: the goroutines of two clients exclude each other, although answers and
// messages are lost and callers leave at any time. Every caller that waits without a limit gets the lock,
// and the lock is free at the end.
func TestAClientOfLineAndProbe(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { runClients(t, seed) })
	}
}

func runClients(t *testing.T, seed uint64) {
	s := &server{rng: rand.New(rand.NewPCG(seed, 1)), gone: map[int64]bool{}}
	var fields atomic.Int64
	clients := []*client{newClient(s, &fields), newClient(s, &fields)}
	var inside atomic.Int64 // the owner that is; 0: none
	var depth, got, left, refused, handed atomic.Int64
	var wg sync.WaitGroup
	for g := range 24 {
		c, rng := clients[g%2], rand.New(rand.NewPCG(seed, uint64(g+2)))
		owner := 1 + g%2 + g/4*2 // two goroutines share one
		wg.Go(func() {
			for range 12 {
				try, limited := rng.IntN(4) == 0, rng.IntN(3) == 0
				ctx, cancel := context.WithCancel(context.Background())
				if limited {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(60_000))*time.Microsecond)
				}
				h, err := c.lock(ctx, owner, try)
				cancel()
				if err != nil {
					if !try && !limited {
						t.Errorf("seed %d: %v", seed, err)
					}
					if errors.Is(err, errRefused) {
						refused.Add(1)
					} else {
						left.Add(1)
					}
					continue
				}
				got.Add(1)
				if was := inside.Swap(int64(owner)); was != 0 && was != int64(owner) {
					t.Errorf("seed %d: owner %d and owner %d have the lock", seed, was, owner)
				}
				depth.Add(1)
				time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond)
				if depth.Add(-1) == 0 {
					inside.Store(0)
				}
				c.unlock(h)
			}
		})
	}
	wg.Wait()
	for _, c := range clients {
		handed.Add(int64(c.handed))
		c.close()
		_, err := c.lock(context.Background(), 1, false)
		if !errors.Is(err, errClosed) {
			t.Errorf("seed %d: %v after Close", seed, err)
		}
		if c.entry != nil || c.hold != nil {
			t.Errorf("seed %d: something is left", seed)
		}
	}
	time.Sleep(time.Second) // late requests
	if s.field != 0 {
		t.Errorf("seed %d: the server still has field %d", seed, s.field)
	}
	require.Positive(t, got.Load())
	t.Logf("got %d, refused %d, left %d, handed over %d", got.Load(), refused.Load(), left.Load(), handed.Load())
}
