package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// oddContext ends as a context merged by hand may: its Done is closed, and its Err says nothing.
type oddContext struct {
	context.Context
	done chan struct{}
}

func (c oddContext) Done() <-chan struct{} { return c.done }
func (c oddContext) Err() error            { return nil }

// TestAContextWithoutAnErrorEndsItsCall, and the next callers are served.
func TestAContextWithoutAnErrorEndsItsCall(t *testing.T) {
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	_, err := a.Semaphore("semaphore").TrySet(ctx, 0)
	require.NoError(t, err)
	_, err = a.PermitSemaphore("permits").TrySet(ctx, 0)
	require.NoError(t, err)
	_, err = a.CountDownLatch("latch").TrySet(ctx, 1)
	require.NoError(t, err)
	waits := map[string]func(context.Context) error{
		"semaphore": func(ctx context.Context) error { return b.Semaphore("semaphore").Acquire(ctx, 1) },
		"permits":   func(ctx context.Context) error { _, err := b.PermitSemaphore("permits").Acquire(ctx, 1); return err },
		"latch":     func(ctx context.Context) error { return b.CountDownLatch("latch").Wait(ctx) },
	}
	for who, holder := range map[string]*lock.Client{"another client": a, "this client": b} {
		for _, kind := range []string{"mutex", "fenced", "fair", "writer", "reader"} {
			name := kind + " of " + who
			of := kind
			if kind == "reader" {
				of = "writer"
			}
			held := fixture.Hold(t, fixture.Kinds(holder, name)[of].Lock)
			m := fixture.Kinds(b, name)[kind]
			waits[name] = func(ctx context.Context) error { _, err := m.Lock(ctx); return err }
			defer func() { // the call that ended is in nobody's way
				require.NoError(t, held.Unlock(ctx))
				require.NoError(t, fixture.Hold(t, m.Lock).Unlock(ctx))
			}()
		}
	}
	for name, wait := range waits {
		for _, later := range []time.Duration{0, 100 * time.Millisecond} {
			odd := oddContext{ctx, make(chan struct{})}
			time.AfterFunc(later, func() { close(odd.done) })
			ended := make(chan error, 1)
			go func() { ended <- wait(odd) }()
			require.ErrorIs(t, bounded.Receive(t, ended), context.Canceled, name)
		}
	}
}
