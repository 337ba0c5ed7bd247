package hold

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// The scripts of a hold are sent one after the other, each in its turn. A turn ends when
// Redis has answered, or when the connection has failed. After a failure the request is
// open, because it may still be carried out. While a request is open, no other script of
// the hold is sent, so that an old count or an old Guard never overtakes a later one. Only
// the release is sent, because a script after it finds no field.

// enter waits for the hold's turn, and until none of its requests is open. If ctx ends during the
// wait, the error is a busyError. If ctx has ended before, enter returns its error, because a caller
// that leaves would not learn what its request has changed.
func (h *Hold) enter(ctx context.Context) error {
	if err := wait.Ended(ctx); err != nil {
		return err
	}
	for {
		h.mu.Lock()
		err := h.enterReleaseLocked(ctx)
		h.mu.Unlock()
		if err != nil {
			return &busyError{err}
		}
		left := h.mayRunFor()
		if left <= 0 {
			return nil
		}
		h.endTurn()
		if err := wait.Pause(ctx, nil, left); err != nil {
			return &busyError{err}
		}
	}
}

// enterNow is enter if that need not wait. It reports whether it has entered.
func (h *Hold) enterNow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isTurnTaken || h.mayRunForLocked() > 0 {
		return false
	}
	h.isTurnTaken = true
	return true
}

// enterReleaseLocked waits for the hold's turn. If a request is open, the caller may only send a
// release. It unlocks h.mu while it waits.
func (h *Hold) enterReleaseLocked(ctx context.Context) error {
	for h.isTurnTaken {
		turn, _ := h.engine.turns.LoadOrStore(h, make(chan struct{}))
		h.isTurnAwaited = true
		h.mu.Unlock()
		var err error
		select {
		case <-turn.(chan struct{}):
		case <-ctx.Done():
			err = wait.Ended(ctx)
		}
		h.mu.Lock()
		if err != nil {
			return err
		}
	}
	h.isTurnTaken = true
	return nil
}

// send sends a script in the hold's turn.
func (h *Hold) send(ctx context.Context, call wire.Call) pipe.Answer {
	a := h.engine.Network.Send(ctx, h.name, call, h.answeredLate)
	h.noteMayRun(a)
	return a
}

// answeredLate gets the answer to a request whose caller has left. The turn has lasted until now.
func (h *Hold) answeredLate(a pipe.Answer) {
	h.setFlag(unsure, true) // its caller, which may be slow, does not look at the answer
	h.noteMayRun(a)
	h.endTurn()
}

// leave ends the turn whose last answer was a. If the caller has left its request, the
// turn lasts until that is answered.
func (h *Hold) leave(a pipe.Answer) {
	if !a.IsAbandoned {
		h.endTurn()
	}
}

// endTurn ends the turn.
func (h *Hold) endTurn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endTurnLocked()
}

func (h *Hold) endTurnLocked() {
	h.isTurnTaken = false
	if h.has(prolonging) {
		h.setFlag(prolonging, false)
	}
	if h.isTurnAwaited {
		h.isTurnAwaited = false
		turn, _ := h.engine.turns.LoadAndDelete(h)
		close(turn.(chan struct{}))
	}
}

// mayRunUnit is the unit of Hold.mayRunUntil, which counts since the table was made. So 4 bytes last 13 years.
const mayRunUnit = 100 * time.Millisecond

// noteMayRun records whether a request that ended with this answer may still be carried out,
// and for how long.
func (h *Hold) noteMayRun(a pipe.Answer) {
	if _, answered := a.Err.(redis.Error); a.Err == nil || answered || a.Stamp.IsZero() && !a.IsAbandoned {
		return
	}
	h.noteMayRunUntil(a.MayRunUntil)
}

// noteMayRunUntil records that a request of h may still be carried out until then. If until is zero,
// that time is not known.
func (h *Hold) noteMayRunUntil(until time.Time) {
	h.setFlag(unsure, true)
	if until.IsZero() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mayRunUntil = max(h.mayRunUntil, uint32(time.Duration(h.engine.Table.Instant(until))/mayRunUnit)+1)
}

// mayRunFor is how long a request of the hold may still be carried out.
func (h *Hold) mayRunFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mayRunForLocked()
}

func (h *Hold) mayRunForLocked() time.Duration {
	if h.mayRunUntil == 0 {
		return 0
	}
	left := time.Duration(h.mayRunUntil)*mayRunUnit - time.Duration(h.engine.Table.Now())
	if left <= 0 {
		h.mayRunUntil = 0
	}
	return left
}

// busyError says that a script was not sent, because another script of its hold
// was not answered while its caller waited.
type busyError struct{ err error }

func (e *busyError) Error() string {
	return "another request of this hold is not answered yet: " + e.err.Error()
}

func (e *busyError) Unwrap() error { return e.err }

// IsBusy reports whether err says that nothing was sent, because another script of the hold was not
// answered.
func IsBusy(err error) bool { return errors.As(err, new(*busyError)) }
