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

// answersOf tries to take r until so many members have answered, and returns
// what they said.
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

// heldOf are the locks that tries have taken.
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

// inLine starts a call that has to wait and returns when it does.
func inLine(t *testing.T, c *lock.Client, take func() (*lock.Held, error)) chan result {
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

// soon is a result that comes at once, if ever.
func soon(t *testing.T, done <-chan result, what string) *lock.Held {
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
