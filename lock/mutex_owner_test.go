package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
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
		"TryLockWithin": func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.Mutex(name).TryLockWithin(ctx, lease)
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
					require.Equal(t, 0, countCallers(c), "nothing is left of them")
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
	require.Zero(t, countCallers(c))
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
	require.Eventually(t, func() bool { return countCallers(c) == 1 }, time.Minute, time.Millisecond)
	short, cancel := context.WithTimeout(owner, 50*time.Millisecond)
	defer cancel()
	_, err := c.Mutex("m").TryLock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrUnknown, "it asked nothing")
	require.Empty(t, first, "the first still waits for its answer")
	err = bounded.Receive(t, first)
	require.True(t, fixture.IsNoAnswer(err), err)
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

// countCallers returns how many owners with a call, and how many queues, the table of c has.
func countCallers(c *lock.Client) int {
	n := lock.Table(c).Counts()
	return n.Owners + n.Queues
}

// TestAWaiterReentersWhenItsOwnerGetsTheLockWhereverItStands: two callers share
// an owner, and one of another owner stands between them in the line.
func TestAWaiterReentersWhenItsOwnerGetsTheLockWhereverItStands(t *testing.T) {
	s := onRedis(t)
	for _, tc := range []struct {
		name          string
		first, second locking
	}{
		{"Mutex", lockMutex, lockMutex},
		{"FencedMutex", lockFenced, lockFenced},
		{"FairMutex", lockFair, lockFair},
		{"writer and writer", lockWriting, lockWriting},
		{"writer and reader", lockWriting, lockReading},
		{"reader and reader", lockReading, lockReading},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, name := bounded.Context(t), t.Name()
			elsewhere := fixture.ClientOf(t, s, lock.Config{})
			other := lockWriting
			if tc.name == "Mutex" || tc.name == "FencedMutex" || tc.name == "FairMutex" {
				other = tc.second
			}
			before, err := other(ctx, elsewhere, name)
			require.NoError(t, err)
			c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
			owner := lock.WithOwner(ctx, "the same")
			n := 0
			inLine := func(take func() (*lock.Held, error)) chan result {
				done := startWaiting(t, c, take)
				n++
				require.Eventually(t, func() bool { // a FairMutex has its line in Redis
					queue := fixture.Do(t, s, "LLEN", "redisson_lock_queue:{"+name+"}")
					return tc.name != "FairMutex" || queue == int64(n)
				}, time.Minute, time.Millisecond)
				return done
			}
			a := inLine(func() (*lock.Held, error) { return tc.first(owner, c, name) })
			w := inLine(func() (*lock.Held, error) { return other(ctx, c, name) })
			b := inLine(func() (*lock.Held, error) { return tc.second(owner, c, name) })
			require.NoError(t, before.Unlock(ctx))
			first := receiveHeld(t, a, "the first of the line")
			second := receiveHeld(t, b, "the re-entry")
			require.Empty(t, w, "another holds it")
			require.NoError(t, first.Unlock(ctx))
			require.NoError(t, second.Unlock(ctx))
			last := receiveHeld(t, w, "the one between")
			require.NoError(t, last.Unlock(ctx))
			fixture.AwaitGone(t, s, name)
		})
	}
}

// TestAReentryWhoseAnswerIsLostDoesNotQueueBehindThoseWhoWaitForIt. Otherwise each
// would wait for the other for ever.
func TestAReentryWhoseAnswerIsLostDoesNotQueueBehindThoseWhoWaitForIt(t *testing.T) {
	s := onRedis(t)
	for _, tc := range []struct {
		name         string
		outer, inner locking
		script       string // of the re-entry
	}{
		{"Mutex", lockMutex, lockMutex, "reenter"},
		{"FencedMutex", lockFenced, lockFenced, "reenter"},
		{"FairMutex", lockFair, lockFair, "reenter"},
		{"writes again", lockWriting, lockWriting, "reenter"},
		{"reads again", lockReading, lockReading, "rw_read_reenter"},
		{"reads too", lockWriting, lockReading, "rw_read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, name := bounded.Context(t), t.Name()
			var toDrop atomic.Value
			toDrop.Store("")
			lost := make(chan struct{})
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if c.Script != "" && toDrop.CompareAndSwap(c.Script, "") {
					close(lost)
					return faultproxy.LoseReply
				}
				return faultproxy.Pass
			})
			c := fixture.ClientOver(t, p, lock.Config{MaxPoll: time.Hour, IOTimeout: 200 * time.Millisecond})
			outer, err := tc.outer(ctx, c, name)
			require.NoError(t, err)
			other := tc.outer
			if tc.name == "reads again" {
				other = lockWriting
			}
			w := startWaiting(t, c, func() (*lock.Held, error) { return other(ctx, c, name) })
			toDrop.Store(tc.script)
			done := make(chan result, 1)
			go func() {
				inner, err := tc.inner(outer.Context(ctx), c, name)
				done <- result{inner, err}
			}()
			inner := receiveHeld(t, done, "the re-entry")
			select {
			case <-lost:
			default:
				t.Fatal("no answer was lost")
			}
			require.NoError(t, inner.Unlock(ctx))
			require.NoError(t, outer.Unlock(ctx))
			last := receiveHeld(t, w, "the one that waited")
			require.NoError(t, last.Unlock(ctx))
		})
	}
}

