package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
	"github.com/wheellock/wheellock/lock/topology"
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
	p.HoldBack("release")
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
	p.LetThrough()
	for range 2 {
		require.ErrorContains(t, bounded.Receive(t, closed), "1 locks held: 1 were released, 0 are left")
	}
	require.False(t, fixture.Exists(t, s, t.Name()))
}

// TestACloseThatWaitsSaysThatAnotherHasGivenUp. To the first one it looks as if all holders had unlocked.
func TestACloseThatWaitsSaysThatAnotherHasGivenUp(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]struct {
		release, silent bool
		want            string
	}{
		"left to their TTL":      {want: "lock: closed with 2 locks held, which are left to their TTL: context canceled: unlock when"},
		"released":               {release: true, want: "lock: closed with 2 locks held: 2 were released, 0 are left to their TTL: context canceled: unlock when"},
		"by a silent server":     {release: true, silent: true, want: "lock: closed with 2 locks held: 0 were released, 2 are left to their TTL: context canceled: unlock when"},
		"and a server is silent": {silent: true, want: "lock: closed with 2 locks held, which are left to their TTL: context canceled: unlock when"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				c := srv.Client(lock.Config{Lease: time.Hour, ReleaseOnClose: w.release})
				for _, name := range fixture.Names("n:", 2) {
					_, err := c.Mutex(name).Lock(t.Context())
					require.NoError(t, err)
				}
				if w.silent {
					srv.Pause()
					defer srv.Resume()
				}
				waits := make(chan error, 1)
				go func() { waits <- c.Close(context.Background()) }()
				ctx, cancel := context.WithCancel(t.Context())
				both := make(chan error, 2)
				for range 2 {
					go func() { both <- c.Close(ctx) }()
				}
				synctest.Wait()
				require.Empty(t, waits)
				require.Empty(t, both)
				cancel()
				for range 2 {
					err := <-both
					require.ErrorContains(t, err, w.want)
					require.ErrorIs(t, err, context.Canceled)
				}
				require.ErrorContains(t, <-waits, w.want)
				require.NoError(t, c.Close(context.Background()), "it has been said")
			})
		})
	}
}

// TestACloseThatWaitsLongSaysForWhat, once.
func TestACloseThatWaitsLongSaysForWhat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log fixture.Log
		c := locktest.NewServer(t).Client(lock.Config{Logger: log.Logger()})
		held, err := c.Mutex("forgotten").Lock(t.Context())
		require.NoError(t, err)
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }()
		time.Sleep(9 * time.Second)
		require.NotContains(t, log.String(), "Close still waits")
		time.Sleep(time.Minute)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, <-closed)
		require.Equal(t, 1, strings.Count(log.String(), "Close still waits"))
		require.Contains(t, log.String(), "held=1 name=forgotten waited=10s")
	})
}

// TestACloseThatBeginsAfterAnotherGaveUpSaysWhatItWaitsFor: the locks are lost, and one Unlock from before is
// still inside of a hook.
func TestACloseThatBeginsAfterAnotherGaveUpSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv, hook := locktest.NewServer(t), make(chan struct{})
			c := srv.Client(lock.Config{ReleaseOnClose: release, Hooks: lock.Hooks{Released: func(e lock.Event) {
				if e.Name == "slow" {
					<-hook
				}
			}}})
			_, err := c.Mutex("m").Lock(t.Context())
			require.NoError(t, err)
			slow, err := c.Mutex("slow").Lock(t.Context())
			require.NoError(t, err)
			unlocked := make(chan error, 1)
			go func() { unlocked <- slow.Unlock(context.Background()) }()
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorContains(t, c.Close(ctx), "closed with 1 locks held")
			require.ErrorContains(t, c.Close(ctx), "closed with no lock held, but while calls were under way: context canceled")
			close(hook)
			require.NoError(t, <-unlocked)
			require.NoError(t, c.Close(context.Background()))
		})
	}
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

