package lock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// Hooks are functions that a Client calls to be watched. One that is nil costs
// nothing. They may be called from many goroutines at once. A hook that panics
// is logged.
//
// Of one hold the order is Acquired, then Released or Lost. A hold that no call has
// returned with, because its caller had left, is told of by none of them.
type Hooks struct {
	// Acquired is called when an outermost Lock, LockFor, TryLock or
	// TryLockFor has the lock, on its goroutine before it returns.
	Acquired func(Event)
	// Failed is called when one of these returns an error, on its goroutine.
	// Event.Outcome says whether the lock was refused, the context ended, the outcome
	// is unknown, or what else.
	Failed func(Event)
	// Waited is called when a Lock or LockFor that had to wait returns, with
	// the lock or with Err, on its goroutine and before Acquired and Failed.
	Waited func(Event)
	// Released is called when the last Unlock of a hold ends, on its goroutine. Err is
	// ErrUnknown if Redis did not answer; if such an Unlock is called again and is
	// answered then, Released is called again.
	Released func(Event)
	// Lost is called when a hold is lost, with the *LostError as Err, on a
	// goroutine of its own, one event after the other, soon after the
	// holder was told. So one function watches any number of locks. A hold that is
	// lost before Acquired was called is told of behind that, on the goroutine of its
	// Lock. Lost may be called before the holder has stored its Held: look at
	// Held.Valid then. Of Close it is told only what is still held when that gives up.
	Lost func(Event)
	// Renewed is called with what became of each batch of renewals, one after the
	// other, on a goroutine of its own: it may block, and delays nothing but Close;
	// what it is too slow for is skipped. Locks are renewed many at a time, so there
	// is no event for a single one.
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

// inTurn is one function of two that may be nil. If the first panics the second is
// called all the same.
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

// Event is what a hook is told.
type Event struct {
	// Context is that of the call, so that a span can be a child of the caller's. For
	// Released it has the values of the context of Unlock, but does not end with it. For
	// Lost, which no call brings about, it is context.Background().
	Context context.Context
	Client  string // the ID of the Client
	Name    string // the lock's key, as Held.Name has it
	Token   int64  // the hold's fencing token; 0 if there is no hold, and where the kind of lock has none
	// Hold is a number that no other hold of this Client has, so that Acquired and
	// Released or Lost can be brought together; 0 if there is no hold.
	Hold    uint64
	Waited  time.Duration // how long Lock took; 0 for Released and Lost
	Outcome Outcome       // of Lock; 0 for Released and Lost
	Err     error
}

// hooks calls the Hooks of a Client.
type hooks struct {
	// immutable after New
	Hooks
	logger *slog.Logger

	losses backlog[Event] // for Lost
}

func (k *hooks) init(cfg Config) {
	k.Hooks, k.logger = cfg.Hooks, cfg.Logger
	k.losses.init(func(e Event) { k.call(k.Lost, e) })
}

// call calls a hook that is not nil.
func (k *hooks) call(hook func(Event), e Event) {
	defer logPanic(k.logger, e.Name)
	hook(e)
}

// tellWaited calls Waited, if there is one, when a call that had to wait ends.
func (k *hooks) tellWaited(ctx context.Context, a *attempt, held *Held, err error) {
	if k.Waited == nil {
		return
	}
	took := time.Duration(a.c.tables.now() - a.began)
	e := Event{Context: ctx, Client: a.c.id, Name: a.name, Waited: took, Outcome: outcomeOf(ctx, err), Err: err}
	if err == nil {
		e.Token, e.Hold = held.h.token, held.h.seq
	}
	k.call(k.Waited, e)
}

// tellLost calls Lost soon, if there is one. It does not block.
func (k *hooks) tellLost(e Event) {
	if k.Lost != nil {
		k.losses.add(e)
	}
}

// drain returns when Lost was called with all that it was to be told.
func (k *hooks) drain() { k.losses.drain() }

// logPanic is deferred around a hook that concerns the lock of that name.
func logPanic(logger *slog.Logger, name string) {
	if p := recover(); p != nil {
		logger.Error("lock: a hook panicked", "name", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
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
