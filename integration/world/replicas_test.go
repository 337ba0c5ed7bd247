package world_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func TestReplicasConfigIsChecked(t *testing.T) {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { panic("no I/O") }, MaxActive: 6}
	_, err := lock.New(pool, lock.Config{Replicas: -1})
	require.ErrorContains(t, err, "Config.Replicas is -1")
	_, err = lock.New(pool, lock.Config{ReplicaTimeout: time.Second})
	require.ErrorContains(t, err, "Config.ReplicaTimeout is 1s: it needs Config.Replicas")
	_, err = lock.New(pool, lock.Config{Replicas: 1, ReplicaTimeout: 1500 * time.Microsecond})
	require.ErrorContains(t, err, "whole milliseconds")
	_, err = lock.New(pool, lock.Config{Replicas: 1, ReplicaTimeout: time.Minute})
	require.ErrorContains(t, err, "Config.ReplicaTimeout is 1m0s")
	_, err = lock.New(pool, lock.Config{Replicas: 1})
	require.ErrorContains(t, err, "MaxActive is 6: the engine needs 7")
}

func TestAnAcquisitionIsOnItsReplicas(t *testing.T) {
	t.Parallel()
	master, replica := fixture.WithReplica(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, master, lock.Config{Replicas: 1})
	conn := fixture.Dial(t, replica)
	for i := range 50 {
		name := fmt.Sprint(t.Name(), i)
		held := fixture.Hold(t, c.Mutex(name).Lock)
		n, err := redis.Int(conn.Do("EXISTS", name))
		require.NoError(t, err)
		require.Equal(t, 1, n, "the replica has it when Lock returns")
		require.NoError(t, held.Unlock(ctx))
	}
}

// TestAnAcquisitionWhoseReplicasMayNotBeAwaitedIsGivenBack: Redis has carried the acquisition out, but
// refuses WAIT.
func TestAnAcquisitionWhoseReplicasMayNotBeAwaitedIsGivenBack(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	c := fixture.ClientWithout(t, s, "nowait", lock.Config{Replicas: 1}, "-wait")
	permits := c.PermitSemaphore("permits")
	_, err := permits.TrySet(ctx, 3)
	require.NoError(t, err)
	takes := map[string]func(context.Context) (*lock.Held, error){
		"waiting": c.Mutex("waiting").Lock, "fair waiter": c.FairMutex("fair waiter").Lock,
		"permits": func(ctx context.Context) (*lock.Held, error) { return permits.TryAcquire(ctx, 3) },
	}
	for kind, m := range fixture.MutexKinds(c, "m") {
		takes[kind] = m.TryLock
	}
	for kind, take := range takes {
		_, err := take(ctx)
		require.ErrorContains(t, err, "NOPERM", kind)
		require.Eventually(t, func() bool {
			return fixture.Int(t, s, "EXISTS", "m", "waiting", "fair waiter") == 0 && fixture.Int(t, s, "GET", "permits") == 3
		}, 20*time.Second, time.Millisecond, kind)
	}
}

