package cluster_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestPermitsByIDOnACluster: under names of all forms, a client releases permits of
// another one and sets their leases. A message alone wakes the waiter.
func TestPermitsByIDOnACluster(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := context.Background()
	cfg := lock.Config{Lease: 10 * time.Minute, MaxPoll: time.Hour}
	for way, set := range waysToPublish(t) {
		sharded := set != topology.PubSubPlain
		t.Run(way, func(t *testing.T) {
			a := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			b := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			for _, name := range tagged(fmt.Sprint("permits by id:", way)) {
				mine, theirs := a.PermitSemaphore(name), b.PermitSemaphore(name)
				require.NoError(t, mine.Set(ctx, 3))
				held, err := mine.AcquireFor(ctx, 3, time.Hour)
				require.NoError(t, err)
				ids := held.Permits()
				require.NoError(t, theirs.SetLease(ctx, ids[0], 24*time.Hour))
				left, err := theirs.Lease(ctx, ids[0])
				require.NoError(t, err)
				require.Greater(t, left, 23*time.Hour)
				absent := strings.Repeat("0", 32)
				require.ErrorIs(t, theirs.Release(ctx, ids[0], absent), lock.ErrNotHeld)
				got := make(chan error, 1)
				go func() {
					held, err := theirs.Acquire(ctx, 2)
					if err == nil {
						err = held.Unlock(ctx)
					}
					got <- err
				}()
				awaitListener(t, rc, name, sharded)
				require.NoError(t, theirs.Release(ctx, ids[:2]...))
				select {
				case err := <-got:
					require.NoError(t, err)
				case <-time.After(20 * time.Second):
					t.Fatal("nothing woke who waits for ", name)
				}
				requireOneSlot(t, rc, name)
				raw, err := hex.DecodeString(ids[2])
				require.NoError(t, err)
				taken := "{" + name + "}:timeout"
				if strings.Contains(name, "{") {
					taken = name + ":timeout"
				}
				require.Equal(t, redisc.Slot(name), redisc.Slot(taken))
				require.NotNil(t, fixture.Do(t, rc.Servers[owner(t, rc, name)], "ZSCORE", taken, raw))
				require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)

				for _, sem := range []interface {
					Expire(context.Context, time.Duration) (bool, error)
					TTL(context.Context) (time.Duration, error)
					Delete(context.Context) (bool, error)
				}{theirs, b.Semaphore(name)} {
					done, err := sem.Expire(ctx, time.Hour)
					require.NoError(t, err)
					require.True(t, done)
					left, err := sem.TTL(ctx)
					require.NoError(t, err)
					require.Greater(t, left, 50*time.Minute)
					done, err = b.Semaphore(name).ReleaseIfExists(ctx, 1)
					require.NoError(t, err)
					require.True(t, done)
					done, err = sem.Delete(ctx)
					require.NoError(t, err)
					require.True(t, done)
					done, err = b.Semaphore(name).ReleaseIfExists(ctx, 1)
					require.NoError(t, err)
					require.False(t, done)
					require.NoError(t, a.Semaphore(name).Add(ctx, 1))
				}
			}
		})
	}
}

// TestAReleaseByIDWaitsForASlotThatMoves: it does not return while the keys are on two
// servers, and then it takes effect once.
func TestAReleaseByIDWaitsForASlotThatMoves(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := context.Background()
	const name = "released while it moves"
	c := newClient(t, rc, cluster.Options{}, lock.Config{UnlockTimeout: 20 * time.Second, IOTimeout: time.Second})
	sem := c.PermitSemaphore(name)
	require.NoError(t, sem.Set(ctx, 3))
	held, err := sem.AcquireFor(ctx, 3, time.Hour)
	require.NoError(t, err)
	slot, from := redisc.Slot(name), owner(t, rc, name)
	to := (from + 1) % 3
	require.NoError(t, rc.BeginMove(slot, from, to))
	require.NoError(t, rc.MoveKeys(slot, from, to, name))
	released := make(chan error, 1)
	go func() { released <- sem.Release(ctx, held.Permits()...) }()
	require.Never(t, func() bool { return len(released) > 0 }, 100*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, rc.MoveKeys(slot, from, to))
	require.NoError(t, rc.EndMove(slot, from, to))
	require.NoError(t, <-released)
	info, err := sem.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.PermitInfo{Exists: true, Available: 3}, info)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}