// A try was left, and its answer is late: with ReleaseOnClose, Close gives back what it took, although its
// context has ended and nothing is held.
func TestReleaseOnCloseGivesBackWhatALeftTryTakes(t *testing.T) {
	type row struct{ release, answers, lives bool }
	for _, row := range []row{{}, {answers: true}, {release: true}, {release: true, answers: true}, {release: true, lives: true}} {
		release, answers := row.release, row.answers
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				c, err := lock.New(srv.Link().Pool(), lock.Config{Lease: time.Hour, IOTimeout: time.Minute, UnlockTimeout: time.Minute, ReleaseOnClose: release, Connections: 1})
				require.NoError(t, err)
				held, err := c.Mutex("a").Lock(t.Context()) // so that there is a connection
				require.NoError(t, err)
				require.NoError(t, held.Unlock(t.Context()))
				srv.Pause()
				tried, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = c.Mutex("a").TryLock(tried)
				require.ErrorIs(t, err, lock.ErrUnknown)
				if answers {
					time.AfterFunc(10*time.Second, srv.Resume)
				}
				if row.lives {
					require.EqualError(t, c.Close(t.Context()), "lock: closed with no lock held, and 1 requests were not answered in time, whose locks are left to their TTL: find out why Redis does not answer")
					require.NoError(t, c.Close(t.Context()), "it has been said")
					srv.Resume()
					return
				}
				err = c.Close(tried)
				if release && !answers {
					require.EqualError(t, err, "lock: closed with no lock held, and 1 requests were not answered, whose locks are left to their TTL: context deadline exceeded: give Close more time")
					require.ErrorIs(t, err, context.DeadlineExceeded)
				} else {
					require.NoError(t, err)
				}
				if release && answers {
					require.Empty(t, srv.Locks())
					require.Equal(t, 2, srv.Calls()["acquire"])
				}
				time.Sleep(time.Minute)
				srv.Resume()
			})
		})
	}
}

// slowSource is a source of random numbers that takes a second for each after the first thousand. So a
// call that draws a pause without waiting for it ends all the same.
type slowSource struct{ draws atomic.Int64 }

func (s *slowSource) Uint64() uint64 {
	if s.draws.Add(1) > 1000 {
		time.Sleep(time.Second)
	}
	return rand.Uint64()
}

// A re-entry that tries again and again because there is no connection is ended by Close.
func TestCloseEndsAReentryThatHasNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := locktest.NewServer(t).Link()
		var source slowSource
		c := link.Client(lock.Config{Rand: &source})
		owner := lock.WithOwner(context.Background(), "me") // Close does not end this one
		_, err := c.Mutex("a").LockFor(owner, time.Hour)
		require.NoError(t, err)
		link.Cut()
		reentered := make(chan error, 1)
		go func() {
			_, err := c.Mutex("a").Lock(owner)
			reentered <- err
		}()
		time.Sleep(time.Minute)
		before := source.draws.Load()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(ctx) }()
		require.ErrorIs(t, <-reentered, lock.ErrClosed)
		require.Less(t, time.Since(began), 10*time.Second)
		require.Less(t, source.draws.Load()-before, int64(100))
		require.ErrorIs(t, <-closed, context.DeadlineExceeded)
		require.Less(t, source.draws.Load()-before, int64(1000))
		link.Mend()
	})
}

