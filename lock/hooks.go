package lock

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// Hooks are functions that a Client calls to be watched. One that is nil costs
// nothing. They may be called from many goroutines at once. A hook that panics
// is logged.
type Hooks struct {
	// Acquired is called when an outermost Lock, LockFor, TryLock or
	// TryLockFor has the lock, on its goroutine before it returns.
	Acquired func(Event)
	// Waited is called when a Lock or LockFor that had to wait returns, with
	// the lock or with Err, on its goroutine.
	Waited func(Event)
	// Released is called when the last Unlock of a hold was answered, on its
	// goroutine.
	Released func(Event)
	// Lost is called when a hold is lost, with the *LostError as Err, on a
	// goroutine of its own, one event after the other, soon after the
	// holder was told. So one function watches any number of locks. It may be
	// called before the holder has stored its Held: look at Held.Valid then. Of
	// Close it is told only what is still held when that gives up.
	Lost func(Event)
	// Renewed is called with what became of each batch of renewals, one after the
	// other, on a goroutine of its own: it may block, and delays nothing but Close;
	// what it is too slow for is skipped. Locks are renewed many at a time, so there
	// is no event for a single one.
	Renewed func(renewal.BatchReport)
}

// Event is what a hook is told.
type Event struct {
	Name   string        // the lock's key, as Held.Name has it
	Token  int64         // the hold's fencing token; 0 if there is no hold
	Waited time.Duration // how long Lock took; 0 for Released and Lost
	Err    error
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

// tellLost calls Lost soon, if there is one. It does not block.
func (k *hooks) tellLost(cause *LostError) {
	if k.Lost != nil {
		k.losses.add(Event{Name: cause.Name, Token: cause.Token, Err: cause})
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
