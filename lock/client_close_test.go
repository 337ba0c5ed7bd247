package lock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestCloseTellsHoldersAndWaitsForTheirUnlocks(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 500 * time.Millisecond, MaxPoll: 5 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	work := held.Context(ctx)
	waiter := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name()).Lock(ctx)
		waiter <- err
	}()
	closed := make(chan error, 1)
	go func() { closed <- c.Close(ctx) }()

	bounded.Receive(t, work.Done())
	require.ErrorIs(t, context.Cause(work), lock.ErrClosed)
	require.ErrorIs(t, context.Cause(work), lock.ErrLost)
	bounded.Receive(t, held.Done())
	require.ErrorIs(t, held.Err(), lock.ErrClosed)
	require.ErrorIs(t, bounded.Receive(t, waiter), lock.ErrClosed)
	_, err := c.Mutex("another").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrClosed)
	renewed := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool {
		require.True(t, held.Valid(), "it is renewed while Close waits")
		return c.Stats().Renewal.Renewed >= renewed+3
	})
	select {
	case err := <-closed:
		t.Fatal("Close did not wait:", err)
	default:
	}
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, bounded.Receive(t, closed))
	require.False(t, fixture.Exists(t, s, t.Name()))
	require.NoError(t, c.Close(ctx), "twice")
}

func TestCloseLeavesHeldLocksToTheirTTL(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	cancel()
	err = c.Close(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "lock: closed with 1 locks held, which are left to their TTL: context canceled: "+
		"unlock when Held.Done is closed, give Close more time, or set Config.ReleaseOnClose")
	require.True(t, fixture.Exists(t, s, t.Name()))
	require.False(t, held.Valid())
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrClosed)
}

func TestReleaseOnCloseDeletesWhatIsHeld(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{ReleaseOnClose: true})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	for _, name := range []string{"a", "b", "c"} {
		_, err := c.Mutex(t.Name() + name).Lock(ctx)
		require.NoError(t, err)
	}
	cancel()
	err := c.Close(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "lock: closed with 3 locks held: 3 were released, 0 are left to their TTL: context canceled: "+
		"unlock when Held.Done is closed, or give Close more time")
	for _, name := range []string{"a", "b", "c"} {
		require.False(t, fixture.Exists(t, s, t.Name()+name))
	}
}

func TestReleaseOnCloseSaysWhatItCouldNotRelease(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "release" && slices.Contains(c.Args, t.Name()+"b") {
			return faultproxy.Answer(redis.Error("NOPERM not that one"))
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{ReleaseOnClose: true})
	for _, name := range []string{"a", "b", "c"} {
		fixture.Hold(t, c.Mutex(t.Name()+name).Lock)
	}
	ctx, cancel := context.WithCancel(bounded.Context(t))
	cancel()
	require.ErrorContains(t, c.Close(ctx), "3 locks held: 2 were released, 1 are left to their TTL")
	require.True(t, fixture.Exists(t, s, t.Name()+"b"))
}

// TestTwoClosesReleaseTogether: the one that finds nothing left to release does not end
// the client under the other.
func TestTwoClosesReleaseTogether(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	p.Keep("release")
	c := fixture.ClientOver(t, p, lock.Config{ReleaseOnClose: true, Lease: time.Minute, UnlockTimeout: time.Minute})
	fixture.Hold(t, c.Mutex(t.Name()).Lock)
	ctx, cancel := context.WithCancel(bounded.Context(t))
	cancel()
	closed := make(chan error, 2)
	go func() { closed <- c.Close(ctx) }()
	bounded.Until(t, func() bool { return p.Arrived("release") == 1 })
	go func() { closed <- c.Close(ctx) }()
	select {
	case err := <-closed:
		t.Error("it did not wait:", err)
		closed <- err
	case <-time.After(100 * time.Millisecond):
	}
	p.LetGo()
	for range 2 {
		require.ErrorContains(t, bounded.Receive(t, closed), "1 locks held: 1 were released, 0 are left")
	}
	require.False(t, fixture.Exists(t, s, t.Name()))
}

// TestCloseWithoutLocksSaysWhatItWaitedFor: a call whose request is not answered.
func TestCloseWithoutLocksSaysWhatItWaitedFor(t *testing.T) {
	s := onRedis(t)
	asked := make(chan struct{}, 1)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "acquire" {
			asked <- struct{}{}
			return faultproxy.LoseRequest
		}
		if c.Script == "release" {
			return faultproxy.LoseRequest
		}
		return faultproxy.Pass
	})
	for _, release := range []bool{false, true} {
		cfg := lock.Config{Lease: time.Hour, IOTimeout: 5 * time.Minute, UnlockTimeout: 5 * time.Minute, ReleaseOnClose: release}
		if release { // Close waits for that time
			cfg.IOTimeout, cfg.UnlockTimeout = 300*time.Millisecond, 300*time.Millisecond
		}
		c := fixture.ClientOver(t, p, cfg)
		tried := make(chan error, 1)
		go func() {
			_, err := c.Mutex(t.Name()).TryLock(context.Background())
			tried <- err
		}()
		bounded.Receive(t, asked)
		ctx, cancel := context.WithCancel(bounded.Context(t))
		cancel()
		left := ""
		if release {
			left = ", and 1 requests were not answered, whose locks are left to their TTL"
		}
		require.EqualError(t, c.Close(ctx), "lock: closed with no lock held, but while calls were under way"+left+": context canceled: give Close more time")
		require.ErrorIs(t, bounded.Receive(t, tried), lock.ErrUnknown)
	}
}