// TestAReaderThatWantsToWriteIsRefusedWhereverItStands: it could only wait for
// the reading of its own owner.
func TestAReaderThatWantsToWriteIsRefusedWhereverItStands(t *testing.T) {
	s := onRedis(t)
	ctx, name := bounded.Context(t), t.Name()
	elsewhere := fixture.ClientOf(t, s, lock.Config{})
	before, err := elsewhere.RWMutex(name).Writer().Lock(ctx)
	require.NoError(t, err)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	owner := lock.WithOwner(ctx, "the same")
	a := startWaiting(t, c, func() (*lock.Held, error) { return c.RWMutex(name).Reader().Lock(owner) })
	w := startWaiting(t, c, func() (*lock.Held, error) { return c.RWMutex(name).Writer().Lock(ctx) })
	b := startWaiting(t, c, func() (*lock.Held, error) { return c.RWMutex(name).Writer().Lock(owner) })
	require.NoError(t, before.Unlock(ctx))
	reading := receiveHeld(t, a, "the reader")
	select {
	case r := <-b:
		require.ErrorIs(t, r.err, lock.ErrUpgrade)
	case <-time.After(time.Minute):
		t.Fatal("it waits for itself")
	}
	require.NoError(t, reading.Unlock(ctx))
	writing := receiveHeld(t, w, "the writer")
	require.NoError(t, writing.Unlock(ctx))
}

