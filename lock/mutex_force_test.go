package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// forced is a call of ForceUnlock, and the name of its script.
type forced struct {
	force  func(context.Context) (bool, error)
	script string
}

func forces(c *lock.Client, t *testing.T) map[string]forced {
	rw := c.RWMutex(t.Name() + ":rw")
	return map[string]forced{
		"mutex":  {c.Mutex(t.Name()).ForceUnlock, "force"},
		"fenced": {c.FencedMutex(t.Name() + ":fenced").ForceUnlock, "force"},
		"fair":   {c.FairMutex(t.Name() + ":fair").ForceUnlock, "fair_force"},
		"write":  {rw.Writer().ForceUnlock, "rw_force"},
		"read":   {rw.Writer().ForceUnlock, "rw_force"},
	}
}

// TestAHoldOfLockForIsToldOfAForceUnlockWhenItIsUsed: no renewal asks Redis about it.
func TestAHoldOfLockForIsToldOfAForceUnlockWhenItIsUsed(t *testing.T) {
	for way, use := range map[string]func(ctx context.Context, m *lock.Mutex, held *lock.Held) error{
		"Extend": func(ctx context.Context, _ *lock.Mutex, held *lock.Held) error { return held.Extend(ctx, 3*time.Hour) },
		"Guard": func(ctx context.Context, _ *lock.Mutex, held *lock.Held) error {
			_, err := held.Guard(ctx, "SET", []string{"x"}, 1)
			return err
		},
		"re-entry": func(ctx context.Context, m *lock.Mutex, held *lock.Held) error {
			_, err := m.TryLock(held.Context(ctx))
			return err
		},
		"Unlock": func(ctx context.Context, _ *lock.Mutex, held *lock.Held) error { return held.Unlock(ctx) },
		"the end of the lease": func(_ context.Context, _ *lock.Mutex, held *lock.Held) error {
			<-held.Done()
			return held.Err()
		},
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				m, other := srv.Client(lock.Config{}).Mutex("m"), srv.Client(lock.Config{}).Mutex("m")
				held, err := m.LockFor(t.Context(), 2*time.Hour)
				require.NoError(t, err)
				ok, err := other.ForceUnlock(t.Context())
				require.NoError(t, err)
				require.True(t, ok)
				next := fixture.Hold(t, other.Lock)
				time.Sleep(time.Hour)
				require.True(t, held.Valid())
				require.True(t, next.Valid())
				require.Greater(t, next.Token(), held.Token())
				require.ErrorIs(t, use(t.Context(), m, held), lock.ErrLost)
				require.False(t, held.Valid())
				require.True(t, next.Valid())
			})
		})
	}
}

func TestALateForceUnlockLeavesALaterHolderItsLock(t *testing.T) {
	s := onRedis(t)
	for _, sort := range []string{"mutex", "fenced", "fair", "write", "read"} {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			st := fixture.Stall(t, s)
			c, admin := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOver(t, st, lock.Config{IOTimeout: 200 * time.Millisecond})
			ctx := bounded.Context(t)
			lk, force := fixture.LockKinds(t, c)[sort], forces(admin, t)[sort]
			first, err := lk.Lock(ctx)
			require.NoError(t, err)
			st.HoldBack(force.script)
			_, err = force.force(ctx)
			require.ErrorIs(t, err, lock.ErrUnknown)
			require.Equal(t, 1, st.Arrived(force.script))
			require.NoError(t, first.Unlock(ctx))
			second, err := lk.Lock(ctx)
			require.NoError(t, err)
			before := fixture.Hash(t, s, lk.Key)
			st.LetThrough()
			bounded.Until(t, st.HasSettled)
			require.Equal(t, before, fixture.Hash(t, s, lk.Key))
			require.True(t, second.Valid())
			ok, err := force.force(ctx)
			require.NoError(t, err)
			require.True(t, ok)
			require.False(t, fixture.Exists(t, s, lk.Key))
			require.ErrorIs(t, second.Unlock(ctx), lock.ErrLost)
		})
	}
}

func TestForceUnlockReadsAgainWhenTheHolderHasChanged(t *testing.T) {
	s := onRedis(t)
	for _, sort := range []string{"mutex", "fenced", "fair", "write", "read"} {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			st := fixture.Stall(t, s)
			c, admin := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOver(t, st, lock.Config{})
			ctx := bounded.Context(t)
			lk, force := fixture.LockKinds(t, c)[sort], forces(admin, t)[sort]
			first, err := lk.Lock(ctx)
			require.NoError(t, err)
			st.HoldBack(force.script)
			type result struct {
				ok  bool
				err error
			}
			done := make(chan result, 1)
			go func() {
				ok, err := force.force(ctx)
				done <- result{ok, err}
			}()
			fixture.AwaitArrived(t, st, force.script, 1)
			require.NoError(t, first.Unlock(ctx))
			second, err := lk.Lock(ctx)
			require.NoError(t, err)
			st.LetThrough()
			require.Equal(t, result{true, nil}, bounded.Receive(t, done))
			require.False(t, fixture.Exists(t, s, lk.Key))
			require.ErrorIs(t, second.Unlock(ctx), lock.ErrLost)
			ok, err := force.force(ctx)
			require.NoError(t, err)
			require.False(t, ok)
		})
	}
}

