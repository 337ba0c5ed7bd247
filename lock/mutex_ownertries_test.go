package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestTwoCallsOfOneOwnerAtOnceDoNotRefuseEachOther: on a free lock the second
// re-enters what the first takes.
func TestTwoCallsOfOneOwnerAtOnceDoNotRefuseEachOther(t *testing.T) {
	s := onRedis(t)
	type call = func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error)
	const lease = 10 * time.Second
	mutex := map[string]call{
		"TryLock": func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.Mutex(name).TryLock(ctx)
		},
		"Lock": lockMutex,
		"TryLockFor": func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.Mutex(name).TryLockFor(ctx, lease)
		},
		"LockFor": func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.Mutex(name).LockFor(ctx, lease)
		},
	}
	fenced := map[string]call{
		"TryLock": func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.FencedMutex(name).TryLock(ctx)
		},
		"Lock": lockFenced,
	}
	fair := map[string]call{
		"TryLock": func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.FairMutex(name).TryLock(ctx)
		},
		"Lock": lockFair,
	}
	writer := map[string]call{
		"TryLock": func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.RWMutex(name).Writer().TryLock(ctx)
		},
		"Lock": lockWriting,
	}
	for kind, calls := range map[string]map[string]call{"Mutex": mutex, "FencedMutex": fenced, "FairMutex": fair, "RWMutex": writer} {
		for first, a := range calls {
			for _, b := range calls {
				t.Run(kind+" "+first, func(t *testing.T) {
					c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
					ctx := lock.WithOwner(bounded.Context(t), "the same")
					for range 30 {
						var wg sync.WaitGroup
						var helds [2]*lock.Held
						var errs [2]error
						for i, take := range []call{a, b} {
							wg.Go(func() { helds[i], errs[i] = take(ctx, c, t.Name()) })
						}
						bounded.Wait(t, &wg)
						require.NoError(t, errs[0])
						require.NoError(t, errs[1])
						for _, held := range helds {
							require.NoError(t, held.Unlock(ctx))
						}
					}
					require.Equal(t, 0, c.Stats().Waiting)
					require.Equal(t, 0, callers(c), "nothing is left of them")
				})
			}
		}
	}
}

// TestManyTriesOfOneOwnerOnAnotherOnesLockAreAllRefused: and ask no more often
// than they must.
func TestManyTriesOfOneOwnerOnAnotherOnesLockAreAllRefused(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex(t.Name()).Lock)
	c := fixture.ClientOf(t, s, lock.Config{})
	owner := lock.WithOwner(ctx, "the same")
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			_, err := c.Mutex(t.Name()).TryLock(owner)
			if !fixture.IsAny(err, lock.ErrNotAcquired) {
				t.Error(err)
			}
		})
	}
	bounded.Wait(t, &wg)
	require.Zero(t, callers(c))
	require.NoError(t, held.Unlock(ctx))
}

// TestATryThatWaitsForAnotherOfItsOwnerEndsWithItsContext: the other's answer may
// never come.
func TestATryThatWaitsForAnotherOfItsOwnerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{Connections: 1, IOTimeout: 3 * time.Second}) // that of "warm" is there
	held := fixture.Hold(t, c.Mutex("warm").Lock)
	require.NoError(t, held.Unlock(ctx))
	owner := lock.WithOwner(ctx, "the same")
	require.NoError(t, s.Pause())
	defer func() { require.NoError(t, s.Resume()) }()
	first := make(chan error, 1)
	go func() {
		_, err := c.Mutex("m").TryLock(owner)
		first <- err
	}()
	require.Eventually(t, func() bool { return callers(c) == 1 }, time.Minute, time.Millisecond)
	short, cancel := context.WithTimeout(owner, 50*time.Millisecond)
	defer cancel()
	_, err := c.Mutex("m").TryLock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrUnknown, "it asked nothing")
	require.Empty(t, first, "the first still waits for its answer")
	err = bounded.Receive(t, first)
	require.True(t, fixture.NoAnswer(err), err)
}

// TestTwoRedLockCallsOfOneOwnerAtOnceDoNotRefuseEachOther is the same for RedLocks
// and their members.
func TestTwoRedLockCallsOfOneOwnerAtOnceDoNotRefuseEachOther(t *testing.T) {
	servers := fiveMasters(t)[:3]
	var members []*lock.Mutex
	for _, s := range servers {
		members = append(members, fixture.ClientOf(t, s, lock.Config{Lease: redLease}).Mutex(t.Name()))
	}
	red := func() *lock.RedLock {
		r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		return r
	}
	one := red()
	for name, locks := range map[string][2]*lock.RedLock{"one RedLock": {one, one}, "two RedLocks of the same members": {one, red()}} {
		t.Run(name, func(t *testing.T) {
			ctx := lock.WithOwner(bounded.Context(t), "the same")
			for range 30 {
				var wg sync.WaitGroup
				var helds [2]*lock.MultiHeld
				var errs [2]error
				for i, r := range locks {
					wg.Go(func() { helds[i], errs[i] = r.TryLock(ctx) })
				}
				bounded.Wait(t, &wg)
				require.NoError(t, errs[0])
				require.NoError(t, errs[1])
				for _, held := range helds {
					require.NoError(t, held.Unlock(ctx))
				}
			}
		})
	}
}

// callers is how many owners' calls, and queues, c has in mind.
func callers(c *lock.Client) int {
	n := lock.Table(c).Counts()
	return n.Owners + n.Queues
}