func TestTooFewReplicasGiveTheLockBack(t *testing.T) {
	t.Parallel()
	master, replica := fixture.WithReplica(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, master, lock.Config{Replicas: 1, ReplicaTimeout: 50 * time.Millisecond})
	two := fixture.ClientOf(t, master, lock.Config{Replicas: 2, ReplicaTimeout: 50 * time.Millisecond})
	_, err := two.Mutex(t.Name()).Lock(ctx)
	require.ErrorIs(t, err, lock.ErrNotReplicated)
	var short *lock.ReplicationError
	require.ErrorAs(t, err, &short)
	require.Equal(t, lock.ReplicationError{Name: t.Name(), Wanted: 2, Acknowledged: 1}, *short)
	require.False(t, fixture.Exists(t, master, t.Name()), "it was given back")

	require.NoError(t, replica.Pause())
	permits := c.PermitSemaphore(t.Name() + " permits")
	_, err = permits.TrySet(ctx, 5)
	require.NoError(t, err)
	for _, take := range []func(context.Context) (*lock.Held, error){
		c.Mutex(t.Name()).Lock, c.Mutex(t.Name()).TryLock, c.FencedMutex(t.Name()).Lock, c.FairMutex(t.Name()).Lock,
		c.RWMutex(t.Name()).Writer().Lock, c.RWMutex(t.Name()).Reader().Lock,
		func(ctx context.Context) (*lock.Held, error) { return permits.Acquire(ctx, 3) },
	} {
		_, err = take(ctx)
		require.ErrorIs(t, err, lock.ErrNotReplicated)
		require.NotErrorIs(t, err, lock.ErrUnknown)
		require.ErrorAs(t, err, &short)
		require.Zero(t, short.Acknowledged)
		require.False(t, fixture.Exists(t, master, t.Name()))
		info, err := permits.Inspect(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 5, info.Available)
	}
	_, err = fixture.MultiLock(t, c.Mutex(t.Name()), c.Mutex(t.Name()+"2")).Lock(ctx)
	require.ErrorIs(t, err, lock.ErrNotReplicated)

	require.NoError(t, replica.Resume())
	require.Eventually(t, func() bool {
		held, err := c.Mutex(t.Name()).Lock(ctx)
		if err != nil {
			require.ErrorIs(t, err, lock.ErrNotReplicated)
			return false
		}
		require.NoError(t, held.Unlock(ctx))
		return true
	}, time.Minute, time.Millisecond)
	require.Zero(t, c.Stats().Held)
}

// TestTheWaitForReplicasComesOffTheTrust: the holder's deadline counts from before the
// acquisition, and not from the acknowledgement of the replica.
func TestTheWaitForReplicasComesOffTheTrust(t *testing.T) {
	t.Parallel()
	master, replica := fixture.WithReplica(t)
	const lease = 10 * time.Minute
	c := fixture.ClientOf(t, master, lock.Config{
		Lease: lease, Replicas: 1, ReplicaTimeout: time.Minute,
		Margin: 50 * time.Millisecond,
	})
	require.NoError(t, replica.Pause())
	got := make(chan *lock.Held, 1)
	go func() {
		held, err := c.Mutex(t.Name()).LockFor(bounded.Context(t), lease)
		require.NoError(t, err)
		got <- held
	}()
	// More than the margin passes while the call waits for the replica.
	var pttl int64
	require.Eventually(t, func() bool {
		pttl = fixture.PTTL(t, master, t.Name())
		return pttl > 0 && pttl < lease.Milliseconds()-300
	}, time.Minute, time.Millisecond)
	at := time.Now()
	require.NoError(t, replica.Resume())
	held := bounded.Receive(t, got)
	require.True(t, held.Deadline().Before(at.Add(time.Duration(pttl)*time.Millisecond)))
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestOthersAreNotHeldUpByAWaitForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := fixture.WithReplica(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, master, lock.Config{Lease: time.Hour, Replicas: 1, ReplicaTimeout: 5 * time.Minute})
	var helds []*lock.Held
	for i := range 4 {
		held := fixture.Hold(t, c.Mutex(fmt.Sprint(t.Name(), i)).Lock)
		helds = append(helds, held)
	}
	other := fixture.ClientOf(t, master, lock.Config{})
	foreign := fixture.Hold(t, other.Mutex(t.Name()+"foreign").Lock)
	require.NoError(t, replica.Pause())
	wait, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name() + "waits").Lock(wait)
		failed <- err
	}()
	require.Eventually(t, func() bool { return fixture.Exists(t, master, t.Name()+"waits") }, time.Minute, time.Millisecond)
	for _, held := range helds {
		require.NoError(t, held.Extend(ctx, time.Hour))
		require.NoError(t, held.Unlock(ctx), "releases have connections of their own")
	}
	_, err := c.Mutex(t.Name() + "foreign").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired, "the second connection says no at once")
	// The caller leaves at once. The client releases what the late answer brings.
	cancel()
	require.ErrorIs(t, bounded.Receive(t, failed), context.Canceled)
	require.NoError(t, replica.Resume())
	fixture.AwaitGone(t, master, t.Name()+"waits")
	require.NoError(t, foreign.Unlock(ctx))
}

