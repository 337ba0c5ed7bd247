package hold

import (
	"context"
	"fmt"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/renewal"
)

// Errors makes the errors for users.
type Errors interface {
	// Of returns the error of a call with ctx about the lock of that name. It is nil if o says that
	// the call has what it wanted.
	Of(ctx context.Context, name string, o wire.Outcome) error
	// NotHeld returns the error of a Held that was unlocked before.
	NotHeld(name string) error
	// Lost returns the error of a hold that was lost. refusal is the error with which its server
	// last refused a renewal, or nil.
	Lost(name string, why renewal.Reason, token int64, refusal error) error
}

func errOtherKind(name string) error {
	return fmt.Errorf("lock: %q is held by the same owner as another kind of lock: use a name for one kind only", name)
}

// busyError says that a script was not sent, because another script of its hold
// was not answered while its caller waited.
type busyError struct{ err error }

func (e *busyError) Error() string {
	return "another request of this hold is not answered yet: " + e.err.Error()
}

func (e *busyError) Unwrap() error { return e.err }
