package lock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

type ctxKey string

func heldFor(t *testing.T, cfg lock.Config) (*lock.Client, *lock.Held) {
	c := fixture.ClientOf(t, onRedis(t), cfg)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	return c, held
}

func TestContextsOfOneParentCostAHoldNothing(t *testing.T) {
	_, held := heldFor(t, lock.Config{})
	base, cancel := context.WithCancel(bounded.Context(t))
	defer cancel()
	const calls = 20_000
	for name, parent := range map[string]context.Context{
		"one that never ends": context.Background(),
		"a server's own":      base,
		"of a lock":           held.Context(base),
	} {
		t.Run(name, func(t *testing.T) {
			_ = held.Context(parent)
			kept, before := held.In().Watch().Kept(), liveHeap()
			for i := range calls {
				_ = held.Context(context.WithValue(parent, ctxKey("i"), i))
			}
			require.Equal(t, kept, held.In().Watch().Kept())
			require.Less(t, int64(liveHeap())-int64(before), int64(calls*100), "719 bytes a call before")
		})
	}
	for range 100 { // requests that end
		ctx, end := context.WithCancel(base)
		_ = held.Context(ctx)
		end()
	}
	require.Eventually(t, func() bool { return held.In().Watch().Kept() == 3 }, time.Minute, time.Millisecond)
	runtime.KeepAlive(held)
}

func TestAHeldsContextIsItsParentsAndTheLocks(t *testing.T) {
	cause := errors.New("the caller has left")
	for how, run := range map[string]struct {
		end   func(c *lock.Client, held *lock.Held, cancel context.CancelCauseFunc)
		err   error
		cause func(error) bool
	}{
		"parent": {
			func(_ *lock.Client, _ *lock.Held, cancel context.CancelCauseFunc) { cancel(cause) },
			context.Canceled, func(err error) bool { return err == cause },
		},
		"unlock": {
			func(_ *lock.Client, held *lock.Held, _ context.CancelCauseFunc) {
				_ = held.Unlock(bounded.Context(t))
			},
			context.Canceled, func(err error) bool { return errors.Is(err, lock.ErrNotHeld) },
		},
		"loss": {
			func(c *lock.Client, held *lock.Held, _ context.CancelCauseFunc) {
				_, _ = c.Mutex(held.Name()).ForceUnlock(bounded.Context(t))
			},
			context.Canceled, func(err error) bool { return errors.Is(err, lock.ErrLost) },
		},
	} {
		for _, cancellable := range []bool{true, false} {
			if how == "parent" && !cancellable {
				continue
			}
			t.Run(how, func(t *testing.T) {
				c, held := heldFor(t, lock.Config{Lease: 300 * time.Millisecond})
				parent, cancel := context.WithoutCancel(t.Context()), context.CancelCauseFunc(func(error) {})
				if cancellable {
					parent, cancel = context.WithCancelCause(parent)
				}
				first := held.Context(context.WithValue(parent, ctxKey("k"), 1))
				second := held.Context(context.WithValue(parent, ctxKey("k"), 2))
				require.Equal(t, 1, first.Value(ctxKey("k")))
				require.Equal(t, 2, second.Value(ctxKey("k")))
				require.Nil(t, second.Value(ctxKey("other")))
				require.True(t, c.Mutex(held.Name()).HeldBy(second))
				_, has := second.Deadline()
				require.False(t, has)

				goroutines := runtime.NumGoroutine()
				var all []context.Context
				for range 100 {
					child, stop := context.WithCancel(second)
					defer stop()
					deeper, stop2 := context.WithTimeout(context.WithValue(child, ctxKey("k"), 3), time.Hour)
					defer stop2()
					beside, stop3 := context.WithCancelCause(context.WithValue(first, ctxKey("k"), 4))
					defer stop3(nil)
					all = append(all, child, deeper, beside)
				}
				require.Less(t, runtime.NumGoroutine(), goroutines+50, "children need no goroutines")
				called := make(chan struct{})
				context.AfterFunc(first, func() { close(called) })
				for _, ctx := range append(all, first, second) {
					require.NoError(t, ctx.Err())
					require.NoError(t, context.Cause(ctx))
				}
				run.end(c, held, cancel)
				for _, ctx := range append(all, first, second) {
					bounded.Receive(t, ctx.Done())
					require.Equal(t, run.err, ctx.Err())
					require.True(t, run.cause(context.Cause(ctx)), "%v", context.Cause(ctx))
				}
				bounded.Receive(t, called)
				if how == "parent" {
					require.NoError(t, held.Err())
					require.NoError(t, held.Context(bounded.Context(t)).Err())
					require.NoError(t, held.Unlock(bounded.Context(t)))
				}
				late := held.Context(parent)
				bounded.Receive(t, late.Done())
				require.Error(t, late.Err())
			})
		}
	}
}

func TestAHeldsContextHasItsParentsDeadline(t *testing.T) {
	_, held := heldFor(t, lock.Config{})
	at := time.Now().Add(time.Hour)
	parent, cancel := context.WithDeadline(context.Background(), at)
	defer cancel()
	got, ok := held.Context(parent).Deadline()
	require.True(t, ok)
	require.Equal(t, at, got)
	short, cancel2 := context.WithTimeoutCause(parent, time.Millisecond, errors.New("too long"))
	defer cancel2()
	ctx := held.Context(short)
	bounded.Receive(t, ctx.Done())
	require.Equal(t, context.DeadlineExceeded, ctx.Err())
	require.EqualError(t, context.Cause(ctx), "too long")
	ended := held.Context(short)
	require.Equal(t, context.DeadlineExceeded, ended.Err())
	require.NoError(t, held.Unlock(bounded.Context(t)))
}