func TestCloseFromManyGoroutinesAtOnceEndsAllCalls(t *testing.T) {
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
	// A server that does not know the script yet has its first releases sent again, behind others.
	require.NoError(t, fixture.Hold(t, c.Mutex(t.Name()).Lock).Unlock(ctx))
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

// closeNow closes c, whose locks are to be released, and returns what Close said of them.
func closeNow(t *testing.T, c *lock.Client) (held, released, left int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := c.Close(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = fmt.Sscanf(err.Error(), "lock: closed with %d locks held: %d were released, %d are left", &held, &released, &left)
	require.NoError(t, err)
	require.Equal(t, held, released+left)
	return held, released, left
}

// TestReleaseOnCloseReleasesEveryKindAndWakesWhoWaits: nothing but the message of the release
// wakes them.
func TestReleaseOnCloseReleasesEveryKindAndWakesWhoWaits(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	cfg := lock.Config{ReleaseOnClose: true, Lease: time.Hour, MaxPoll: time.Hour}
	c, d := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
	ctx := bounded.Context(t)
	type taker = func(context.Context) (*lock.Held, error)
	half := func(c *lock.Client, of string) *lock.RWMutex { return c.RWMutex(t.Name() + of) }
	require.NoError(t, c.PermitSemaphore(t.Name()+"permit").Set(ctx, 1))
	var waiting sync.WaitGroup
	for _, kind := range []struct{ take, wait taker }{
		{c.Mutex(t.Name()).Lock, d.Mutex(t.Name()).Lock},
		{c.FencedMutex(t.Name() + "fenced").Lock, d.FencedMutex(t.Name() + "fenced").Lock},
		{c.FairMutex(t.Name() + "fair").Lock, d.FairMutex(t.Name() + "fair").Lock},
		{half(c, "read").Reader().Lock, half(d, "read").Writer().Lock},
		{half(c, "write").Writer().Lock, half(d, "write").Reader().Lock},
		{
			func(ctx context.Context) (*lock.Held, error) {
				return c.PermitSemaphore(t.Name()+"permit").Acquire(ctx, 1)
			},
			func(ctx context.Context) (*lock.Held, error) {
				return d.PermitSemaphore(t.Name()+"permit").Acquire(ctx, 1)
			},
		},
	} {
		held := fixture.Hold(t, kind.take)
		tries := d.Stats().Tries
		waiting.Go(func() {
			other, err := kind.wait(ctx)
			if err == nil {
				err = other.Unlock(ctx)
			}
			require.NoError(t, err, held.Name())
		})
		bounded.Until(t, func() bool { return d.Stats().Tries > tries }) // refused, and subscribed soon
	}
	bounded.Until(t, func() bool { return d.Stats().Waiting == 6 })
	held, released, _ := closeNow(t, c)
	require.Equal(t, 6, held)
	require.Equal(t, 6, released)
	bounded.Wait(t, &waiting)
}

// slowConfig is for tests that count answers. Its timeouts are long enough for a busy machine.
func slowConfig() lock.Config {
	return lock.Config{ReleaseOnClose: true, Lease: time.Hour, IOTimeout: 2 * time.Second, UnlockTimeout: 6 * time.Second}
}

// arrivals numbers the names of locks in the order of their first requests.
type arrivals struct {
	mu sync.Mutex // guards what follows
	of map[string]int
}

// add returns the number of a name, from 1 on, and whether the name is new.
func (n *arrivals) add(name string) (nth int, first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if nth = n.of[name]; nth > 0 {
		return nth, false
	}
	if n.of == nil {
		n.of = map[string]int{}
	}
	n.of[name] = len(n.of) + 1
	return len(n.of), true
}

// TestReleaseOnCloseCountsExactly how many locks are released, with more locks than fit into a few
// batches, whether the server hangs, refuses, or loses answers.
func TestReleaseOnCloseCountsExactly(t *testing.T) {
	t.Parallel()
	const locks, answered = 2000, 900
	for name, test := range map[string]struct {
		after faultproxy.Fate
		times int // the number of locks that it happens to, once unless left > 0; 0 for all further locks
		left  int
	}{
		"answers are lost":          {faultproxy.LoseReply, 3, 0},
		"connections end":           {faultproxy.HangUp, 3, 0},
		"it hangs":                  {faultproxy.LoseRequest, 0, locks - answered},
		"it refuses for some time":  {faultproxy.Answer(redis.Error("TRYAGAIN not now")), 100, 0},
		"it refuses some for good":  {faultproxy.Answer(redis.Error("NOPERM not that one")), 100, 100},
		"it refuses what is behind": {faultproxy.Answer(redis.Error("NOPERM not that one")), 0, locks - answered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onRedis(t)
			var faulty arrivals
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if c.Script != "release" {
					return faultproxy.Pass
				}
				nth, first := faulty.add(c.Args[3])
				switch forever := test.times == 0 || test.left > 0; {
				case nth <= answered, test.times > 0 && nth > answered+test.times, !first && !forever:
					return faultproxy.Pass
				}
				return test.after
			})
			c := fixture.ClientOver(t, p, slowConfig())
			fixture.LockAll(t, c, fixture.Names(t.Name(), locks))
			held, released, left := closeNow(t, c)
			require.Equal(t, locks, held)
			require.Equal(t, test.left, left)
			require.Equal(t, locks-test.left, released)
			requireLeftAndDelete(t, s, strings.ReplaceAll(t.Name(), "/", "?")+"*", left)
		})
	}
}

