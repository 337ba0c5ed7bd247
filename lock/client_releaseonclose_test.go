package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	"github.com/wheellock/wheellock/lock/topology"
)

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

// slowConfig is for tests that count answers, on however busy a machine.
func slowConfig() lock.Config {
	return lock.Config{ReleaseOnClose: true, Lease: time.Hour, IOTimeout: 2 * time.Second, UnlockTimeout: 6 * time.Second}
}

// names are those of locks, in the order in which they came.
type names struct {
	mu sync.Mutex // guards what follows
	of map[string]int
}

// place is the place of a name, from 1 on, and whether it came for the first time.
func (n *names) place(name string) (nth int, first bool) {
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

// TestReleaseOnCloseCountsExactly what was released: more than fit into some batches, of a
// server that stops to answer, and loses answers before.
func TestReleaseOnCloseCountsExactly(t *testing.T) {
	t.Parallel()
	const locks, answered = 2000, 900
	for name, test := range map[string]struct {
		after faultproxy.Fate
		times int // for so many locks, once unless some are left; 0 for all
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
			var faulty names
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if c.Script != "release" {
					return faultproxy.Pass
				}
				nth, first := faulty.place(c.Args[3])
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
			requireLeft(t, s, strings.ReplaceAll(t.Name(), "/", "?")+"*", left)
		})
	}
}

// requireLeft fails the test unless so many keys are left, and deletes them.
func requireLeft(t *testing.T, s *redistest.Server, pattern string, left int) {
	t.Helper()
	keys := fixture.Keys(t, s, pattern)
	require.Len(t, keys, left)
	if left > 0 {
		fixture.Do(t, s, "DEL", redis.Args{}.AddFlat(keys)...)
	}
}

// halves is a Topology of two servers that have half of the slots each.
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
	fixture.Slow(t)
	t.Parallel()
	s := onRedis(t)
	const locks = 2000
	var others names
	top := halves{}
	top["a"] = fixture.Proxy(t, s, nil)
	top["b"] = fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "release" {
			others.place(c.Args[3])
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
	requireLeft(t, s, t.Name()+"*", left)
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
			for kind := range fixture.Kinds(c, key) { // so that the server knows the scripts
				require.NoError(t, fixture.Hold(t, fixture.Kinds(c, key+kind)[kind].TryLock).Unlock(ctx))
			}
			permit, err := c.PermitSemaphore(key+"p").TryAcquire(ctx, 1)
			require.NoError(t, err)
			require.NoError(t, permit.Unlock(ctx))
			p.Replies(faultproxy.Hold)
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
			for kind := range fixture.Kinds(c, key) {
				names = append(names, key+kind, key+kind+"2")
				take(fixture.Kinds(c, key+kind)[kind].Lock)
				take(fixture.Kinds(c, key+kind+"2")[kind].TryLock)
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