func TestCloseAtOnceFromManyGoroutines(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				held, err := c.Mutex(t.Name()).Lock(ctx)
				if err != nil {
					require.ErrorIs(t, err, lock.ErrClosed)
					return
				}
				if err := held.Unlock(ctx); err != nil {
					require.ErrorIs(t, err, lock.ErrClosed)
					return
				}
			}
		})
	}
	for range 4 {
		wg.Go(func() { require.NoError(t, c.Close(ctx)) })
	}
	bounded.Wait(t, &wg)
}

func TestMutualExclusionUnderContention(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	counter, turns := 0, 0 // guarded by the lock alone; the race detector watches
	var wg sync.WaitGroup
	for range 4 {
		c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Millisecond})
		for range 4 {
			wg.Go(func() {
				for range 10 {
					held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
					counter++
					require.Equal(t, 1, counter)
					turns++
					counter--
					require.NoError(t, held.Unlock(ctx))
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	require.Equal(t, 160, turns)
}

func TestReleaseOnCloseReleasesWhatWasTakenFirst(t *testing.T) {
	s := onRedis(t)
	const n = 200
	var mu sync.Mutex
	var released []string
	hooks := lock.Hooks{Lost: func(e lock.Event) {
		mu.Lock()
		defer mu.Unlock()
		released = append(released, e.Name)
	}}
	c := fixture.ClientOf(t, s, lock.Config{ReleaseOnClose: true, Connections: 1, Hooks: hooks})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	var taken []string
	for i := range n {
		name := fmt.Sprintf("%s%d", t.Name(), (i*37)%n)
		_, err := c.Mutex(name).TryLock(ctx)
		require.NoError(t, err)
		taken = append(taken, name)
	}
	cancel()
	require.ErrorContains(t, c.Close(ctx), "200 were released")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, taken, released)
}

// TestWhatCloseCutsOffMayStillBeDone: its error says so, and that the client is closed.
func TestWhatCloseCutsOffMayStillBeDone(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var silent atomic.Bool
	var mu sync.Mutex
	arrived := map[string]int{}
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if !silent.Load() || c.Script == "" {
			return faultproxy.Pass
		}
		mu.Lock()
		defer mu.Unlock()
		arrived[c.Script]++
		return faultproxy.LoseRequest
	})
	long := 5 * time.Minute
	c := fixture.ClientOver(t, p, lock.Config{Lease: time.Hour, IOTimeout: long, UnlockTimeout: long, Connections: 1})
	ctx := bounded.Context(t)
	name := t.Name()
	_, err := c.Semaphore(name+"s").TrySet(ctx, 5)
	require.NoError(t, err)
	_, err = c.CountDownLatch(name+"l").TrySet(ctx, 5)
	require.NoError(t, err)
	unlocked, many, guards := fixture.Hold(t, c.Mutex(name+"u").Lock), fixture.Hold(t, c.Mutex(name+"m").Lock), fixture.Hold(t, c.Mutex(name+"g").Lock)
	re, err := c.Mutex(name + "r").Lock(ctx)
	require.NoError(t, err)
	calls := map[string]func() error{
		"Unlock":     func() error { return unlocked.Unlock(ctx) },
		"UnlockMany": func() error { return lock.UnlockMany(ctx, []*lock.Held{many})[0] },
		"Guard":      func() error { _, err := guards.Guard(ctx, "GET", []string{name}); return err },
		"TryLock":    func() error { _, err := c.Mutex(name + "t").TryLock(ctx); return err },
		"Lock":       func() error { _, err := c.Mutex(name + "t2").Lock(ctx); return err },
		"re-entry":   func() error { _, err := c.Mutex(name + "r").Lock(re.Context(context.Background())); return err },
		"Force":      func() error { _, err := c.Mutex(name + "f").ForceUnlock(ctx); return err },
		"TryAcquire": func() error { return c.Semaphore(name+"s").TryAcquire(ctx, 1) },
		"Acquire":    func() error { return c.Semaphore(name+"s").Acquire(ctx, 1) },
		"Release":    func() error { return c.Semaphore(name+"s").Release(ctx, 1) },
		"CountDown":  func() error { return c.CountDownLatch(name + "l").CountDown(ctx) },
		"Permits":    func() error { _, err := c.PermitSemaphore(name+"p").TryAcquire(ctx, 1); return err },
	}
	silent.Store(true)
	type outcome struct {
		call string
		err  error
	}
	ended := make(chan outcome, len(calls))
	for call, f := range calls {
		go func() { ended <- outcome{call, f()} }()
	}
	bounded.Until(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, of := range arrived {
			n += of
		}
		return n >= len(calls)-1 // Acquire waits for TryAcquire of the same client
	})
	over, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, c.Close(over), context.Canceled)
	for range calls {
		o := bounded.Receive(t, ended)
		require.ErrorIs(t, o.err, lock.ErrClosed, o.call)
		if o.call != "Acquire" {
			require.ErrorIs(t, o.err, lock.ErrUnknown, o.call)
		}
	}
	_, err = c.Mutex(name).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrClosed)
	require.NotErrorIs(t, err, lock.ErrUnknown, "nothing was sent")
}
