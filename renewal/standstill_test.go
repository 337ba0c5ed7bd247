package renewal

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// note is an owner and a Renewer. It notes when it was told of a loss, or called.
type note struct{ at chan time.Time }

func (n *note) Lost(Reason)                   { n.at <- time.Now() }
func (n *note) Renew(context.Context, *Batch) { n.at <- time.Now() }

// TestAStandstillBeforeATimerIsArmedDoesNotDelayIt: the process may stand still after the clock was read for it.
func TestAStandstillBeforeATimerIsArmedDoesNotDelayIt(t *testing.T) {
	for _, still := range []time.Duration{0, 6 * time.Millisecond, 100 * time.Millisecond, 20 * time.Second, 25 * time.Second} {
		for name, fixed := range map[string]bool{"renewed": false, "fixed": true} {
			t.Run(name+" "+still.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, err := New(Config{})
					require.NoError(t, err)
					defer w.Close()
					n := &note{make(chan time.Time, 100)}
					ln, err := w.Lane("", n)
					require.NoError(t, err)
					var l Lease
					require.NoError(t, ln.Hold(&l, n, Terms{Stamp: time.Now(), TTL: 30 * time.Second, Fixed: fixed}))
					ln.mu.Lock()
					l.home.removeLocked(&l)
					now := w.now()
					ln.mu.Unlock()
					due := time.Now().Add(8 * time.Second)
					time.Sleep(still)
					ln.mu.Lock()
					ln.scheduleLocked(&l, now.plus(8*time.Second), now)
					ln.mu.Unlock()
					if fixed {
						due = l.Deadline()
					}
					if armed := time.Now(); armed.After(due) {
						due = armed
					}
					late := (<-n.at).Sub(due)
					require.GreaterOrEqual(t, late, time.Duration(0))
					require.LessOrEqual(t, late, w.cfg.Tick)
				})
			})
		}
	}
}