// TestForceUnlockOfReadersLeavesOneThatCameMeanwhile: it removes only the readers
// that it has seen at its beginning.
func TestForceUnlockOfReadersLeavesOneThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	c, admin := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOver(t, st, lock.Config{})
	ctx := bounded.Context(t)
	first := fixture.Hold(t, c.RWMutex(t.Name()).Reader().Lock)
	st.HoldBack("rw_force")
	done := make(chan error, 1)
	go func() {
		_, err := admin.RWMutex(t.Name()).Writer().ForceUnlock(ctx)
		done <- err
	}()
	fixture.AwaitArrived(t, st, "rw_force", 1)
	second := fixture.Hold(t, c.RWMutex(t.Name()).Reader().Lock)
	st.LetThrough()
	require.NoError(t, bounded.Receive(t, done))
	require.ErrorIs(t, first.Unlock(ctx), lock.ErrLost)
	require.Equal(t, "read", fixture.Hash(t, s, t.Name())["mode"])
	require.NoError(t, second.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, t.Name()))
}

func TestForceUnlockTakesTheLockAndLeavesOtherKeysAlone(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second, MaxPoll: time.Hour})
	mu, ctx := c.Mutex(t.Name()), bounded.Context(t)
	ok, err := mu.ForceUnlock(ctx)
	require.NoError(t, err)
	require.False(t, ok)
	held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second}).Mutex(t.Name()).Lock)
	wg := fixture.LockInTurn(t, c, t.Name(), 1, func(*lock.Held) {})
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+t.Name()+"}", 1)
	ok, err = mu.ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	bounded.Wait(t, wg)
	fixture.RequireLost(t, held, lock.NotOwner)

	fixture.Do(t, s, "HSET", t.Name()+"-user", "name", "bob")
	fixture.Do(t, s, "SET", t.Name()+"-text", "bob")
	for _, key := range []string{t.Name() + "-user", t.Name() + "-text"} {
		_, err = c.Mutex(key).ForceUnlock(ctx)
		require.ErrorIs(t, err, lock.ErrNotALock)
		require.True(t, fixture.Exists(t, s, key))
	}
}

// TestAForceUnlockThatFailsLaterSaysThatItHasDeleted: of very many holds it deletes some each time, and
// the key becomes another one after the first time.
func TestAForceUnlockThatFailsLaterSaysThatItHasDeleted(t *testing.T) {
	for becomes, test := range map[string]struct {
		change [][]any // commands
		says   string
	}{
		"a string with a TTL": {[][]any{{"SET", "m", "x", "PX", 3_600_000}}, "the lock of another library"},
		"no lock":             {[][]any{{"DEL", "m"}, {"HSET", "m", "x", "y"}}, "is a hash of other things"},
	} {
		t.Run(becomes, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				m := srv.Client(lock.Config{IOTimeout: 3 * time.Second}).Mutex("m")
				do := func(args ...any) any {
					reply, err := srv.Do(args[0].(string), args[1:]...)
					require.NoError(t, err)
					return reply
				}
				const many, delay = 1500, 50 * time.Millisecond
				for i := range many {
					do("HSET", "m", fmt.Sprintf("8743c9c0-0795-4907-87fd-6c719a6b4586:%d", i), 1)
				}
				_, err := m.Inspect(t.Context()) // so the client is connected
				require.NoError(t, err)
				srv.SetDelay(delay)
				type result struct {
					deleted bool
					err     error
				}
				done := make(chan result, 1)
				go func() {
					deleted, err := m.ForceUnlock(t.Context())
					done <- result{deleted, err}
				}()
				time.Sleep(3 * time.Millisecond) // between the instants at which the server gets something
				for left := many; left == many; {
					time.Sleep(10 * time.Millisecond)
					srv.SetDelay(0) // for this call
					left = int(do("HLEN", "m").(int64))
					srv.SetDelay(delay)
				}
				srv.SetDelay(0)
				for _, c := range test.change {
					do(c...)
				}
				r := <-done
				require.ErrorIs(t, r.err, lock.ErrNotALock)
				require.ErrorContains(t, r.err, test.says)
				require.True(t, r.deleted)
			})
		})
	}
}
