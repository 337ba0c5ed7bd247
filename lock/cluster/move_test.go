package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestASlotHeldHalfMigrated for three leases: locks in it are taken, renewed,
// re-entered, handed over and released, whether their keys, and the token
// counter, have gone already or not.
func TestASlotHeldHalfMigrated(t *testing.T) {
	t.Parallel()
	for _, counter := range []string{"stays", "goes", "is new"} {
		t.Run("counter "+counter, func(t *testing.T) {
			t.Parallel()
			rc := onCluster(t)
			tag := "{half " + counter + "}"
			slot, from := redisc.Slot(tag), owner(t, rc, tag)
			to := (from + 1) % 3
			ctx := bounded.Context(t)
			lease := 3 * time.Second // on a busy machine too
			a := newClient(t, rc, cluster.Options{}, lock.Config{Lease: lease})
			b := newClient(t, rc, cluster.Options{}, lock.Config{Lease: lease})
			tokens := map[string]int64{}
			var kept, gone map[string]*lock.Held
			if counter != "is new" {
				kept, gone = fixture.LockAll(t, a, fixture.Names(tag+"kept", 20)), fixture.LockAll(t, a, fixture.Names(tag+"gone", 20))
			}
			require.NoError(t, rc.BeginMove(slot, from, to))
			var moved []string
			for name := range gone {
				moved = append(moved, name)
			}
			if counter == "goes" {
				moved = append(moved, counterOf(t, rc, slot, from))
			}
			if len(moved) > 0 {
				require.NoError(t, rc.MoveKeys(slot, from, to, moved...))
			}
			for round, end := 0, time.Now().Add(3*lease); time.Now().Before(end); round++ {
				for _, name := range fixture.Names(tag+"fresh", 3) {
					c := []*lock.Client{a, b}[round%2]
					held := fixture.Hold(t, c.Mutex(name).Lock)
					require.Greater(t, held.Token(), tokens[name], "tokens rise")
					tokens[name] = held.Token()
					inner, err := c.Mutex(name).Lock(held.Context(ctx))
					require.NoError(t, err)
					require.NoError(t, inner.Unlock(ctx))
					handed := make(chan *lock.Held, 1)
					go func() {
						next, err := c.Mutex(name).Lock(ctx)
						if err != nil {
							t.Error(err)
						}
						handed <- next
					}()
					require.NoError(t, held.Unlock(ctx))
					next := bounded.Receive(t, handed)
					require.Greater(t, next.Token(), tokens[name])
					tokens[name] = next.Token()
					require.NoError(t, next.Unlock(ctx))
				}
				for _, helds := range []map[string]*lock.Held{kept, gone} {
					for name, held := range helds {
						require.True(t, held.Valid(), name)
					}
				}
			}
			// A lock that has no key yet is taken on the server to which the slot goes.
			late := fixture.LockAll(t, a, fixture.Names(tag+"late", 5))
			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
			fixture.AwaitRenewed(t, a, 3*(len(kept)+len(gone)+len(late)))
			require.Empty(t, a.Stats().Renewal.Lost)
			for _, helds := range []map[string]*lock.Held{kept, gone, late} {
				for name, held := range helds {
					require.True(t, held.Valid(), name)
					requireTrusted(t, rc.Servers[to], held)
					require.NoError(t, held.Unlock(ctx))
					require.EqualValues(t, -2, fixture.PTTL(t, rc.Servers[to], name, "ASKING"), name)
				}
			}
			for name, last := range tokens {
				held := fixture.Hold(t, b.Mutex(name).Lock)
				require.Greater(t, held.Token(), last)
			}
			require.NoError(t, a.Close(ctx))
		})
	}
}

// counterOf returns the slot's token counter.
func counterOf(t *testing.T, rc *redistest.Cluster, slot, server int) string {
	for _, key := range keysInSlot(t, rc, slot, server) {
		if len(key) > 15 && key[:15] == "wheellock_token" {
			return key
		}
	}
	t.Fatal("no counter")
	return ""
}

