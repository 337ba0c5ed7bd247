package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAnAnswerThatIsNoneIsUnknownNotALoss: a proxy between client and server, or
// a server that is none, may answer anything.
func TestAnAnswerThatIsNoneIsUnknownNotALoss(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	ctx := bounded.Context(t)
	for _, odd := range []any{"OK", []byte("1"), nil, int64(7), []any{}, []any{"1", "2"}, []any{[]byte("0")}, []any{int64(7), "x"}} {
		for _, name := range []string{"reenter", "guard", "extend"} {
			var mangled atomic.Pointer[string] // the script whose answer is odd
			st := fixture.StallThat(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if m := mangled.Load(); m != nil && *m == c.Script {
					return faultproxy.Mangle(odd)
				}
				return faultproxy.Pass
			})
			c := fixture.ClientOver(t, st, lock.Config{})
			held, err := c.Mutex(t.Name()).Lock(ctx)
			require.NoError(t, err)
			asked := map[string]string{"reenter": "reenter", "guard": "guard", "extend": "reenter"}[name]
			mangled.Store(&asked)
			call, cancel := context.WithTimeout(ctx, 5*time.Second)
			switch name {
			case "reenter":
				_, err = c.Mutex(t.Name()).TryLock(held.Context(call))
			case "guard":
				_, err = held.Guard(call, "SET", []string{t.Name() + ":x"}, "1")
			case "extend":
				err = held.Extend(call, time.Minute)
			}
			cancel()
			require.ErrorIs(t, err, lock.ErrUnknown, "%s %#v", name, odd)
			require.True(t, held.Valid(), "%s %#v", name, odd)
			require.NoError(t, held.Err(), "%s %#v", name, odd)
			require.Equal(t, 1, held.Count())
			mangled.Store(nil)
			require.NoError(t, held.Unlock(ctx))
		}
	}
}

// TestAnOddAnswerLosesNoReaderAndNoPermit is the same for their scripts.
func TestAnOddAnswerLosesNoReaderAndNoPermit(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	ctx := bounded.Context(t)
	require.NoError(t, fixture.ClientOf(t, s, lock.Config{}).Semaphore(t.Name()+" permits").Add(ctx, 5))
	for _, odd := range []any{"OK", []byte("1"), nil, int64(7), []any{}, []any{"1", "2"}, []any{int64(7), "x"}} {
		for name, tc := range map[string]struct {
			take func(*lock.Client) (*lock.Held, error)
			call func(*lock.Client, context.Context, *lock.Held) error
		}{
			"rw_read_reenter": {
				func(c *lock.Client) (*lock.Held, error) { return c.RWMutex(t.Name()).Reader().Lock(ctx) },
				func(c *lock.Client, ctx context.Context, held *lock.Held) error {
					_, err := c.RWMutex(t.Name()).Reader().TryLock(held.Context(ctx))
					return err
				},
			},
			"permit_extend": {
				func(c *lock.Client) (*lock.Held, error) {
					return c.PermitSemaphore(t.Name()+" permits").Acquire(ctx, 1)
				},
				func(_ *lock.Client, ctx context.Context, held *lock.Held) error { return held.Extend(ctx, time.Minute) },
			},
		} {
			var asked atomic.Bool
			c := fixture.ClientOver(t, fixture.StallThat(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if c.Script == name && asked.Load() {
					return faultproxy.Mangle(odd)
				}
				return faultproxy.Pass
			}), lock.Config{})
			held, err := tc.take(c)
			require.NoError(t, err)
			asked.Store(true)
			call, cancel := context.WithTimeout(ctx, 5*time.Second)
			err = tc.call(c, call, held)
			cancel()
			require.ErrorIs(t, err, lock.ErrUnknown, "%s %#v", name, odd)
			require.True(t, held.Valid(), "%s %#v", name, odd)
			require.NoError(t, held.Err(), "%s %#v", name, odd)
			asked.Store(false)
			require.NoError(t, held.Unlock(ctx))
		}
	}
}

// TestOneGuardOfAHoldIsNotSentBeforeAnotherIsAnswered: the later of two could
// come first.
func TestOneGuardOfAHoldIsNotSentBeforeAnotherIsAnswered(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	c := fixture.ClientOver(t, st, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	st.Keep("guard")
	first := make(chan error, 1)
	go func() {
		_, err := held.Guard(ctx, "SET", []string{t.Name() + ":x"}, "first")
		first <- err
	}()
	fixture.AwaitArrived(t, st, "guard", 1)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := held.Guard(short, "SET", []string{t.Name() + ":x"}, "second")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrUnknown, "it is known that it was not run")
	require.NotErrorIs(t, err, lock.ErrNotHeld)
	require.ErrorContains(t, err, "not run")
	err = held.Extend(short, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrUnknown, "it is known that it was not sent")
	st.LetGo()
	require.NoError(t, bounded.Receive(t, first))
	require.Equal(t, []byte("first"), fixture.Do(t, s, "GET", t.Name()+":x"))
	_, err = held.Guard(ctx, "SET", []string{t.Name() + ":x"}, "third")
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	require.Equal(t, []byte("third"), fixture.Do(t, s, "GET", t.Name()+":x"))
	_, err = held.Guard(ctx, "SET", []string{t.Name() + ":x"}, "fourth")
	require.ErrorIs(t, err, lock.ErrNotHeld)
}
