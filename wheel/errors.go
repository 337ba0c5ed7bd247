package wheel

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
)

var (
	// ErrStopped is returned when the wheel was stopped. A stopped wheel takes no
	// more timers.
	ErrStopped = errors.New("wheel: stopped")
	// ErrPending is returned by Schedule when the timer is already pending.
	// Reset moves such a timer.
	ErrPending = errors.New("wheel: timer is already pending: move it with Reset")
	// ErrNotScheduled is returned by Reset and Next when no Schedule of the
	// timer has succeeded, so the timer has no task yet.
	ErrNotScheduled = errors.New("wheel: timer was never scheduled: call Schedule first")
	// ErrOtherWheel is returned when the timer belongs to another wheel that
	// was not stopped.
	ErrOtherWheel = errors.New("wheel: timer belongs to another wheel: use a timer of this wheel, or stop the other wheel first")
	// ErrBubble is returned when the wheel was made in a testing/synctest
	// bubble and is used outside that bubble, or the other way round. The wheel's
	// time would not be the caller's time.
	ErrBubble = errors.New("wheel: the wheel was made in another synctest bubble than the caller's, or outside of bubbles: make it where it is used")
	// ErrTooManyPending is returned when Config.MaxPending timers are pending.
	ErrTooManyPending = errors.New("wheel: too many pending timers: stop some of them, or set a larger Config.MaxPending")
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
	// callback. The timer counts as fired, but its callback did not run. The timer
	// of an Every is armed for its next period.
	ErrRefused = errors.New("wheel: executor refused the callback")
)

// CallbackError says how a callback failed. The callback's timer is in state
// Fired, unless it is the timer of an Every or somebody has armed it again since.
// If a method Cancelled failed, the timer is in state Stopped.
type CallbackError struct {
	Timer *Timer // of the callback
	Panic any    // the value with which the callback panicked, or nil
	Stack []byte // where the callback panicked or called Goexit, or nil
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

// nameOf names the function that a timer calls, or its task by the type.
func nameOf(t *Timer) string {
	if t == nil {
		return "no timer"
	}
	var function any
	switch task := t.Task().(type) {
	case *every:
		function = task.f
	case funcTask:
		function = task
	case TaskFunc:
		function = task
	default:
		return fmt.Sprintf("%T", task)
	}
	if f := runtime.FuncForPC(reflect.ValueOf(function).Pointer()); f != nil {
		return f.Name()
	}
	return fmt.Sprintf("%T", function)
}
