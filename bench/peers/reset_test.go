package peers

import (
	"testing"
	"time"

	antlabs "github.com/antlabs/timer"
)

// TestResetOfAntlabsWaitsForItself is why the tables have no Reset of antlabs/timer: it files the timer under the lock of
// the list that it comes from, and waits for ever if that is the list that it goes to. Here that is so, because the delay
// is the same.
func TestResetOfAntlabsWaitsForItself(t *testing.T) {
	w := antlabs.NewTimer(antlabs.WithTimeWheel())
	defer w.Stop()
	timer := w.AfterFunc(time.Minute, func() {})
	moved := make(chan struct{})
	go func() {
		timer.Reset(time.Minute)
		close(moved)
	}()
	select {
	case <-moved:
		t.Fatal("it returns: measure it")
	case <-time.After(300 * time.Millisecond):
	}
}
