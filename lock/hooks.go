package lock

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/renewal"
)

// Hooks are functions that a Client calls so that a program can watch it. A nil
// hook costs nothing. Hooks may be called from many goroutines at once. If a
// hook panics, the panic is logged and the client continues.
//
// A hook that blocks delays no renewal, and no holder is told of its loss later.
// Acquired, Failed, Waited and Released delay the call that they belong to, and
// what its goroutine would do next. So in UnlockMany they delay the locks that
// the same goroutine would release next. Let them write to a queue if what they
// do may block. Lost and Renewed run on goroutines of their own and delay only
// Close. Close does not wait for a hook after its context has ended, but for 3
// more seconds; see Client.Close.
//
// For one hold, Acquired is called first, then Released or Lost. If a hold was
// never returned to a caller, because the caller had stopped waiting, none of
// these hooks is called for it.
type Hooks struct {
	// Acquired is called when Lock, LockFor, TryLock, TryLockFor or TryLockWithin
	// has acquired the lock, on the caller's goroutine and before the call
	// returns. It is not called for a re-entry.
	Acquired func(Event)
	// Failed is called when one of these calls fails, on the caller's goroutine
	// and before the call returns. Event.Outcome says why it failed.
	Failed func(Event)
	// Waited is called when a Lock, LockFor or TryLockWithin that had to wait
	// ends, with the lock or with Err. It runs on the caller's goroutine, before
	// Acquired or Failed, and with the same Event. If the time of TryLockWithin
	// is over, Err is that of the last try, as the caller gets it.
	Waited func(Event)
	// Released is called when the last Unlock of a hold ends, on the caller's
	// goroutine. Err is ErrUnknown if Redis did not answer. If the caller then
	// calls Unlock again and Redis answers, Released is called again.
	Released func(Event)
	// Lost is called when a hold is lost, soon after the holder was told. Err is
	// the *LostError. One goroutine calls Lost for all locks, one event after
	// the other. If a hold is lost before Acquired was called, Lost is called
	// after Acquired, on the goroutine of the Lock. Lost may be called before
	// the holder has stored its Held; Held.Valid then returns false. When ctx of
	// Close ends, Lost is called for the locks that are still held. Lost must not
	// block for long, because the next calls of Lost wait until it returns, and so
	// does Close. Lost must not call Close of its own client, because Close waits
	// for the hook.
	Lost func(Event)
	// Renewed is called with the result of each batch of renewals, one after the
	// other, on a goroutine of its own. Renewed may block, which delays only
	// Close. Batches for which Renewed is too slow are skipped, and
	// BatchReport.Skipped counts them. A batch has many locks, so there is no
	// event for a single lock.
	Renewed func(renewal.BatchReport)
}

// With returns Hooks that call the hooks of h and then those of other.
func (h Hooks) With(other Hooks) Hooks {
	return Hooks{
		Acquired: inTurn(h.Acquired, other.Acquired),
		Failed:   inTurn(h.Failed, other.Failed),
		Waited:   inTurn(h.Waited, other.Waited),
		Released: inTurn(h.Released, other.Released),
		Lost:     inTurn(h.Lost, other.Lost),
		Renewed:  inTurn(h.Renewed, other.Renewed),
	}
}

// inTurn returns a function that calls first and then second. Each may be nil. If first panics,
// second is still called.
func inTurn[T any](first, second func(T)) func(T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(x T) {
		defer second(x)
		first(x)
	}
}

// Event describes what a hook is called for.
type Event struct {
	// Context is the context of the call, so that a span can be a child of the
	// caller's span. For Released, Context has the values of Unlock's context but
	// does not end with it. For Lost, Context is context.Background(), because no
	// call causes a loss.
	Context context.Context
	Client  string // the ID of the Client
	Name    string // the lock's key, as Held.Name has it
	Token   int64  // the hold's fencing token; 0 if there is no hold or the kind of lock has no tokens
	// Hold is a number that no other hold of this Client has. The Acquired and the
	// Released or Lost of one hold have the same number. Hold is 0 if there is no
	// hold.
	Hold    uint64
	Waited  time.Duration // how long the call that takes the lock took; 0 for Released and Lost
	Outcome Outcome       // how that call ended; 0 for Released and Lost
	Err     error
}

// logPanic is deferred around a hook and logs its panic. name is the lock of the hook's event.
func logPanic(logger *record.Logger, name string) {
	if p := recover(); p != nil {
		logger.Log(record.HookPanicked, name, fmt.Sprint(p), string(debug.Stack()))
	}
}
