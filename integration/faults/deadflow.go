package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/lock"
)

// DeadFlow is a fault that keeps nobody from working: of all connections one is
// dead for a while, and what was on it then arrives late. Its clients have asked
// again on another long before. The sums of semaphores and latches must be exact
// a while after: the late copy of a request may be as old as routers and kernels
// keep it.
type DeadFlow struct {
	Server Target
	// Script is that of package lock with whose next call the flow dies.
	Script string
	// Dead is how long it is dead, Exact how long after it the sums must be exact.
	Dead, Exact time.Duration
}

// DeadFlowResult is what came of it.
type DeadFlowResult struct {
	Calls      int // of Acquire, Release and CountDown
	Unknown    int // of them, that said that it is not known whether they took effect
	Violations []string
}

// sums is what all clients of the run know that they did.
type sums struct {
	mu                     sync.Mutex // guards what follows
	calls, unknown         int
	taken, given, down     int64
	maybeTaken, maybeGiven int64
	maybeDown              int64
	odd                    []string
}

const (
	flowClients  = 3
	flowHands    = 3 // of a client, at each of the two
	flowPermits  = 1000
	flowCounts   = 1 << 30
	flowPause    = 20 * time.Millisecond
	semaphoreKey = "sums:semaphore"
	latchKey     = "sums:latch"
)

// Run works before, while and after the flow is dead, and compares the sums. An error
// says that there was no run.
func (d DeadFlow) Run(ctx context.Context) (res DeadFlowResult, err error) {
	p, err := faultproxy.Start(faultproxy.Config{Server: faultproxy.Before(d.Server)})
	if err != nil {
		return res, err
	}
	defer p.Close()
	look, err := d.Server.Dial()
	if err != nil {
		return res, err
	}
	defer look.Close()
	var all sums
	var working sync.WaitGroup
	// The hands work on without an end; those that are in a call return from it.
	over, end := context.WithCancel(ctx)
	defer func() {
		end()
		working.Wait()
	}()
	for i := range flowClients {
		pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", p.Addr(), redis.DialConnectTimeout(time.Second))
		}}
		client, err := lock.New(pool, lock.Config{})
		if err != nil {
			return res, err
		}
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			_ = client.Close(closing)
			_ = pool.Close()
		}()
		if i == 0 {
			if _, err := client.Semaphore(semaphoreKey).TrySet(ctx, flowPermits); err != nil {
				return res, err
			}
			if _, err := client.CountDownLatch(latchKey).TrySet(ctx, flowCounts); err != nil {
				return res, err
			}
		}
		for range flowHands {
			working.Go(func() { all.permits(over, client.Semaphore(semaphoreKey)) })
			working.Go(func() { all.counts(over, client.CountDownLatch(latchKey)) })
		}
	}
	sleep(ctx, time.Second)
	p.HoldFlowOf(d.Script)
	if !eventually(ctx, patience, func() bool { return p.Held() == 1 }) {
		return res, fmt.Errorf("faults: nobody called %s: %w", d.Script, context.Cause(ctx))
	}
	sleep(ctx, d.Dead)
	p.Heal()
	sleep(ctx, d.Exact)
	end()
	working.Wait()
	res.Calls, res.Unknown, res.Violations = all.calls, all.unknown, all.odd
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	// What a client asked for twice is undone for a moment more.
	var off []string
	if !eventually(ctx, patience/4, func() bool {
		off, err = all.off(look)
		return err == nil && len(off) == 0
	}) {
		res.Violations = append(res.Violations, off...)
	}
	return res, err
}

// off says which sums are not exact.
func (s *sums) off(look redis.Conn) (off []string, err error) {
	free, err := redis.Int64(look.Do("GET", semaphoreKey))
	if err != nil {
		return nil, err
	}
	left, err := redis.Int64(look.Do("GET", latchKey))
	if err != nil {
		return nil, err
	}
	within := func(what string, got, from, to int64) {
		if got < from || got > to {
			off = append(off, fmt.Sprintf("%s is %d, and from %d to %d is the sum", what, got, from, to))
		}
	}
	sum := flowPermits - s.taken + s.given
	within("the semaphore", free, sum-s.maybeTaken, sum+s.maybeGiven)
	sum = flowCounts - s.down
	within("the latch", left, sum-s.maybeDown, sum)
	return off, nil
}

// note counts a call.
func (s *sums) note(err error, sure, maybe *int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	switch {
	case err == nil:
		*sure++
		return true
	case errors.Is(err, lock.ErrUnknown):
		s.unknown++
		*maybe++
	case len(s.odd) < mostViolations:
		s.odd = append(s.odd, err.Error())
	}
	return false
}

func (s *sums) permits(over context.Context, sem *lock.Semaphore) {
	// A call that is given up may leave it open whether it took effect. None waits for
	// a permit, so none needs to be.
	calm := context.WithoutCancel(over)
	for over.Err() == nil {
		if s.note(sem.Acquire(calm, 1), &s.taken, &s.maybeTaken) {
			s.note(sem.Release(calm, 1), &s.given, &s.maybeGiven)
		}
		sleep(over, time.Duration(rand.Int64N(int64(flowPause))))
	}
}

func (s *sums) counts(over context.Context, latch *lock.CountDownLatch) {
	for over.Err() == nil {
		s.note(latch.CountDown(over), &s.down, &s.maybeDown)
		sleep(over, time.Duration(rand.Int64N(int64(flowPause))))
	}
}
