package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// stall is a proxy that keeps some scripts back until it is told otherwise.
// Then all of them arrive, also those whose connection was given up.
type stall struct {
	*proxy
	mu    sync.Mutex
	kept  map[string]chan struct{} // by script
	came  map[string]int           // since keep
	all   map[string]int
	conns []net.Conn    // of clients
	dials chan struct{} // new ones wait until it is closed
}

func newStall(t *testing.T, s *redistest.Server) *stall {
	st := &stall{kept: map[string]chan struct{}{}, came: map[string]int{}, all: map[string]int{}, dials: make(chan struct{})}
	close(st.dials)
	for _, sc := range script.All() { // a call that the server does not know does nothing when it is late
		redisDo(t, s, "SCRIPT", "LOAD", sc.Text())
	}
	st.proxy = newProxy(t, s, 0, func(name string) action {
		st.mu.Lock()
		gate := st.kept[name]
		st.came[name]++
		st.all[name]++
		st.mu.Unlock()
		if gate != nil {
			<-gate
		}
		return pass
	})
	t.Cleanup(func() {
		st.letGo()
		st.close()
	})
	return st
}

// keep keeps the scripts of these names back from now on.
func (st *stall) keep(names ...string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, name := range names {
		st.kept[name] = make(chan struct{})
		st.came[name] = 0
	}
}

// letGo lets all scripts arrive.
func (st *stall) letGo() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for name, gate := range st.kept {
		close(gate)
		delete(st.kept, name)
	}
}

// arrived is how many scripts of that name have come since keep.
func (st *stall) arrived(name string) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.came[name]
}

// await waits until n scripts of that name have come since keep.
func (st *stall) await(name string, n int) {
	st.t.Helper()
	require.Eventually(st.t, func() bool { return st.arrived(name) >= n }, time.Minute, time.Millisecond, "%s has not come", name)
}

// over waits until all scripts that were kept have been answered.
func (st *stall) over() {
	require.Eventually(st.t, func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		total := 0
		for _, n := range st.all {
			total += n
		}
		return total == st.answered()
	}, time.Minute, time.Millisecond)
}

// cut ends all connections, and for a while new ones cannot be made. So a
// request takes that much longer than Config.IOTimeout allows for its answer.
func (st *stall) cut(t *testing.T, d time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	dials := make(chan struct{})
	st.dials = dials
	for _, conn := range st.conns {
		_ = conn.Close()
	}
	st.conns = nil
	time.AfterFunc(d, func() { close(dials) })
}

// client returns a client beyond the proxy that the test closes.
func (st *stall) client(t *testing.T, cfg lock.Config) *lock.Client {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		st.mu.Lock()
		wait := st.dials
		st.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			st.mu.Lock()
			st.conns = append(st.conns, conn)
			st.mu.Unlock()
		}
		return conn, err
	}
	c, err := lock.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", st.ln.Addr().String(), redis.DialContextFunc(dial))
	}}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		st.letGo()
		closeNow(c)
	})
	return c
}

// unlockLimit is Config.UnlockTimeout where a request of the hold takes longer.
const unlockLimit = time.Second

var shortUnlock = lock.Config{IOTimeout: unlockLimit, UnlockTimeout: unlockLimit, Connections: 1, Logger: slog.New(slog.DiscardHandler)}

// untilMet calls f until the machine was fast enough to meet the moment.
func untilMet(t *testing.T, f func() bool) {
	t.Helper()
	for range 30 {
		if f() {
			return
		}
	}
	t.Fatal("no Unlock ended while another request of its hold was on its way")
}

// sort is one sort of lock, with the script that extends its holds.
type sort struct {
	lock     func(context.Context) (*lock.Held, error)
	extends  string
	releases string
	key      string // that is there while it is held
}

// sorts are all that have Helds.
func sorts(t *testing.T, c *lock.Client) map[string]sort {
	name := t.Name()
	p := c.PermitSemaphore(name + ":permits")
	rw := c.RWMutex(name + ":rw")
	return map[string]sort{
		"mutex":  {c.Mutex(name).Lock, "reenter", "release", name},
		"fenced": {c.FencedMutex(name + ":fenced").Lock, "reenter", "release", name + ":fenced"},
		"fair":   {c.FairMutex(name + ":fair").Lock, "reenter", "fair_release", name + ":fair"},
		"write":  {rw.Lock, "reenter", "rw_write_release", rw.Name()},
		"read":   {rw.RLock, "rw_read_reenter", "rw_read_release", rw.Name()},
		"permits": {func(ctx context.Context) (*lock.Held, error) {
			if _, err := p.TrySet(ctx, 3); err != nil {
				return nil, err
			}
			return p.Acquire(ctx, 2)
		}, "permit_extend", "permit_release", "{" + p.Name() + "}:timeout"},
	}
}

