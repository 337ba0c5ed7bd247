// Package bounded gives the waits of tests an end. A test that hangs then says
// where, and the others go on. Without this package, all of them would end with the
// timeout of go test. It is only for tests, because it links package testing. A test in a
// testing/synctest bubble does not need it: a bubble reports a deadlock by itself.
package bounded

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

const (
	// Limit is how long one wait lasts at most. A wait that ends takes far less, even on
	// a busy machine.
	Limit = 2 * time.Minute

	// longLimit is the limit of many waits, of a group or with one context.
	longLimit = 5 * time.Minute
)

// Receive returns the next value from ch, or the zero value when ch is closed. If
// nothing comes within Limit, it fails the test.
func Receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	v, ok := receiveWithin(ch, Limit)
	if !ok {
		failTimeout(t, "nothing came", Limit)
	}
	return v
}

// Wait waits for a sync.WaitGroup or the like. If that takes longer than five
// minutes, it fails the test.
func Wait(t testing.TB, group interface{ Wait() }) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	if _, ok := receiveWithin(done, longLimit); !ok {
		failTimeout(t, "some have not ended", longLimit)
	}
}

// Until waits until met returns true. If that takes longer than Limit, it fails the test. It calls met
// every millisecond at first and less often later, so that a long wait does not keep a core busy.
func Until(t testing.TB, met func() bool) {
	t.Helper()
	for began := time.Now(); !met(); {
		waited := time.Since(began)
		if waited > Limit {
			failTimeout(t, "it did not become true", Limit)
		}
		time.Sleep(min(max(waited/64, time.Millisecond), 20*time.Millisecond))
	}
}

// Context returns a context that is cancelled when the test ends, or after five
// minutes; its cause then says so. It has no deadline, because calls treat a context
// with a deadline differently.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	timer := time.AfterFunc(longLimit, func() { cancel(fmt.Errorf("bounded: %s has run for %v", t.Name(), longLimit)) })
	t.Cleanup(func() {
		timer.Stop()
		cancel(nil)
	})
	return ctx
}

func receiveWithin[T any](ch <-chan T, d time.Duration) (v T, ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case v = <-ch:
		return v, true
	case <-timer.C:
		return v, false
	}
}

// failTimeout ends the test, and shows the stacks of all goroutines.
func failTimeout(t testing.TB, what string, d time.Duration) {
	t.Helper()
	stacks := make([]byte, 256<<10)
	t.Fatalf("%s in %v; all goroutines:\n\n%s", what, d, stacks[:runtime.Stack(stacks, true)])
}
