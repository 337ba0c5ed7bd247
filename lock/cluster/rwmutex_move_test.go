package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// TestAWriterDoesNotEnterBeforeTheKeysOfReadersHaveArrived: the lock and the list of waiting writers
// are at the new server, and the timeouts of the readers are not. So a script there takes the readers for
// dead. Another reader's release is owed, so the writer's next try looks at the timeouts.
func TestAWriterDoesNotEnterBeforeTheKeysOfReadersHaveArrived(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	const name, moving = "readers on their way", "its hash slot is being moved"
	slot, from := redisc.Slot(name), owner(t, rc, name)
	to := (from + 1) % 3
	source, target := rc.Servers[from], rc.Servers[to]
	cfg := lock.Config{Lease: 20 * time.Second, UnlockTimeout: time.Second, MaxPoll: time.Second}
	reads, writes, other := newClient(t, rc, cluster.Options{}, cfg), newClient(t, rc, cluster.Options{}, cfg), newClient(t, rc, cluster.Options{}, cfg)
	helds, timeouts := readers(t, rc, name, reads, writes)
	begin := func(m *lock.Mutex) <-chan error {
		done := make(chan error, 1)
		go func() { done <- m.Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
		return done
	}
	wrote := begin(writes.RWMutex(name).Writer())
	require.Eventually(t, func() bool { return fixture.Exists(t, source, keys.RWWriters(name)) }, time.Minute, time.Millisecond, "it waits")

	require.NoError(t, rc.BeginMove(slot, from, to))
	require.NoError(t, rc.MoveKeys(slot, from, to, name, keys.RWWriters(name)))
	// On a busy machine the last try may not have been answered when the time is over.
	failsWhileMoving := func(what string, call func() error) {
		bounded.Until(t, func() bool {
			err := call()
			require.ErrorIs(t, err, lock.ErrUnknown, what)
			return strings.Contains(err.Error(), moving)
		})
	}
	failsWhileMoving("Unlock", func() error { return helds[1].Unlock(ctx) })
	tries := writes.Stats().Tries
	require.Eventually(t, func() bool { return len(wrote) > 0 || writes.Stats().Tries > tries+3 }, time.Minute, time.Millisecond, "it tries again")
	require.Empty(t, wrote, "a reader has the lock")
	require.True(t, helds[0].Valid())

	there := func() map[string]string {
		conn := fixture.Dial(t, target)
		fixture.DoOn(t, conn, "ASKING")
		fields, err := redis.StringMap(conn.Do("HGETALL", name))
		require.NoError(t, err)
		return fields
	}
	before := there()
	require.Len(t, before, 3, "the mode and two readers")
	for what, call := range map[string]func() error{
		"TryLock of the Writer":           func() error { _, err := other.RWMutex(name).Writer().TryLock(ctx); return err },
		"TryLock of the Reader":           func() error { _, err := other.RWMutex(name).Reader().TryLock(ctx); return err },
		"ForceUnlock":                     func() error { _, err := other.RWMutex(name).Writer().ForceUnlock(ctx); return err },
		"Lock of the Writer, for a while": func() error { return whileMoving(ctx, other.RWMutex(name).Writer()) },
		"Lock of the Reader, for a while": func() error { return whileMoving(ctx, other.RWMutex(name).Reader()) },
	} {
		failsWhileMoving(what, call)
		require.Equal(t, before, there(), what)
	}
	read := begin(other.RWMutex(name).Reader())

	require.NoError(t, rc.MoveKeys(slot, from, to))
	require.NoError(t, rc.EndMove(slot, from, to))
	require.Positive(t, fixture.PTTL(t, target, timeouts[0]))
	_, err := other.RWMutex(name).Writer().TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, helds[0].Unlock(ctx))
	require.NoError(t, bounded.Receive(t, wrote), "the reader whose Unlock failed is out too")
	require.NoError(t, bounded.Receive(t, read))
	require.Eventually(t, func() bool { return len(keysInSlot(t, rc, slot, to)) == 0 }, time.Minute, time.Millisecond, "nothing is left")
	require.Empty(t, reads.Stats().Renewal.Lost)
}

// whileMoving calls Lock for a lock that cannot be taken before its slot has arrived.
func whileMoving(ctx context.Context, m *lock.Mutex) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // several tries on a busy machine
	defer cancel()
	_, err := m.Lock(ctx)
	return err
}
