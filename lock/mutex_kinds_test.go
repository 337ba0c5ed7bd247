package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestEveryKindOfMutexSaysHowItIsHeld, in Redis and by the owner of a context.
func TestEveryKindOfMutexSaysHowItIsHeld(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{})
	ctx := bounded.Context(t)
	for kind, mu := range fixture.Kinds(c, t.Name()) {
		locked, err := mu.IsLocked(ctx)
		require.NoError(t, err, kind)
		require.False(t, locked, kind)
		ttl, err := mu.TTL(ctx)
		require.NoError(t, err, kind)
		require.Zero(t, ttl, kind)
		require.False(t, mu.HeldBy(ctx), kind)

		held := fixture.Hold(t, mu.Lock)
		again, err := mu.Lock(held.Context(ctx))
		require.NoError(t, err, kind)
		require.True(t, mu.HeldBy(held.Context(ctx)), kind)
		locked, err = mu.IsLocked(ctx)
		require.NoError(t, err, kind)
		require.True(t, locked, kind)
		ttl, err = mu.TTL(ctx)
		require.NoError(t, err, kind)
		require.Greater(t, ttl, lock.DefaultLease/2, kind)
		require.LessOrEqual(t, ttl, lock.DefaultLease, kind)
		info, err := mu.Inspect(ctx)
		require.NoError(t, err, kind)
		require.Equal(t, kind == "writer", info.Writing, kind)
		require.Len(t, info.Holders, 1, kind)
		require.Equal(t, 2, info.Holders[0].Count, kind)
		require.Equal(t, kind == "writer", info.Holders[0].Writing, kind)
		require.Regexp(t, "^"+c.ID()+":[0-9]+:[0-9]+$", info.Holders[0].Field, kind)

		ok, err := mu.ForceUnlock(ctx)
		require.NoError(t, err, kind)
		require.True(t, ok, kind)
		require.ErrorIs(t, again.Unlock(ctx), lock.ErrLost, kind)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost, kind)
	}
}

// TestTheHalvesOfARWMutexSayWhatTheyAre: IsLocked and HeldBy are of their mode.
func TestTheHalvesOfARWMutexSayWhatTheyAre(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{})
	ctx := bounded.Context(t)
	rw := c.RWMutex(t.Name())
	locked := func(mu *lock.Mutex) bool {
		ok, err := mu.IsLocked(ctx)
		require.NoError(t, err)
		return ok
	}
	writing := fixture.Hold(t, rw.Writer().Lock)
	require.True(t, locked(rw.Writer()))
	require.False(t, locked(rw.Reader()))
	require.True(t, rw.Writer().HeldBy(writing.Context(ctx)))
	require.False(t, rw.Reader().HeldBy(writing.Context(ctx)))
	reading, err := rw.Reader().Lock(writing.Context(ctx)) // who writes may read
	require.NoError(t, err)
	require.True(t, locked(rw.Reader()))
	require.NoError(t, writing.Unlock(ctx))
	require.False(t, locked(rw.Writer()))
	require.True(t, locked(rw.Reader()))
	require.True(t, rw.Reader().HeldBy(reading.Context(ctx)))
	_, err = rw.Writer().Lock(reading.Context(ctx))
	require.ErrorIs(t, err, lock.ErrUpgrade)
	require.NoError(t, reading.Unlock(ctx))
	require.False(t, locked(rw.Reader()))
}

// TestAMultiLockOfEveryKind is taken, held and given back as a whole.
func TestAMultiLockOfEveryKind(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{Lease: time.Second}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	members := func(c *lock.Client) []*lock.Mutex {
		rw := c.RWMutex(t.Name() + "rw")
		return []*lock.Mutex{
			rw.Reader(), rw.Writer(), // of one lock: who writes may read, in whatever order they are given
			c.FairMutex(t.Name() + "fair"), c.FencedMutex(t.Name() + "fenced"), c.Mutex(t.Name() + "mutex"), c.RWMutex(t.Name() + "read").Reader(),
		}
	}
	held, err := fixture.MultiLock(t, members(a)...).Lock(ctx)
	require.NoError(t, err)
	fixture.AwaitRenewed(t, a, 6)
	for i, m := range members(b) {
		shared := i == 5 // readers share
		h, err := m.TryLock(ctx)
		if shared {
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			continue
		}
		require.ErrorIs(t, err, lock.ErrNotAcquired, "member %d", i)
	}
	got := make(chan *lock.MultiHeld, 1)
	go func() {
		h, err := fixture.MultiLock(t, members(b)...).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx))
	err = held.Unlock(ctx)
	require.ErrorIs(t, err, lock.ErrNotHeld)
	require.ErrorContains(t, err, t.Name(), "it names a lock")
	require.NoError(t, bounded.Receive(t, got).Unlock(ctx))
	for _, m := range members(b) {
		locked, err := m.IsLocked(ctx)
		require.NoError(t, err)
		require.False(t, locked)
	}
}

// TestARedLockOfReadersAndOfWriters: readers share a quorum, a writer waits for them,
// and is woken by the release.
func TestARedLockOfReadersAndOfWriters(t *testing.T) {
	servers := fiveMasters(t)[:3]
	ctx := bounded.Context(t)
	redLock := func(half func(*lock.RWMutex) *lock.Mutex) *lock.RedLock {
		var members []*lock.Mutex
		for _, s := range servers {
			c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}) // only a message wakes who waits
			members = append(members, half(c.RWMutex(t.Name())))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		return r
	}
	readers, others, writer := redLock((*lock.RWMutex).Reader), redLock((*lock.RWMutex).Reader), redLock((*lock.RWMutex).Writer)
	first, err := readers.Lock(ctx)
	require.NoError(t, err)
	second, err := others.TryLock(ctx)
	require.NoError(t, err, "readers share")
	_, err = writer.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	got := make(chan *lock.MultiHeld, 1)
	go func() {
		h, err := writer.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	require.NoError(t, first.Unlock(ctx))
	require.NoError(t, second.Unlock(ctx))
	written := bounded.Receive(t, got)
	_, err = readers.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, written.Unlock(ctx))
}

// TestARedLockOfAFairMutexIsRefused in words.
func TestARedLockOfAFairMutexIsRefused(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{})
	_, err := lock.NewRedLock(lock.RedLockConfig{}, c.FairMutex("x"))
	require.ErrorContains(t, err, "member 0 of the RedLock is a FairMutex")
	_, err = lock.NewRedLock(lock.RedLockConfig{}, c.Mutex("x"))
	require.NoError(t, err)
}
