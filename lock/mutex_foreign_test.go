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

// TestAStringWithATTLIsAnothersLock: what redsync, redislock and SET NX PX make is
// waited for, refused with its TTL, shown as foreign, and never deleted.
func TestAStringWithATTLIsAnothersLock(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}) // no message comes when it ends
	ctx := context.Background()
	for kind, mu := range fixture.Kinds(c, t.Name()) {
		t.Run(kind, func(t *testing.T) {
			name := "TestAStringWithATTLIsAnothersLock"
			fixture.Do(t, s, "SET", name, "theirs", "NX", "PX", 60_000)
			_, err := mu.TryLock(ctx)
			var held *lock.HeldError
			require.ErrorAs(t, err, &held)
			require.Greater(t, held.TTL, 30*time.Second)
			require.LessOrEqual(t, held.TTL, time.Minute)
			require.True(t, held.Foreign)
			require.ErrorContains(t, err, "another library")
			info, err := mu.Inspect(ctx)
			require.NoError(t, err)
			require.True(t, info.Foreign)
			require.True(t, info.Locked)
			require.Greater(t, info.TTL, 30*time.Second)
			_, err = mu.ForceUnlock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock)
			require.ErrorContains(t, err, "another library")
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", name))

			brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err = mu.Lock(brief)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)

			got := make(chan error, 1)
			go func() {
				h, err := mu.Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				got <- err
			}()
			tries := c.Stats().Tries
			require.Eventually(t, func() bool { return c.Stats().Tries > tries+1 }, time.Minute, time.Millisecond, "it looks again")
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", name))
			fixture.Do(t, s, "DEL", name)
			select {
			case err := <-got:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				t.Fatal("it waits although the other's lock is gone")
			}
			require.Nil(t, fixture.Do(t, s, "GET", name))
		})
	}
}

// TestAStringWithoutATTLIsNoLock: a semaphore is one.
func TestAStringWithoutATTLIsNoLock(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := context.Background()
	for kind, mu := range fixture.Kinds(c, t.Name()) {
		for _, other := range []struct{ key []any }{{[]any{"SET", t.Name(), "7"}}, {[]any{"RPUSH", t.Name(), "7"}}} {
			fixture.Do(t, s, other.key[0].(string), other.key[1:]...)
			if other.key[0] == "RPUSH" {
				fixture.Do(t, s, "PEXPIRE", t.Name(), 60_000)
			}
			_, err := mu.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = mu.Lock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = mu.Inspect(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = mu.ForceUnlock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			fixture.Do(t, s, "DEL", t.Name())
		}
	}
}

// TestAHoldWhoseKeyIsAStringIsLost, whichever script finds it.
func TestAHoldWhoseKeyIsAStringIsLost(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Minute}) // no renewal finds it first
	ctx := bounded.Context(t)
	finds := map[string]func(h *lock.Held) error{
		"unlock":         func(h *lock.Held) error { return h.Unlock(ctx) },
		"extend":         func(h *lock.Held) error { return h.Extend(ctx, 2*time.Minute) },
		"guard":          func(h *lock.Held) error { _, err := h.Guard(ctx, "PING", nil); return err },
		"partial unlock": nil,
	}
	for kind, mu := range fixture.Kinds(c, t.Name()) {
		for name, find := range finds {
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			again, err := mu.Lock(held.Context(ctx))
			require.NoError(t, err)
			if find == nil {
				find = func(*lock.Held) error { return again.Unlock(ctx) }
			} else {
				require.NoError(t, again.Unlock(ctx))
			}
			fixture.Do(t, s, "SET", t.Name(), "theirs", "PX", 60_000)
			require.ErrorIs(t, find(held), lock.ErrLost, "%s of a %s", name, kind)
			bounded.Receive(t, held.Done())
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", t.Name()))
			fixture.Do(t, s, "DEL", t.Name())
		}
	}
}
