package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAHoldWhoseKeyIsSomethingElseNowIsLostWhoeverFindsIt: renewal is not the
// only one.
func TestAHoldWhoseKeyIsSomethingElseNowIsLostWhoeverFindsIt(t *testing.T) {
	ctx := bounded.Context(t)
	finds := map[string]func(*lock.Held, fixture.Sort) error{
		"unlock":  func(held *lock.Held, _ fixture.Sort) error { return held.Unlock(ctx) },
		"extend":  func(held *lock.Held, _ fixture.Sort) error { return held.Extend(ctx, time.Minute) },
		"reentry": func(held *lock.Held, lk fixture.Sort) error { _, err := lk.Lock(held.Context(ctx)); return err },
		"guard": func(held *lock.Held, _ fixture.Sort) error {
			_, err := held.Guard(ctx, "GET", nil)
			return err
		},
		"renewal": func(held *lock.Held, _ fixture.Sort) error { bounded.Receive(t, held.Done()); return held.Err() },
	}
	for where, s := range miniAndRedis(t) {
		for _, kind := range []string{"mutex", "fenced", "fair", "write", "read", "permits"} {
			for by, find := range finds {
				if kind == "permits" && (by == "reentry" || by == "guard") {
					continue
				}
				t.Run(where+"/"+kind+"/"+by, func(t *testing.T) {
					t.Parallel()
					lease := 30 * time.Second
					if by == "renewal" {
						lease = 600 * time.Millisecond
					}
					c := fixture.ClientOf(t, s, lock.Config{Lease: lease})
					lk := fixture.Sorts(t, c)[kind]
					held, err := lk.Lock(ctx)
					require.NoError(t, err)
					fixture.Do(t, s, "SET", lk.Key, "something else")
					err = find(held, lk)
					var lost *lock.LostError
					require.ErrorAs(t, err, &lost)
					require.Equal(t, lock.NotOwner, lost.Reason)
					require.NotErrorIs(t, err, lock.ErrNotALock)
					require.False(t, held.Valid())
					require.Equal(t, []byte("something else"), fixture.Do(t, s, "GET", lk.Key))
				})
			}
			if kind == "permits" {
				continue
			}
			t.Run(where+"/"+kind+"/inner unlock", func(t *testing.T) {
				t.Parallel()
				c := fixture.ClientOf(t, s, lock.Config{})
				lk := fixture.Sorts(t, c)[kind]
				outer, err := lk.Lock(ctx)
				require.NoError(t, err)
				inner, err := lk.Lock(outer.Context(ctx))
				require.NoError(t, err)
				fixture.Do(t, s, "SET", lk.Key, "something else")
				require.ErrorIs(t, inner.Unlock(ctx), lock.ErrLost)
				require.False(t, outer.Valid())
			})
		}
		t.Run(where+"/handed over", func(t *testing.T) {
			t.Parallel()
			c := fixture.ClientOf(t, s, lock.Config{})
			held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
			refused := make(chan error, 1)
			go func() {
				_, err := c.Mutex(t.Name()).Lock(ctx)
				refused <- err
			}()
			require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
			fixture.Do(t, s, "SET", t.Name(), "something else")
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			require.ErrorIs(t, bounded.Receive(t, refused), lock.ErrNotALock)
		})
	}
}

// TestAGuardedCommandOfAnotherTypeIsNoLoss: it is the command's key, not the
// lock's.
func TestAGuardedCommandOfAnotherTypeIsNoLoss(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fixture.Do(t, s, "SET", t.Name()+":list", "no list")
	_, err := held.Guard(ctx, "LPUSH", []string{t.Name() + ":list"}, "x")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, lock.ErrNotALock)
	require.NotErrorIs(t, err, lock.ErrLost)
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx))
}