// TestNothingIsHandedOnPastTheReplicas: even within one client, the next owner
// has the lock only when replicas have its field.
func TestNothingIsHandedOnPastTheReplicas(t *testing.T) {
	t.Parallel()
	master, replica := fixture.WithReplica(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, master, lock.Config{Replicas: 1, ReplicaTimeout: 50 * time.Millisecond})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	next := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name()).Lock(ctx)
		next <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, replica.Pause())
	require.NoError(t, held.Unlock(ctx))
	require.ErrorIs(t, bounded.Receive(t, next), lock.ErrNotReplicated)
	require.NoError(t, replica.Resume())
}

func TestWaitersForReplicasTakeTurns(t *testing.T) {
	t.Parallel()
	master, _ := fixture.WithReplica(t)
	ctx := bounded.Context(t)
	c, d := fixture.ClientOf(t, master, lock.Config{Replicas: 1}), fixture.ClientOf(t, master, lock.Config{Replicas: 1})
	turns := 0 // guarded by the lock alone; the race detector watches
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				held, err := []*lock.Client{c, d}[i%2].Mutex(t.Name()).Lock(ctx)
				if err != nil {
					require.ErrorIs(t, err, lock.ErrNotReplicated) // a busy machine
					continue
				}
				turns++
				require.NoError(t, held.Unlock(ctx))
			}
		})
	}
	bounded.Wait(t, &wg)
	require.Positive(t, turns)
	require.Zero(t, c.Stats().Held)
}

func TestAnAcquisitionForReplicasThatIsNotAnsweredIsUnknown(t *testing.T) {
	t.Parallel()
	master, _ := fixture.WithReplica(t)
	p := fixture.Proxy(t, master, nil)
	c := fixture.ClientOver(t, p, lock.Config{Replicas: 1, IOTimeout: 50 * time.Millisecond})
	ctx := bounded.Context(t)
	p.SetReplies(faultproxy.Lose)
	_, err := c.Mutex(t.Name()).TryLock(ctx)
	require.True(t, fixture.IsNoAnswer(err), err) // a dial may be the first that is not answered
	fixture.AwaitGone(t, master, t.Name())
	p.Heal()
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fixture.Do(t, master, "SCRIPT", "FLUSH")
	_, err = c.Mutex(t.Name() + "2").Lock(held.Context(ctx))
	require.NoError(t, err, "a server that forgot the scripts is told them")
	require.NoError(t, held.Unlock(ctx))
}

func TestAWaitThatRedisRefusesGivesTheLockBack(t *testing.T) {
	fixture.NeedAbilities(t, redistest.Users)
	s := fixture.Servers(t, 1)[0]
	fixture.Do(t, s, "ACL", "SETUSER", "default", "-wait")
	c := fixture.ClientOf(t, s, lock.Config{Replicas: 1})
	_, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, lock.ErrUnknown)
	fixture.AwaitGone(t, s, t.Name())
}

func TestCloseEndsAWaitForReplicas(t *testing.T) {
	s := fixture.Servers(t, 1)[0]
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Hour, Replicas: 1, ReplicaTimeout: 5 * time.Minute})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
		failed <- err
	}()
	require.Eventually(t, func() bool { return fixture.Exists(t, s, t.Name()) }, time.Minute, time.Millisecond)
	fixture.CloseNow(c)
	require.ErrorIs(t, bounded.Receive(t, failed), lock.ErrClosed)
}