// requireLeftAndDelete fails the test unless the pattern has this number of keys, and deletes them.
func requireLeftAndDelete(t *testing.T, s *redistest.Server, pattern string, left int) {
	t.Helper()
	keys := fixture.Keys(t, s, pattern)
	require.Len(t, keys, left)
	if left > 0 {
		fixture.Do(t, s, "DEL", redis.Args{}.AddFlat(keys)...)
	}
}

// halves is a Topology of two servers, each with half of the slots.
type halves map[string]*faultproxy.Proxy

func (h halves) GetContext(context.Context) (redis.Conn, error) { return nil, errors.New("not used") }

func (h halves) Traits() topology.Traits { return topology.Traits{Slots: true} }

func (h halves) Dial(ctx context.Context, server string) (redis.Conn, error) {
	return h[server].Dial(ctx)
}

func (h halves) Follow(ctx context.Context, _ time.Duration, _ <-chan struct{}, update func(topology.Layout)) {
	l := topology.Layout{Servers: []topology.Server{{Name: "a"}, {Name: "b"}}, Slots: make([]int, 16384)}
	for slot := range l.Slots {
		l.Slots[slot] = slot % 2
	}
	update(l)
	<-ctx.Done()
}

// TestReleaseOnCloseDoesNotLetServersWaitForEachOther: one hangs.
func TestReleaseOnCloseDoesNotLetServersWaitForEachOther(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	const locks = 2000
	var others arrivals
	top := halves{}
	top["a"] = fixture.Proxy(t, s, nil)
	top["b"] = fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "release" {
			others.add(c.Args[3])
		}
		return faultproxy.Pass
	})
	c := fixture.Client(t, top, slowConfig())
	all := fixture.Names(t.Name(), locks)
	fixture.LockAll(t, c, all)
	top["a"].BlackHole()
	held, released, left := closeNow(t, c)
	require.Equal(t, locks, held)
	require.Len(t, others.of, released)
	require.Greater(t, left, locks/3)
	require.Greater(t, released, locks/3, "all of the server that answers")
	requireLeftAndDelete(t, s, t.Name()+"*", left)
}

// TestUnlockWhileCloseReleasesSaysThatTheClientIsClosed: and not that Redis did not answer.
func TestUnlockWhileCloseReleasesSaysThatTheClientIsClosed(t *testing.T) {
	calls := map[string]func(*lock.Held) error{
		"Unlock": func(x *lock.Held) error { return x.Unlock(context.Background()) },
		"Extend": func(x *lock.Held) error { return x.Extend(context.Background(), time.Minute) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				lost := make(chan error, 1)
				hooks := lock.Hooks{Lost: func(e lock.Event) { lost <- e.Err }}
				c, err := lock.New(s.Pool(0), lock.Config{ReleaseOnClose: true, Hooks: hooks})
				require.NoError(t, err)
				held := fixture.Hold(t, c.Mutex("m").Lock)
				require.NoError(t, s.Pause())
				closed := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithCancel(context.Background())
					cancel()
					closed <- c.Close(ctx)
				}()
				synctest.Wait() // its release is on its way
				called := make(chan error, 1)
				go func() { called <- call(held) }()
				synctest.Wait()
				require.NoError(t, s.Resume())
				require.ErrorContains(t, <-closed, "1 were released")
				for _, err := range []error{<-called, <-lost} {
					var cause *lock.LostError
					require.ErrorAs(t, err, &cause)
					require.Equal(t, lock.Closed, cause.Reason)
				}
			})
		})
	}
}

