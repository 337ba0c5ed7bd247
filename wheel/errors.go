package wheel

import (
	"errors"
	"fmt"
)

var (
	// ErrStopped: the wheel was stopped; it takes no more timers.
	ErrStopped = errors.New("wheel: stopped")
	// ErrPending: Schedule of a timer that is pending already. Reset moves such a timer.
	ErrPending = errors.New("wheel: timer is pending already")
	// ErrNotScheduled: Reset or Next of a timer that no Schedule was accepted for, which has no task yet.
	ErrNotScheduled = errors.New("wheel: timer was never scheduled")
	// ErrOtherWheel: the timer belongs to another wheel. A Timer belongs to one wheel for its life.
	ErrOtherWheel = errors.New("wheel: timer belongs to another wheel")
	// ErrTooManyPending: Config.MaxPending timers are pending.
	ErrTooManyPending = errors.New("wheel: too many pending timers")
	// ErrNilTimer: the timer is nil.
	ErrNilTimer = errors.New("wheel: nil timer")
	// ErrNilTask: the task, or the function in its place, is nil.
	ErrNilTask = errors.New("wheel: nil task")
	// ErrPeriod: the period given to Next is not above zero.
	ErrPeriod = errors.New("wheel: period must be above zero")

	// ErrGoexit: a callback ended its goroutine by runtime.Goexit. The wheel goes on in a new one.
	ErrGoexit = errors.New("wheel: callback called runtime.Goexit")
	// ErrRefused: the Executor refused a callback. Its timers count as fired; it did not run.
	ErrRefused = errors.New("wheel: executor refused the callback")
)

// CallbackError says how a callback failed. Its timers were claimed before, so they are in state
// Fired (or Stopped, where a Cancelled method failed) unless somebody has armed them since.
type CallbackError struct {
	Timers []*Timer // whose callback it was: one, or a whole batch
	Panic  any      // what the callback panicked with, or nil
	Stack  []byte   // where it panicked or called Goexit, or nil
	Err    error    // ErrGoexit, ErrRefused wrapped with the executor's error, the panic value if it is an error, or nil
}

func (e *CallbackError) Error() string {
	who := "callback of " + nameOf(e.Timers)
	if e.Panic != nil {
		return fmt.Sprintf("wheel: %s panicked: %v", who, e.Panic)
	}
	return fmt.Sprintf("%v: %s", e.Err, who)
}

// Unwrap returns e.Err.
func (e *CallbackError) Unwrap() error { return e.Err }

// nameOf names the task of one timer by its type, a batch by its size.
func nameOf(timers []*Timer) string {
	if len(timers) != 1 || timers[0] == nil {
		return fmt.Sprintf("a batch of %d timers", len(timers))
	}
	return fmt.Sprintf("%T", timers[0].Task())
}