// TestAnUnlockThatCannotGetTheHoldsTurnReleasesTheLock: an Extend of the same
// hold is not answered for as long as Unlock waits, and longer.
func TestAnUnlockThatCannotGetTheHoldsTurnReleasesTheLock(t *testing.T) {
	s := onRedis(t)
	for _, sort := range []string{"mutex", "fenced", "fair", "write", "read", "permits"} {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			st := newStall(t, s)
			c := st.client(t, shortUnlock)
			ctx, lk := context.Background(), sorts(t, c)[sort]
			untilMet(t, func() bool {
				held, err := lk.lock(ctx)
				require.NoError(t, err)
				require.True(t, exists(t, s, lk.key))
				st.keep(lk.extends)
				st.cut(t, unlockLimit/2)
				extended, begun := make(chan error, 1), make(chan struct{})
				go func() {
					close(begun)
					extended <- held.Extend(ctx, time.Minute)
				}()
				<-begun
				err = held.Unlock(ctx)
				met := errors.Is(err, lock.ErrUnknown) && st.arrived(lk.extends) > 0
				if met {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.False(t, held.Valid())
					require.ErrorIs(t, held.Err(), lock.ErrNotHeld)
					<-held.Done()
					require.Zero(t, c.Stats().Held, "Close does not wait for it")
					require.Eventually(t, func() bool { return !exists(t, s, lk.key) }, time.Minute, 10*time.Millisecond)
					require.ErrorIs(t, <-extended, lock.ErrNotHeld)
					// What comes after the release does no harm, and the next
					// holder has the lock to itself.
					next, err := lk.lock(ctx)
					require.NoError(t, err)
					st.letGo()
					require.NoError(t, eventually(func() error { return held.Unlock(ctx) }))
					require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
					require.True(t, next.Valid())
					held = next
				}
				st.letGo()
				if err := eventually(func() error { return held.Unlock(ctx) }); err != lock.ErrNotHeld {
					require.NoError(t, err)
				}
				require.Eventually(t, func() bool { return !exists(t, s, lk.key) }, time.Minute, 10*time.Millisecond)
				return met
			})
		})
	}
}

func TestAnInnerUnlockThatCannotGetTheHoldsTurnIsOffTheCount(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := newStall(t, s)
	c := st.client(t, lock.Config{IOTimeout: 300 * time.Millisecond, UnlockTimeout: 300 * time.Millisecond})
	ctx := context.Background()
	outer, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	inner, err := c.Mutex(t.Name()).Lock(outer.Context(ctx))
	require.NoError(t, err)

	st.keep("reenter")
	extended := make(chan error, 1)
	go func() { extended <- outer.Extend(ctx, time.Minute) }()
	st.await("reenter", 1)
	require.ErrorIs(t, inner.Unlock(ctx), lock.ErrUnknown)
	require.ErrorIs(t, inner.Err(), lock.ErrNotHeld)
	<-inner.Done()
	require.Equal(t, 1, outer.Count())
	require.True(t, outer.Valid())
	st.letGo()
	require.NoError(t, <-extended)
	require.True(t, outer.Valid())
	require.NoError(t, outer.Unlock(ctx))
	require.False(t, exists(t, s, t.Name()))
	require.NoError(t, inner.Unlock(ctx))
	require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
	require.Zero(t, c.Stats().Held)
}

// TestManyUnlocksThatCannotGetTheHoldsTurnReleaseTheLock: one of them is the
// last, and knows it.
func TestManyUnlocksThatCannotGetTheHoldsTurnReleaseTheLock(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := newStall(t, s)
	c := st.client(t, shortUnlock)
	ctx := lock.WithOwner(context.Background(), "o")
	untilMet(t, func() bool {
		var helds []*lock.Held
		for range 8 {
			held, err := c.Mutex(t.Name()).Lock(ctx)
			require.NoError(t, err)
			helds = append(helds, held)
		}
		st.keep("reenter", "release")
		st.cut(t, unlockLimit/2)
		extended, begun := make(chan error, 1), make(chan struct{})
		go func() {
			close(begun)
			extended <- helds[0].Extend(ctx, time.Minute)
		}()
		<-begun
		var wg sync.WaitGroup
		for _, held := range helds {
			wg.Go(func() {
				if err := held.Unlock(ctx); !errors.Is(err, lock.ErrUnknown) {
					t.Errorf("unlock: %v", err)
				}
			})
		}
		wg.Wait()
		met := st.arrived("reenter") > 0 && st.arrived("release") == 0
		require.Zero(t, c.Stats().Held)
		st.letGo()
		require.ErrorIs(t, <-extended, lock.ErrNotHeld)
		require.Eventually(t, func() bool { return !exists(t, s, t.Name()) }, time.Minute, 10*time.Millisecond)
		for _, held := range helds {
			require.NoError(t, eventually(func() error { return held.Unlock(ctx) }))
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
		}
		return met
	})
}