// TestNobodyNoticesThatSlotsMove: two clients contend for locks of several slots
// that go from master to master all the time. No two owners have a lock at the
// same time, tokens rise, and no lock is lost.
func TestNobodyNoticesThatSlotsMove(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	rc := onCluster(t)
	ctx, cancel := context.WithCancel(bounded.Context(t))
	defer cancel()
	cfg := lock.Config{Lease: 2 * time.Second}
	clients := []*lock.Client{newClient(t, rc, cluster.Options{}, cfg), newClient(t, rc, cluster.Options{}, cfg)}
	const locks = 4
	type guarded struct {
		inside atomic.Int32
		token  atomic.Int64
		done   atomic.Int32
	}
	var state [locks]guarded
	held := fixture.LockAll(t, clients[0], fixture.Names("roaming:held:", 300))
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				n := i % locks
				g := &state[n]
				held, err := clients[w%2].Mutex(fmt.Sprintf("{roaming %d}:m", n)).Lock(ctx)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if g.inside.Add(1) != 1 {
					t.Error("two at once")
				}
				if last := g.token.Swap(held.Token()); last >= held.Token() {
					t.Errorf("token %d after %d", held.Token(), last)
				}
				g.inside.Add(-1)
				g.done.Add(1)
				if err := held.Unlock(bounded.Context(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range 6 {
		var slots []int
		for n := range locks {
			slots = append(slots, redisc.Slot(fmt.Sprintf("{roaming %d}:m", n)))
		}
		for name := range held {
			if len(slots) == 12 {
				break
			}
			slots = append(slots, redisc.Slot(name))
		}
		for _, slot := range slots {
			from, err := rc.Owner(slot)
			require.NoError(t, err)
			to := (from + 1 + round%2) % 3
			require.NoError(t, rc.BeginMove(slot, from, to))
			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
		}
		for n := range locks {
			before := state[n].done.Load()
			require.Eventually(t, func() bool { return state[n].done.Load() > before+3 }, time.Minute, time.Millisecond, "it goes on")
		}
	}
	fixture.AwaitRenewed(t, clients[0], 900)
	cancel()
	bounded.Wait(t, &wg)
	require.Empty(t, clients[0].Stats().Renewal.Lost)
	require.Empty(t, clients[1].Stats().Renewal.Lost)
	for name, held := range held {
		require.True(t, held.Valid(), name)
		require.NoError(t, held.Unlock(bounded.Context(t)))
	}
}

// TestAWaiterIsWokenThoughTheSlotMoved while it slept. No poll can wake it.
func TestAWaiterIsWokenThoughTheSlotMoved(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	for way, set := range waysToPublish(t) {
		sharded := set != topology.PubSubPlain
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			ctx := bounded.Context(t)
			cfg := lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: time.Hour}
			a := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			b := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			name := fmt.Sprint("asleep ", way)
			slot, from := redisc.Slot(name), owner(t, rc, name)
			to := (from + 2) % 3
			held := fixture.Hold(t, a.Mutex(name).Lock)
			got := make(chan error, 1)
			go func() { got <- b.Mutex(name).Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
			require.Eventually(t, func() bool { return subscribed(t, rc.Servers[from], name, sharded) }, time.Minute, time.Millisecond)
			require.NoError(t, rc.BeginMove(slot, from, to))
			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
			if sharded { // the old server has told it to go
				require.Eventually(t, func() bool { return subscribed(t, rc.Servers[to], name, sharded) }, time.Minute, time.Millisecond)
			}
			require.NoError(t, held.Unlock(ctx))
			select {
			case err := <-got:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				t.Fatal("nothing woke the waiter")
			}
		})
	}
}

// TestAWaiterTriesOftenWhileItsSlotMoves: its channel is at the old server, and a release of a key that has
// moved publishes at the new one. So no message comes, and the waiter must not count on one.
func TestAWaiterTriesOftenWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	for _, listens := range []string{"before", "afterwards"} {
		t.Run("it listens "+listens, func(t *testing.T) {
			t.Parallel()
			ctx := bounded.Context(t)
			cfg := lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: 5 * time.Second}
			a := newClient(t, rc, cluster.Options{PubSub: topology.PubSubSharded}, cfg)
			b := newClient(t, rc, cluster.Options{PubSub: topology.PubSubSharded}, cfg)
			name := "it listens " + listens
			slot, from := redisc.Slot(name), owner(t, rc, name)
			to := (from + 1) % 3
			held := fixture.Hold(t, a.Mutex(name).Lock)
			got := make(chan error, 1)
			wait := func() {
				go func() { got <- b.Mutex(name).Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
				require.Eventually(t, func() bool { return subscribed(t, rc.Servers[from], name, true) }, time.Minute, time.Millisecond)
				time.Sleep(time.Second) // it has tried once more
			}
			if listens == "before" {
				wait()
			}
			require.NoError(t, rc.BeginMove(slot, from, to))
			require.NoError(t, rc.MoveKeys(slot, from, to))
			if listens == "before" { // it learns of the move at its next try
				require.EqualValues(t, 1, fixture.Int(t, rc.Servers[from], "SPUBLISH", "redisson_lock__channel:{"+name+"}", 0))
				time.Sleep(time.Second)
			} else {
				wait()
			}
			require.NoError(t, held.Unlock(ctx))
			select {
			case err := <-got:
				require.NoError(t, err)
			case <-time.After(20 * time.Second): // it would sleep for 6 x MaxPoll
				t.Error("it did not try")
			}
			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
		})
	}
}

// TestAHoldIsKeptThoughTheMoveOfItsSlotIsTakenBack: a renewal comes when the key is back, and the server that
// does not get the slot does not know that yet.
func TestAHoldIsKeptThoughTheMoveOfItsSlotIsTakenBack(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	lease := 3 * time.Second
	c := newClient(t, rc, cluster.Options{}, lock.Config{Lease: lease})
	const name = "there and back"
	slot, from := redisc.Slot(name), owner(t, rc, name)
	to := (from + 1) % 3
	helds := []*lock.Held{fixture.Hold(t, c.Mutex(name).Lock), fixture.Hold(t, c.RWMutex("{"+name+"}rw").Reader().Lock)}
	require.NoError(t, rc.BeginMove(slot, from, to))
	require.NoError(t, rc.MoveKeys(slot, from, to))
	time.Sleep(2 * lease) // they are renewed where they are
	fixture.Do(t, rc.Servers[from], "CLUSTER", "SETSLOT", slot, "STABLE")
	require.NoError(t, rc.MoveKeys(slot, to, from))
	time.Sleep(2 * lease)
	fixture.Do(t, rc.Servers[to], "CLUSTER", "SETSLOT", slot, "STABLE")
	time.Sleep(lease)
	for _, held := range helds {
		require.True(t, held.Valid(), held.Name())
		require.NoError(t, held.Unlock(ctx))
	}
	require.Empty(t, c.Stats().Renewal.Lost)
}
