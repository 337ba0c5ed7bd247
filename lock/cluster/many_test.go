package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

// TestASlotMovesAmongManyLocks while TryLockMany takes them. It moves back while UnlockMany releases
// them. No lock is missing, and nothing is left on any server.
func TestASlotMovesAmongManyLocks(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	const tag, of = "{many moves}", 2000
	slot, from := redisc.Slot(tag), owner(t, rc, tag)
	to := (from + 1) % 3
	var names []string
	for i := range of { // half of them are in the slot
		names = append(names, fmt.Sprint(tag, i), fmt.Sprint("many:", i))
	}

	// The slot begins to move at the thousandth of each, which waits for that.
	var acquired, released atomic.Int64
	begin, begun := make(chan bool), make(chan bool)
	thousandth := func(n *atomic.Int64) func(lock.Event) {
		return func(lock.Event) {
			if n.Add(1) == 1000 {
				begin <- true
				<-begun
			}
		}
	}
	c := newClient(t, rc, cluster.Options{}, lock.Config{
		Lease: 10 * time.Minute, IOTimeout: time.Minute,
		Hooks: lock.Hooks{Acquired: thousandth(&acquired), Released: thousandth(&released)},
	})
	move := func(from, to int) (moving *sync.WaitGroup) {
		moving = new(sync.WaitGroup)
		moving.Go(func() {
			bounded.Receive(t, begin)
			err := rc.BeginMove(slot, from, to)
			begun <- true
			if err == nil {
				err = errors.Join(rc.MoveKeys(slot, from, to), rc.EndMove(slot, from, to))
			}
			if err != nil {
				t.Error(err)
			}
		})
		return moving
	}

	moving := move(from, to)
	var helds []*lock.Held
	for i, try := range c.TryLockMany(t.Context(), names) {
		require.NoError(t, try.Err, names[i])
		helds = append(helds, try.Held)
	}
	bounded.Wait(t, moving)
	require.Equal(t, to, owner(t, rc, tag))
	require.EqualValues(t, of+1, fixture.Do(t, rc.Servers[to], "CLUSTER", "COUNTKEYSINSLOT", slot), "with the counter of tokens")

	moving = move(to, from)
	require.NoError(t, errors.Join(lock.UnlockMany(t.Context(), helds)...))
	bounded.Wait(t, moving)
	require.Equal(t, from, owner(t, rc, tag))
	require.Empty(t, c.Stats().Renewal.Lost)
	for _, s := range rc.Servers {
		require.Empty(t, fixture.Keys(t, s, tag+"[0-9]*"))
		require.Empty(t, fixture.Keys(t, s, "many:*"))
	}
}
