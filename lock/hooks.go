package lock

import (
	"fmt"
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

// callHook calls a hook that is not nil.
func (c *Client) callHook(hook func(Event), e Event) {
	defer c.cfg.logPanic(e.Name)
	hook(e)
}

// logPanic is deferred around a hook that concerns the lock of that name.
func (cfg *Config) logPanic(name string) {
	if p := recover(); p != nil {
		cfg.Logger.Error("lock: a hook panicked", "name", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// renewed makes the watchdog's report of a batch reach Hooks.Renewed, if there is one.
func (cfg *Config) renewed() func(renewal.BatchReport) {
	hook, logged := cfg.Hooks.Renewed, *cfg
	if hook == nil {
		return nil
	}
	return func(r renewal.BatchReport) {
		defer logged.logPanic("")
		hook(r)
	}
}

// loss is a hold that was lost, and why.
type loss struct {
	hold  *hold
	cause *LostError
}

// forgetLoss does what comes after the holder was told: waiters go on, a field that
// would outlive its hold is owed, and the Lost hook is told.
func (c *Client) forgetLoss(l loss) {
	c.tables.forget(l.hold)
	l.hold.kind.rules().orphanOutlived(l.hold, l.cause.Reason)
	if c.cfg.Hooks.Lost != nil {
		c.events.add(Event{Name: l.cause.Name, Token: l.cause.Token, Err: l.cause})
	}
}

func (c *Client) callLost(e Event) { c.callHook(c.cfg.Hooks.Lost, e) }
