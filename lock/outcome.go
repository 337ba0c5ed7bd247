package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// Outcome says how a call that takes a lock or permits ended. These calls are
// Lock, LockFor, TryLock, TryLockFor and TryLockWithin of every kind of Mutex, and the
// corresponding methods of a PermitSemaphore. A MultiLock and a RedLock make one
// such call for each attempt to take a member.
type Outcome uint8

const (
	// OutcomeAcquired: the call acquired the lock.
	OutcomeAcquired Outcome = iota + 1
	// OutcomeReentered: the owner already held the lock.
	OutcomeReentered
	// OutcomeRefused: another owner has the lock, and the call does not wait, or not
	// any longer.
	OutcomeRefused
	// OutcomeEnded: the context ended before the call had the lock.
	OutcomeEnded
	// OutcomeUnknown: the call returned ErrUnknown or ErrNotSent, or its hold had another
	// request that was not answered, even if its context had ended.
	OutcomeUnknown
	// OutcomeClosed: the client is closed.
	OutcomeClosed
	// OutcomeError: Redis refused the request, or the arguments were wrong.
	OutcomeError

	outcomes = iota + 1
)

func (o Outcome) String() string {
	names := [outcomes]string{
		OutcomeAcquired: "acquired", OutcomeReentered: "reentered", OutcomeRefused: "refused", OutcomeEnded: "ended",
		OutcomeUnknown: "unknown", OutcomeClosed: "closed", OutcomeError: "error",
	}
	if 0 < o && o < outcomes {
		return names[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// MarshalText makes Stats.Calls readable as JSON, with the text of String as the
// key.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// outcomeOf is the outcome of a call with ctx that returned err. That there was no answer counts before
// the end of ctx, because a server that does not answer makes many contexts end.
func outcomeOf(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OutcomeAcquired
	case gotNoAnswer(err):
		return OutcomeUnknown
	case errors.Is(err, ErrClosed):
		return OutcomeClosed
	case wait.Ended(ctx) != nil && errors.Is(err, wait.Ended(ctx)):
		return OutcomeEnded
	case errors.Is(err, ErrNotAcquired):
		return OutcomeRefused
	}
	return OutcomeError
}
