package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Errors makes the errors that callers get, and says what one of them means.
type Errors interface {
	// Call is the error of a call of a script that Redis refused or did not answer. op says
	// what was asked of it.
	Call(op, name string, a pipe.Answer) error
	// BadReply is that of an answer that the script does not give: it is not known what it did.
	BadReply(op, name string, reply any) error
	// Unknown is that of a call with an outcome that is not known, because of err.
	Unknown(op, name string, err error) error

	// These say that another has the lock, whose lease lasts so long, or that fewer permits
	// are free.
	Held(name string, ttl time.Duration, foreign bool) error
	Few(name string, wanted, free int64) error
	NotReplicated(name string, wanted, acknowledged int) error
	// Upgrade is that of an owner who reads and would write.
	Upgrade(name string) error
	Closed(name string) error
	// Ended is that of a call whose ctx has ended. last is of its last try, or nil.
	Ended(ctx context.Context, name string, last error) error

	NotHeld(name string) error
	// Lost says why a hold was lost. refusal is what its server last answered to a renewal, or
	// nil.
	Lost(name string, why renewal.Reason, token int64, refusal error) error

	// Verdict says what err, which one of these or a renewal has brought, means for the next
	// try.
	Verdict(err error) locktable.Verdict
	// Advice is what to do about a server that refuses to renew; "" if that passes by itself.
	Advice(refusal error) string
}

// errGone: the hold that was to be re-entered is no more.
var errGone = errors.New("lock: bug: the hold is gone")

func errOtherKind(name string) error {
	return fmt.Errorf("lock: %q is held by the same owner as another kind of lock: use a name for one kind only", name)
}

// busyError says that a script was not sent, because another one of its hold
// was not answered for as long as its caller waited.
type busyError struct{ err error }

func (e *busyError) Error() string {
	return "another request of this hold is not answered yet: " + e.err.Error()
}

func (e *busyError) Unwrap() error { return e.err }
