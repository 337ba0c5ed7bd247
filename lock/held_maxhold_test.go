package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// TestNoLeaseLastsBeyondMaxHold: what Redis keeps for longer than the holder would lock out all
// others, although nobody holds it.
func TestNoLeaseLastsBeyondMaxHold(t *testing.T) {
	const lease, maxHold = time.Second, 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{Lease: lease, MaxHold: maxHold})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		other, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(other)
		free := func(name string, began time.Time, take func(context.Context) error) {
			t.Helper()
			require.NoError(t, take(ctx), name)
			require.Less(t, time.Since(began), maxHold+lease+time.Second, name)
		}
		for name, mu := range fixture.Kinds(c, "m") {
			began := time.Now()
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, held.Extend(ctx, 1700*time.Millisecond), name)
			require.EqualError(t, held.Extend(ctx, 20*time.Second),
				`lock: "m": the lease is 20s: it must end in 1.7s, when the time of Config.MaxHold has passed: ask for a shorter one`, name)
			_, err = mu.TryLockFor(held.Context(ctx), 20*time.Second)
			require.ErrorContains(t, err, "Config.MaxHold", name)
			again, err := mu.Lock(held.Context(ctx))
			require.NoError(t, err, name)
			require.NoError(t, again.Unlock(ctx), name)
			again, err = mu.LockFor(held.Context(ctx), time.Second)
			require.NoError(t, err, name)
			require.NoError(t, again.Unlock(ctx), name)
			<-held.Done()
			var lost *lock.LostError
			require.ErrorAs(t, held.Err(), &lost)
			require.Equal(t, lock.MaxHold, lost.Reason)
			free(name, began, func(ctx context.Context) error {
				held, err := exclusive(other, name).Lock(ctx)
				if err != nil {
					return err
				}
				return held.Unlock(ctx)
			})

			held, err = mu.LockFor(ctx, time.Second)
			require.NoError(t, err)
			require.NoError(t, held.Extend(ctx, 20*time.Second), "%s: MaxHold is for what is renewed", name)
			_, err = mu.Lock(held.Context(ctx))
			require.NoError(t, err)
			require.NoError(t, held.Extend(ctx, 19*time.Second), "%s: it lasts for longer anyway", name)
			require.ErrorContains(t, held.Extend(ctx, 30*time.Second), "Config.MaxHold", name)
			require.Greater(t, time.Until(held.Deadline()), 19*time.Second, name)
			require.NoError(t, held.Unlock(ctx))
			for synctest.Wait(); c.Stats().Held > 0; {
				time.Sleep(time.Second)
			}
		}

		p := c.PermitSemaphore("p")
		_, err = p.TrySet(ctx, 1)
		require.NoError(t, err)
		began := time.Now()
		permit, err := p.Acquire(ctx, 1)
		require.NoError(t, err)
		require.ErrorContains(t, permit.Extend(ctx, 20*time.Second), "Config.MaxHold")
		free("permit", began, func(ctx context.Context) error {
			_, err := other.PermitSemaphore("p").Acquire(ctx, 1)
			return err
		})

		m, err := lock.NewMultiLock(c.Mutex("a"), c.RWMutex("b").Writer())
		require.NoError(t, err)
		began = time.Now()
		both, err := m.Lock(ctx)
		require.NoError(t, err)
		_, err = m.LockFor(both.Context(ctx), 20*time.Second)
		require.ErrorContains(t, err, "Config.MaxHold")
		<-both.Done()
		free("multi", began, func(ctx context.Context) error {
			m, err := lock.NewMultiLock(other.Mutex("a"), other.RWMutex("b").Writer())
			require.NoError(t, err)
			held, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return held.Unlock(ctx)
		})
	})
}

// exclusive is the lock "m" of that kind; of a reader, the writer.
func exclusive(c *lock.Client, kind string) *lock.Mutex {
	if kind == "reader" {
		kind = "writer"
	}
	return fixture.Kinds(c, "m")[kind]
}

// TestALostHoldGivesALongerLeaseBack: a clock that is set forward ends a hold long before its field.
func TestALostHoldGivesALongerLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		other, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(other)
		for name, mu := range fixture.Kinds(c, "m") {
			for how, longer := range map[string]func(*lock.Held) error{
				"Extend": func(held *lock.Held) error { return held.Extend(ctx, 10*time.Minute) },
				"LockFor": func(held *lock.Held) error {
					_, err := mu.LockFor(held.Context(ctx), 10*time.Minute)
					return err
				},
			} {
				held, err := mu.Lock(ctx)
				require.NoError(t, err)
				require.NoError(t, longer(held), "%s, %s", name, how)
				held.In().Hold().Lost(renewal.TrustEnded)
				short, cancel := context.WithTimeout(ctx, 10*time.Second)
				next, err := exclusive(other, name).Lock(short)
				cancel()
				require.NoError(t, err, "%s, %s", name, how)
				require.NoError(t, next.Unlock(ctx))
			}
		}
	})
}
