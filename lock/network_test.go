package lock_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// network is what lies between a client and a server in a test.
type network struct {
	deaf atomic.Bool  // answers are lost: requests arrive, replies do not
	dead atomic.Bool  // nothing arrives either way
	down atomic.Bool  // nobody answers a dial
	up   atomic.Int64 // connections made
}

// wire is one connection across a network.
type wire struct {
	net.Conn
	n *network
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if err != nil || !w.n.deaf.Load() && !w.n.dead.Load() {
			return n, err
		}
	}
}

func (w *wire) Write(p []byte) (int, error) {
	if w.n.dead.Load() {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

// pool returns a pool that dials s across the network.
func (n *network) pool(s *redistest.Server) *redis.Pool {
	var d net.Dialer
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		if n.down.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		n.up.Add(1)
		return redis.DialContext(ctx, s.Network(), s.Addr(),
			redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := d.DialContext(ctx, network, addr)
				return &wire{c, n}, err
			}))
	}}
}

// newClientOver returns a client of s across a network.
func newClientOver(t *testing.T, n *network, s *redistest.Server, cfg lock.Config) *lock.Client {
	t.Helper()
	c, err := lock.New(n.pool(s), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(c) })
	return c
}

func exists(t *testing.T, s *redistest.Server, key string) bool {
	n, err := redis.Int(redisDo(t, s, "EXISTS", key), nil)
	require.NoError(t, err)
	return n == 1
}

func TestALostAnswerIsUnknownAndTheLockGoesBack(t *testing.T) {
	s := onRedis(t)
	var n network
	c := newClientOver(t, &n, s, lock.Config{IOTimeout: 50 * time.Millisecond})
	n.deaf.Store(true)
	_, err := c.Mutex(t.Name()).TryLock(context.Background())
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	// The request arrived. Nobody answers for the field, so the client gives
	// it back, though it hears nothing of that either.
	require.Eventually(t, func() bool { return !exists(t, s, t.Name()) }, time.Minute, 5*time.Millisecond)
	n.deaf.Store(false)
	held, err := c.Mutex(t.Name()).Lock(context.Background())
	require.NoError(t, err)
	require.NoError(t, held.Unlock(context.Background()))
}

func TestLockRetriesUnknownOutcomesUntilItHasTheLock(t *testing.T) {
	s := onRedis(t)
	var n network
	c := newClientOver(t, &n, s, lock.Config{IOTimeout: 50 * time.Millisecond})
	n.deaf.Store(true)
	go func() {
		for n.up.Load() < 3 { // two connections were given up
			time.Sleep(time.Millisecond)
		}
		n.deaf.Store(false)
	}()
	held, err := c.Mutex(t.Name()).Lock(context.Background())
	require.NoError(t, err)
	fields, err := redis.StringMap(redisDo(t, s, "HGETALL", t.Name()), nil)
	require.NoError(t, err)
	require.Len(t, fields, 1, "the fields of the attempts that went unanswered are gone")
	require.NoError(t, held.Unlock(context.Background()))
}

func TestFailFastReturnsTheFirstUnknown(t *testing.T) {
	s := onRedis(t)
	var n network
	c := newClientOver(t, &n, s, lock.Config{IOTimeout: 50 * time.Millisecond, FailFast: true})
	n.down.Store(true)
	_, err := c.Mutex(t.Name()).Lock(context.Background())
	require.ErrorIs(t, err, lock.ErrUnknown)
}

func TestUnlockWhoseAnswerWasLostIsReleased(t *testing.T) {
	s := onRedis(t)
	var n network
	c := newClientOver(t, &n, s, lock.Config{IOTimeout: 50 * time.Millisecond})
	ctx := context.Background()
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	up := n.up.Load()
	n.deaf.Store(true)
	go func() {
		for n.up.Load() == up { // the first release went unanswered
			time.Sleep(time.Millisecond)
		}
		n.deaf.Store(false)
	}()
	require.NoError(t, held.Unlock(ctx), "the resend found the field absent: the first one had removed it")
	require.False(t, exists(t, s, t.Name()))
}

func TestUnlockThatIsNeverAnsweredIsUnknownAndMayBeCalledAgain(t *testing.T) {
	s := onRedis(t)
	var n network
	c := newClientOver(t, &n, s, lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond})
	ctx := context.Background()
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	work := held.Context(ctx)
	n.dead.Store(true)
	n.down.Store(true)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrUnknown)
	require.Error(t, work.Err(), "no work goes on after Unlock was called")
	require.False(t, held.Valid())
	require.True(t, exists(t, s, t.Name()))
	n.dead.Store(false)
	n.down.Store(false)
	// The client goes on trying by itself.
	require.Eventually(t, func() bool { return !exists(t, s, t.Name()) }, time.Minute, 5*time.Millisecond)
	require.NoError(t, held.Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
}

func TestABlackHoleIsToldBeforeRedisExpiresTheKey(t *testing.T) {
	s := onRedis(t)
	var n network
	c := newClientOver(t, &n, s, lock.Config{Lease: 4 * time.Second, Renewal: renewal.Config{Margin: time.Second}})
	held, err := c.Mutex(t.Name()).Lock(context.Background())
	require.NoError(t, err)
	n.dead.Store(true)
	n.down.Store(true)
	<-held.Done()
	require.True(t, exists(t, s, t.Name()), "told while Redis still has the key")
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, lock.TrustEnded, lost.Reason)
	require.False(t, held.Valid())
}

func TestACallerThatLeavesBreaksNoConnectionAndGivesTheLockBack(t *testing.T) {
	s := onRedis(t)
	var n network
	c := newClientOver(t, &n, s, lock.Config{Connections: 1})
	ctx := context.Background()
	warm, err := c.Mutex(t.Name() + " warm").Lock(ctx)
	require.NoError(t, err)
	redisDo(t, s, "CLIENT", "PAUSE", "300")
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = c.Mutex(t.Name()).Lock(wait)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, warm.Unlock(ctx))
	require.EqualValues(t, 1, n.up.Load(), "one connection served them all")
	require.Eventually(t, func() bool { return !exists(t, s, t.Name()) }, time.Minute, 5*time.Millisecond)
}