// TestAReentryThatIsAnsweredAfterTheLastUnlockBringsAHoldOfItsOwn: the Unlock
// has waited as long as it may.
func TestAReentryThatIsAnsweredAfterTheLastUnlockBringsAHoldOfItsOwn(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := newStall(t, s)
	lost := make(chan lock.Event, 1)
	cfg := shortUnlock
	cfg.Hooks.Lost = func(e lock.Event) { lost <- e }
	c := st.client(t, cfg)
	ctx := lock.WithOwner(context.Background(), "o")
	untilMet(t, func() bool {
		first, err := c.Mutex(t.Name()).Lock(ctx)
		require.NoError(t, err)
		st.keep("reenter")
		st.cut(t, unlockLimit/2)
		type result struct {
			held *lock.Held
			err  error
		}
		reentered, begun := make(chan result, 1), make(chan struct{})
		go func() {
			close(begun)
			held, err := c.Mutex(t.Name()).Lock(ctx)
			reentered <- result{held, err}
		}()
		<-begun
		err = first.Unlock(ctx)
		met := errors.Is(err, lock.ErrUnknown) && st.arrived("reenter") == 1
		st.letGo()
		second := <-reentered
		require.NoError(t, second.err)
		if met {
			require.Equal(t, 1, second.held.Count())
			require.Greater(t, second.held.Token(), first.Token())
			require.NoError(t, eventually(func() error { return first.Unlock(ctx) }))
			require.True(t, second.held.Valid())
			require.Len(t, hashOf(t, s, t.Name()), 1)
		}
		for _, held := range []*lock.Held{first, second.held} {
			if err := eventually(func() error { return held.Unlock(ctx) }); err != lock.ErrNotHeld {
				require.NoError(t, err)
			}
		}
		require.Eventually(t, func() bool { return !exists(t, s, t.Name()) }, time.Minute, 10*time.Millisecond)
		return met
	})
	closeNow(c)
	require.Empty(t, lost)
}

// TestTheLastUnlockOfALeaseLongerThanTheDefaultIsTriedUntilItsEnd: what is
// known of the hold says how long Redis may have it.
func TestTheLastUnlockOfALeaseLongerThanTheDefaultIsTriedUntilItsEnd(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := newStall(t, s)
	c := st.client(t, lock.Config{Lease: 200 * time.Millisecond, IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond})
	ctx := context.Background()
	held, err := c.Mutex(t.Name()).LockFor(ctx, time.Hour)
	require.NoError(t, err)
	st.keep("release")
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrUnknown)
	// Each is given up after IOTimeout, and the next sent after a pause of
	// 100 ms or more: these take longer than the lease.
	st.await("release", st.arrived("release")+5)
	st.letGo()
	require.Eventually(t, func() bool { return !exists(t, s, t.Name()) }, time.Minute, 10*time.Millisecond)
}

// slowContext is a context that keeps whoever asks for its Err.
type slowContext struct {
	context.Context
	slow  chan struct{} // closed when Err is to be slow
	asked chan struct{} // gets a token when it is asked for then
	free  chan struct{} // closed when it is answered again
}

func (s *slowContext) Err() error {
	select {
	case <-s.slow:
		select {
		case s.asked <- struct{}{}:
		default:
		}
		<-s.free
		return context.Canceled
	default:
		return nil
	}
}

// TestAGrantThatIsPassedOnLeavesThoseWhoReenteredTheirHold: between the grant
// and the leaving of the waiter another goroutine of its owner has re-entered.
func TestAGrantThatIsPassedOnLeavesThoseWhoReenteredTheirHold(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var mu sync.Mutex
	var events []string
	note := func(what string) func(lock.Event) {
		return func(lock.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, what)
		}
	}
	c := newClient(t, s, lock.Config{Hooks: lock.Hooks{Lost: note("lost"), Released: note("released")}})
	ctx := context.Background()
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	owned := lock.WithOwner(ctx, "o")
	slow := &slowContext{Context: owned, slow: make(chan struct{}), asked: make(chan struct{}, 1), free: make(chan struct{})}
	left := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name()).Lock(slow)
		left <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	close(slow.slow)
	require.NoError(t, held.Unlock(ctx)) // it is handed to the one that waits, and that is slow to see it
	<-slow.asked
	again, err := c.Mutex(t.Name()).TryLock(owned)
	require.NoError(t, err)
	require.Equal(t, 2, again.Count())
	close(slow.free)
	require.ErrorIs(t, <-left, context.Canceled)
	require.Eventually(t, func() bool { return again.Count() == 1 }, time.Minute, time.Millisecond)
	require.True(t, again.Valid())
	require.NoError(t, again.Err())
	fields, err := redis.Strings(redisDo(t, s, "HVALS", t.Name()), nil)
	require.NoError(t, err)
	require.Len(t, fields, 1)
	require.NoError(t, again.Unlock(ctx))
	require.False(t, exists(t, s, t.Name()))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"released"}, events, "the hooks were not told of the grant either")
}