// TestWhoWaitsForARedLockEntersWithItsOwner: the owner gets it through another
// call, or members alone, while one of another owner stands before this call.
func TestWhoWaitsForARedLockEntersWithItsOwner(t *testing.T) {
	servers := fiveMasters(t)[:3]
	ctx := bounded.Context(t)
	process := func(name string) (*lock.RedLock, []*lock.Mutex) {
		var members []*lock.Mutex
		for _, s := range servers {
			c := fixture.ClientOf(t, s, lock.Config{Lease: redLease})
			members = append(members, c.Mutex(name))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		return r, members
	}
	type result struct {
		held *lock.MultiHeld
		err  error
	}
	startWaiting := func(t *testing.T, r *lock.RedLock, ctx context.Context) chan result {
		before := r.Line().Len()
		done := make(chan result, 1)
		go func() {
			held, err := r.Lock(ctx)
			done <- result{held, err}
		}()
		require.Eventually(t, func() bool { return r.Line().Len() == before+1 }, time.Minute, time.Millisecond)
		return done
	}
	receiveHeld := func(t *testing.T, done chan result, what string) *lock.MultiHeld {
		select {
		case r := <-done:
			require.NoError(t, r.err, what)
			return r.held
		case <-time.After(time.Minute):
			require.Fail(t, what+" did not come")
		}
		return nil
	}
	t.Run("through another call", func(t *testing.T) {
		elsewhere, _ := process(t.Name())
		before, err := elsewhere.Lock(ctx)
		require.NoError(t, err)
		r, _ := process(t.Name())
		owner := lock.WithOwner(ctx, "the same")
		a := startWaiting(t, r, owner)
		w := startWaiting(t, r, ctx)
		b := startWaiting(t, r, owner)
		require.NoError(t, before.Unlock(ctx))
		first := receiveHeld(t, a, "the first of the line")
		second := receiveHeld(t, b, "the re-entry")
		require.Empty(t, w, "another holds it")
		require.NoError(t, first.Unlock(ctx))
		require.NoError(t, second.Unlock(ctx))
		require.NoError(t, receiveHeld(t, w, "the one between").Unlock(ctx))
	})
	t.Run("through its members", func(t *testing.T) {
		_, others := process(t.Name())
		r, members := process(t.Name())
		owner := lock.WithOwner(ctx, "the same")
		var before []*lock.Held
		var alone []chan *lock.Held
		for i, m := range others[:len(others)/2+1] {
			held, err := m.Lock(ctx)
			require.NoError(t, err)
			before = append(before, held)
			got := make(chan *lock.Held, 1)
			alone = append(alone, got)
			go func() {
				held, err := members[i].Lock(owner)
				if err != nil {
					t.Error(err)
				}
				got <- held
			}()
			require.Eventually(t, func() bool { return lock.ClientOf(members[i]).Stats().Waiting == 1 }, time.Minute, time.Millisecond)
		}
		w := startWaiting(t, r, ctx)
		b := startWaiting(t, r, owner)
		for _, held := range before {
			require.NoError(t, held.Unlock(ctx))
		}
		var ours []*lock.Held
		for _, got := range alone {
			ours = append(ours, bounded.Receive(t, got))
		}
		whole := receiveHeld(t, b, "the lock of who has a quorum of its members")
		require.Empty(t, w, "another holds it")
		require.NoError(t, whole.Unlock(ctx))
		for _, held := range ours {
			require.NoError(t, held.Unlock(ctx))
		}
		require.NoError(t, receiveHeld(t, w, "the other").Unlock(ctx))
	})
}

// TestTryRLockAsksAlthoughReadersWait: it need not wait for them.
func TestTryRLockAsksAlthoughReadersWait(t *testing.T) {
	s := onRedis(t)
	ctx, name := bounded.Context(t), t.Name()
	before, err := fixture.ClientOf(t, s, lock.Config{}).RWMutex(name).Writer().Lock(ctx)
	require.NoError(t, err)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	m := c.RWMutex(name)
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	reader := startWaiting(t, c, func() (*lock.Held, error) { return m.Reader().Lock(leaving) })
	tries := c.Stats().Tries
	_, err = m.Reader().TryLock(ctx)
	var other *lock.HeldError
	require.ErrorAs(t, err, &other)
	require.Positive(t, other.TTL)
	require.Greater(t, c.Stats().Tries, tries, "it asked")
	require.Eventually(t, func() bool { // the reader's last try was refused, and it sleeps
		counts := fixture.Do(t, s, "PUBSUB", "NUMSUB", "redisson_rwlock:{"+name+"}").([]any)
		return counts[1] == int64(1)
	}, time.Minute, time.Millisecond)
	fixture.Do(t, s, "DEL", name) // nobody is told
	require.Eventually(t, func() bool {
		held, err := m.Reader().TryLock(ctx)
		if err == nil {
			require.NoError(t, held.Unlock(ctx))
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Error(t, before.Unlock(ctx))
	leave()
	if r := bounded.Receive(t, reader); r.err == nil {
		require.NoError(t, r.held.Unlock(ctx))
	}
}

// TestATryBehindAWriterThatWaitsIsRefusedWithTheTTLThatTheWriterKnows.
func TestATryBehindAWriterThatWaitsIsRefusedWithTheTTLThatTheWriterKnows(t *testing.T) {
	s := onRedis(t)
	ctx, name := bounded.Context(t), t.Name()
	before, err := fixture.ClientOf(t, s, lock.Config{}).RWMutex(name).Reader().Lock(ctx)
	require.NoError(t, err)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	m := c.RWMutex(name)
	writer := startWaiting(t, c, func() (*lock.Held, error) { return m.Writer().Lock(ctx) })
	for what, try := range map[string]func(context.Context) (*lock.Held, error){"read": m.Reader().TryLock, "write": m.Writer().TryLock} {
		require.Eventually(t, func() bool { // the writer may not be where it learns it yet
			_, err := try(ctx)
			var other *lock.HeldError
			require.ErrorAs(t, err, &other, what)
			require.LessOrEqual(t, other.TTL, 30*time.Second)
			return other.TTL > 10*time.Second
		}, time.Minute, time.Millisecond, what)
	}
	require.NoError(t, before.Unlock(ctx))
	held := receiveHeld(t, writer, "the writer")
	require.NoError(t, held.Unlock(ctx))
}
