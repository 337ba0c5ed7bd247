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

// Holder says who has a lock that was refused.
type Holder uint8

const (
	Another Holder = iota // owner, of another client
	Ours                  // another owner of this client
	Foreign               // another library
)

// held is the error of an acquisition that was refused, because another has the lock.
func (k *Keeper) held(name string, ttl time.Duration, foreign bool) error {
	by := Another
	if foreign {
		by = Foreign
	} else if k.Table.Live(name) != nil {
		by = Ours
	}
	return k.errors.Held(name, ttl, by)
}

// Errors makes the errors for callers, and says what such an error means.
type Errors interface {
	// Call returns the error of a script call that Redis refused or did not answer. op names
	// the operation.
	Call(op, name string, a pipe.Answer) error
	// BadReply returns the error for an answer that the script does not give. The outcome is
	// then unknown.
	BadReply(op, name string, reply any) error
	// Unknown returns the error of a call whose outcome is unknown because of err.
	Unknown(op, name string, err error) error

	// The following errors say that another has the lock, whose lease lasts for ttl, or that
	// too few permits are free.
	Held(name string, ttl time.Duration, by Holder) error
	Few(name string, wanted, free int64) error
	NotReplicated(name string, wanted, acknowledged int) error
	// Upgrade returns the error of an owner that reads and tries to write.
	Upgrade(name string) error
	Closed(name string, last error) error
	// Ended returns the error of a call whose ctx has ended. last is the error of its last try,
	// or nil.
	Ended(ctx context.Context, name string, last error) error

	NotHeld(name string) error
	// Lost returns the error of a hold that was lost. refusal is the error with which its server
	// last refused a renewal, or nil.
	Lost(name string, why renewal.Reason, token int64, refusal error) error

	// Verdict says what err means for the next try. err is an error of one of these methods or
	// of a renewal.
	Verdict(err error) locktable.Verdict
	// Advice returns what to do about a server that refuses to renew, or "" if the refusal ends
	// by itself.
	Advice(refusal error) string
}

// errGone is returned when the hold that a call wanted to re-enter has ended.
var errGone = errors.New("lock: bug: the hold is gone")

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
