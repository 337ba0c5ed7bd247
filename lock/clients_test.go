package lock_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// opened returns the client of an Endpoint, which the test closes.
func opened(t *testing.T, e lock.Endpoint, cfg lock.Config) *lock.Client {
	t.Helper()
	c, err := e.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { fixture.CloseNow(c) })
	return c
}

// answersOf tries to take r until that many members have answered, and returns
// their answers.
func answersOf(t *testing.T, r *lock.RedLock, members int) *lock.QuorumError {
	t.Helper()
	ctx := bounded.Context(t)
	var q *lock.QuorumError
	bounded.Until(t, func() bool {
		_, err := r.TryLock(ctx)
		require.ErrorAs(t, err, &q)
		return q.Members-q.Unknown >= members
	})
	return q
}

// locking is one way to wait for a lock.
type locking func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error)

func lockMutex(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
	return c.Mutex(name).Lock(ctx)
}

func lockFenced(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
	return c.FencedMutex(name).Lock(ctx)
}

func lockFair(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
	return c.FairMutex(name).Lock(ctx)
}

func lockWriting(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
	return c.RWMutex(name).Writer().Lock(ctx)
}

func lockReading(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
	return c.RWMutex(name).Reader().Lock(ctx)
}

// heldOf returns the Helds of the tries that got their lock.
func heldOf(tries []lock.Try) (helds []*lock.Held) {
	for _, try := range tries {
		if try.Held != nil {
			helds = append(helds, try.Held)
		}
	}
	return helds
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// result is how a call of Lock ended.
type result struct {
	held *lock.Held
	err  error
}

// startWaiting starts a call that cannot get its lock yet. It returns when the call waits.
func startWaiting(t *testing.T, c *lock.Client, take func() (*lock.Held, error)) chan result {
	t.Helper()
	before := c.Stats().Waiting
	done := make(chan result, 1)
	go func() {
		held, err := take()
		done <- result{held, err}
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == before+1 }, time.Minute, 100*time.Microsecond)
	return done
}

// receiveHeld returns the Held of a result that must come within a minute.
func receiveHeld(t *testing.T, done <-chan result, what string) *lock.Held {
	t.Helper()
	select {
	case r := <-done:
		require.NoError(t, r.err, what)
		return r.held
	case <-time.After(time.Minute):
		require.Fail(t, what+" did not come")
	}
	return nil
}