// TestCloseGivesBackWhatIsTakenMeanwhile: a request to take something is under way when Close gives up
// waiting, or when its caller leaves and Close does not wait for that call.
func TestCloseGivesBackWhatIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"the caller waits": false, "the caller has left": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onRedis(t)
			p := fixture.Proxy(t, s, nil)
			long := 5 * time.Minute
			c := fixture.ClientOver(t, p, lock.Config{ReleaseOnClose: true, Lease: time.Hour, IOTimeout: long, UnlockTimeout: long, Connections: 1})
			ctx := bounded.Context(t)
			key := strings.ReplaceAll(t.Name(), " ", "-")
			_, err := c.PermitSemaphore(key+"p").TrySet(ctx, 1)
			require.NoError(t, err)
			for kind := range fixture.MutexKinds(c, key) { // so that the server knows the scripts
				require.NoError(t, fixture.Hold(t, fixture.MutexKinds(c, key+kind)[kind].TryLock).Unlock(ctx))
			}
			permit, err := c.PermitSemaphore(key+"p").TryAcquire(ctx, 1)
			require.NoError(t, err)
			require.NoError(t, permit.Unlock(ctx))
			p.SetReplies(faultproxy.Hold)
			call, leave := context.WithCancel(ctx)
			defer leave()
			var calls sync.WaitGroup
			take := func(f func(context.Context) (*lock.Held, error)) {
				calls.Go(func() {
					_, err := f(call)
					require.Error(t, err)
				})
			}
			var names []string
			for kind := range fixture.MutexKinds(c, key) {
				names = append(names, key+kind, key+kind+"2")
				take(fixture.MutexKinds(c, key+kind)[kind].Lock)
				take(fixture.MutexKinds(c, key+kind+"2")[kind].TryLock)
			}
			take(func(ctx context.Context) (*lock.Held, error) { return c.PermitSemaphore(key+"p").Acquire(ctx, 1) })
			taken := func() []string {
				return slices.DeleteFunc(fixture.Keys(t, s, "*"+key+"*"), func(key string) bool {
					return strings.HasSuffix(key, "p") || strings.Contains(key, "token") || strings.Contains(key, "result")
				})
			}
			bounded.Until(t, func() bool {
				return fixture.Do(t, s, "EXISTS", redis.Args{}.AddFlat(names)...) == int64(len(names)) &&
					string(fixture.Do(t, s, "GET", key+"p").([]byte)) == "0"
			})
			over, end := context.WithCancel(ctx)
			closed := make(chan error, 1)
			if leaves {
				leave()
				bounded.Wait(t, &calls)
			} else {
				end()
			}
			go func() { closed <- c.Close(over) }()
			bounded.Until(t, func() bool {
				short, end := context.WithTimeout(ctx, time.Millisecond)
				defer end()
				_, err := c.Mutex(key + "late").TryLock(short)
				return errors.Is(err, lock.ErrClosed)
			})
			p.Heal()
			err = bounded.Receive(t, closed)
			end()
			if leaves {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, "lock: closed with no lock held, but while calls were under way: context canceled: give Close more time")
			}
			bounded.Wait(t, &calls)
			require.Empty(t, taken())
			require.EqualValues(t, "1", fixture.Do(t, s, "GET", key+"p"))
		})
	}
}

// TestAClosingClientKeepsItsHoldsUsable: until they are unlocked, or Close gives up, they are held.
func TestAClosingClientKeepsItsHoldsUsable(t *testing.T) {
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx := context.Background()
		held := fixture.Hold(t, c.Mutex("m").Lock)
		closed := make(chan error, 1)
		go func() { closed <- c.Close(ctx) }()
		<-held.Done()
		require.True(t, held.Valid())
		require.NoError(t, held.Extend(ctx, time.Hour))
		_, err := held.Guard(ctx, "SET", []string{"x"}, 1)
		require.NoError(t, err)
		require.NoError(t, held.Unlock(ctx))
		_, err = held.Guard(ctx, "SET", []string{"x"}, 2)
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.NoError(t, <-closed)
	})
}
