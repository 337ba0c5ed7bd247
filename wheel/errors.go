package wheel

import (
	"errors"
	"fmt"
)

var (
	// ErrStopped is returned when the wheel was stopped. It takes no more
	// timers.
	ErrStopped = errors.New("wheel: stopped")
	// ErrPending is returned by Schedule when the timer is already pending.
	// Reset moves such a timer.
	ErrPending = errors.New("wheel: timer is pending already")
	// ErrNotScheduled is returned by Reset and Next when no Schedule of the
	// timer was accepted, so it has no task yet.
	ErrNotScheduled = errors.New("wheel: timer was never scheduled")
	// ErrOtherWheel is returned when the timer belongs to another wheel that
	// was not stopped.
	ErrOtherWheel = errors.New("wheel: timer belongs to another wheel")
	// ErrBubble is returned when the wheel was made in a testing/synctest
	// bubble and is used outside it, or the other way round. Its time would not
	// be the caller's.
	ErrBubble = errors.New("wheel: made in another synctest bubble than it is used in, or in none: make it where it is used")
	// ErrTooManyPending is returned when Config.MaxPending timers are pending.
	ErrTooManyPending = errors.New("wheel: too many pending timers")
	// ErrNilTimer is returned when the timer is nil.
	ErrNilTimer = errors.New("wheel: nil timer")
	// ErrNilTask is returned when the task or the function is nil.
	ErrNilTask = errors.New("wheel: nil task")
	// ErrPeriod is returned when the period given to Next or Every is not above
	// zero.
	ErrPeriod = errors.New("wheel: period must be above zero")

	// ErrGoexit is wrapped by a CallbackError when a callback ended its
	// goroutine by runtime.Goexit. The wheel continues in a new goroutine.
	ErrGoexit = errors.New("wheel: callback called runtime.Goexit")
	// ErrRefused is wrapped by a CallbackError when the Executor refused a
	// callback. The timer counts as fired, but its callback did not run. That of
	// an Every is armed for its next period.
	ErrRefused = errors.New("wheel: executor refused the callback")
)

// CallbackError says how a callback failed. Its timer was claimed before, so it
// is in state Fired, unless it is that of an Every or somebody has armed it
// since. If a method Cancelled failed, the timer is in state Stopped.
type CallbackError struct {
	Timer *Timer // of the callback
	Panic any    // what the callback panicked with, or nil
	Stack []byte // where it panicked or called Goexit, or nil
	Err   error  // ErrGoexit; ErrRefused and the executor's error; the panic value if it is an error; or nil
}

func (e *CallbackError) Error() string {
	who := "callback of " + nameOf(e.Timer)
	if e.Panic != nil {
		return fmt.Sprintf("wheel: %s panicked: %v", who, e.Panic)
	}
	return fmt.Sprintf("%v: %s", e.Err, who)
}

// Unwrap returns e.Err.
func (e *CallbackError) Unwrap() error { return e.Err }

// nameOf names the task of a timer by its type.
func nameOf(t *Timer) string {
	if t == nil {
		return "no timer"
	}
	return fmt.Sprintf("%T", t.Task())
}
