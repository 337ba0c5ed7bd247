package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
)

// vigil is what a waiter keeps in mind from one try to the next: it listens to
// the lock's channel once it was refused, tries again when that is confirmed,
// for a release may have come before, and only then sleeps.
type vigil struct {
	m        *Mutex
	a        *attempt
	w        *waiter
	last     error // what the last try that was answered, or failed, said
	listener pubsub.Listener
	unknowns int       // unknown outcomes in a row
	tried    time.Time // when the last try began
	warned   bool
}

// pace is the least time between two tries, so that a flood of messages is no
// flood of tries.
const pace = 2 * time.Millisecond

// begin is called before each try, and waits if it should come later: others
// have their turn first, or the last try has only just been. It returns false
// if the waiter, or its owner, has got the lock meanwhile, or ctx has ended.
func (v *vigil) begin(ctx context.Context) bool {
	for waited := false; ; {
		if ctx.Err() != nil || v.m.c.isSettled(v.m.name, v.w) || v.m.c.ended() {
			return false
		}
		d := max(v.m.c.deferral(v.m.name), pace-time.Since(v.tried))
		if waited || d <= 0 {
			break
		}
		// The time left to others counts from the last release: a try at some
		// other time could come just when the one whose turn it is is late.
		waited = !v.m.c.sleep(ctx, v.w.wake, d)
	}
	v.tried = time.Now()
	v.listener.Begin()
	return true
}

// failed does what comes between a try that did not bring the lock and the
// next one; it returns the error of a wait that is over.
func (v *vigil) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return v.left(ctx) // the try was left, not answered
	}
	v.last = err
	var other *HeldError
	switch {
	case errors.As(err, &other):
		v.unknowns = 0
		v.m.c.heldFor(v.m.name, other.TTL)
		v.listener.Listen(v.m.c.router.Server(v.m.name).Subscriber(), keys.Channel(v.m.name))
		if v.listener.Missed() {
			return nil
		}
		v.m.c.sleep(ctx, v.w.wake, v.m.c.poll(other.TTL, other.Foreign))
		return nil
	case errors.Is(err, ErrUnknown) && !v.m.c.cfg.FailFast:
		d := backoff(v.unknowns)
		v.unknowns++
		_ = pause(ctx, v.m.c.closing, d)
		return nil
	case ctx.Err() != nil:
		return newWaitError(ctx, v.m.name, err)
	}
	return err
}

// left is the error of a wait that ctx ended. One that stood in the queue and
// never asked Redis knows from the others who hold or ask.
func (v *vigil) left(ctx context.Context) error {
	if v.last == nil {
		if until := v.m.c.heldUntil(v.m.name); time.Now().Before(until) {
			v.last = &HeldError{Name: v.m.name, TTL: time.Until(until)}
		}
	}
	return newWaitError(ctx, v.m.name, v.last)
}

// sleepLocal waits until the waiter is woken: another of this client holds the
// lock or talks to Redis for all.
func (v *vigil) sleepLocal(ctx context.Context) {
	var late <-chan time.Time
	if !v.warned {
		t := time.NewTimer(warnAfter)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-v.w.wake:
	case <-late:
		v.warned = true
		if v.m.c.lookup(v.m.name) != nil {
			v.m.c.cfg.Logger.Warn("lock: still waiting for a lock that this client itself holds; "+
				"re-entry needs the context of its Held", "name", v.m.name, "waited", warnAfter)
		}
	case <-ctx.Done():
	case <-v.m.c.closing:
	}
}
