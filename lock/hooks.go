package lock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// Hooks are functions that a Client calls so that a program can watch it. A nil
// hook costs nothing. Hooks may be called from many goroutines at once. If a
// hook panics, the panic is logged and the client continues.
//
// For one hold, Acquired is called first, then Released or Lost. If a hold was
// never returned to a caller, because the caller had left, none of them is
// called for it.
type Hooks struct {
	// Acquired is called when Lock, LockFor, TryLock or TryLockFor has acquired
	// the lock, on the caller's goroutine and before the call returns. It is
	// not called for a re-entry.
	Acquired func(Event)
	// Failed is called when one of these calls fails, on the caller's goroutine
	// and before the call returns. Event.Outcome says why it failed.
	Failed func(Event)
	// Waited is called when a Lock or LockFor that had to wait ends, with the
	// lock or with Err. It runs on the caller's goroutine, before Acquired or
	// Failed.
	Waited func(Event)
	// Released is called when the last Unlock of a hold ends, on the caller's
	// goroutine. Err is ErrUnknown if Redis did not answer. If Unlock is then
	// called again and Redis answers, Released is called again.
	Released func(Event)
	// Lost is called when a hold is lost, soon after the holder was told. Err is
	// the *LostError. One goroutine calls Lost for all locks, one event after
	// the other. If a hold is lost before Acquired was called, Lost is called
	// after Acquired, on the goroutine of the Lock. Lost may be called before
	// the holder has stored its Held; Held.Valid then says that it is lost.
	// When Close gives up, Lost is called for the locks that are still held.
	// Lost must not block for long, because the next losses wait until it
	// returns, and so does Close. It must not call Close of its own client: Close
	// waits for the hook, so neither would return.
	Lost func(Event)
	// Renewed is called with the result of each batch of renewals, one after the
	// other, on a goroutine of its own. It may block: this delays only Close, and
	// batches for which it is too slow are skipped. Locks are renewed many at a
	// time, so there is no event for a single one.
	Renewed func(renewal.BatchReport)
}

// With returns Hooks that call those of h and then those of other.
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

// inTurn returns a function that calls two, each of which may be nil. If the first
// panics, the second is still called.
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
	// caller's. For Released it has the values of the context of Unlock, but does
	// not end with it. For Lost it is context.Background(), because no call causes
	// a loss.
	Context context.Context
	Client  string // the ID of the Client
	Name    string // the lock's key, as Held.Name has it
	Token   int64  // the hold's fencing token; 0 if there is no hold, and where the kind of lock has none
	// Hold is a number that no other hold of this Client has. It connects Released
	// or Lost with the Acquired of the same hold. It is 0 if there is no hold.
	Hold    uint64
	Waited  time.Duration // how long Lock took; 0 for Released and Lost
	Outcome Outcome       // of Lock; 0 for Released and Lost
	Err     error
}

// renewed makes the watchdog's report of a batch reach Hooks.Renewed, if there is one.
func (cfg *Config) renewed() func(renewal.BatchReport) {
	hook, logger := cfg.Hooks.Renewed, cfg.Logger
	if hook == nil {
		return nil
	}
	return func(r renewal.BatchReport) {
		defer logPanic(logger, "")
		hook(r)
	}
}

// logPanic is deferred around a hook that concerns the lock of that name.
func logPanic(logger *slog.Logger, name string) {
	if p := recover(); p != nil {
		logger.Error("lock: a hook panicked", "name", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}
