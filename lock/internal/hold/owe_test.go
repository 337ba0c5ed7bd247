package hold_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAnAcquisitionWhoseCallerHasNothingIsGivenBack: the server may have carried it out, and would
// keep it for the whole lease.
func TestAnAcquisitionWhoseCallerHasNothingIsGivenBack(t *testing.T) {
	const lease = time.Hour
	type take func(context.Context) (*lock.Held, error)
	of := func(c *lock.Client, kind string) (try, wait take) {
		if kind == "permits" {
			s := c.PermitSemaphore("m")
			return func(ctx context.Context) (*lock.Held, error) { return s.TryAcquireFor(ctx, 2, lease) },
				func(ctx context.Context) (*lock.Held, error) { return s.AcquireFor(ctx, 2, lease) }
		}
		m := fixture.Kinds(c, "m")[kind]
		return func(ctx context.Context) (*lock.Held, error) { return m.TryLockFor(ctx, lease) },
			func(ctx context.Context) (*lock.Held, error) { return m.LockFor(ctx, lease) }
	}
	leave := func(b *busy, take take) { // while the request is under way
		require.NoError(b, b.s.Pause())
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_, err := take(ctx)
		require.ErrorIs(b, err, context.DeadlineExceeded)
	}
	for event, do := range map[string]func(b *busy, try, wait take){
		"the answer comes when the caller has left": func(b *busy, _, wait take) {
			leave(b, wait)
			require.NoError(b, b.s.Resume())
		},
		"the answer is lost when the caller has left": func(b *busy, _, wait take) {
			leave(b, wait)
			b.wire.LoseAnswer()
			require.NoError(b, b.s.Resume())
		},
		"the answer is lost, and the caller does not wait": func(b *busy, try, _ take) {
			b.wire.LoseAnswer()
			_, err := try(context.Background())
			require.ErrorIs(b, err, lock.ErrUnknown)
		},
		"the answer is lost, and the caller tries again": func(b *busy, _, wait take) {
			b.wire.LoseAnswer()
			held, err := wait(context.Background())
			require.NoError(b, err)
			require.NoError(b, held.Unlock(context.Background()))
		},
	} {
		for _, kind := range []string{"mutex", "fair", "writer", "reader", "permits"} {
			t.Run(kind+"/"+event, func(t *testing.T) {
				withBusy(t, lock.Config{Connections: 1}, func(b *busy) {
					if kind == "permits" {
						fixture.Do(b, b.s, "SET", "m", 3)
					}
					try, wait := of(b.c, kind)
					warm, err := try(context.Background()) // the connection is there, and the server has the script
					require.NoError(b, err)
					require.NoError(b, warm.Unlock(context.Background()))
					synctest.Wait()
					do(b, try, wait)
					time.Sleep(time.Minute)
					if kind == "permits" {
						require.EqualValues(b, 3, fixture.Int(b, b.s, "GET", "m"))
						return
					}
					require.Empty(b, fixture.LockKeys(b, b.s))
				})
			})
		}
	}
}
