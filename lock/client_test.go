package lock_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestANameThatIsAKeyOfAnotherLockIsRefused: it used to take a lock away, or to be taken
// away, without anybody being told.
func TestANameThatIsAKeyOfAnotherLockIsRefused(t *testing.T) {
	s, ctx := fixture.Server(t), bounded.Context(t)
	cfg := lock.Config{KeyPrefix: "{t}:"}
	a, b := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
	permits := b.PermitSemaphore("p")
	for name, use := range map[string]func() error{
		"a:wheellock_writers": func() error { // one who waits to write is a field of a hash
			reader := fixture.Hold(t, b.RWMutex("a").Reader().Lock)
			wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := b.RWMutex("a").Writer().Lock(wait)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return reader.Unlock(ctx)
		},
		"f:wheellock_waiters": func() error {
			return b.FairMutex("f").Do(ctx, func(context.Context, *lock.Held) error { return nil })
		},
		"p:timeout": func() error {
			if err := permits.Set(ctx, 1); err != nil {
				return err
			}
			_, err := permits.Delete(ctx)
			return err
		},
	} {
		held, err := a.Mutex(name).TryLock(ctx)
		if err == nil { // two would have it in the end
			require.NoError(t, use(), name)
			other, err := b.Mutex(name).TryLock(ctx)
			require.Error(t, err, name)
			require.False(t, held.Valid() && other.Valid(), "two holders of %s", name)
		}
		require.ErrorContains(t, err, "is that of a key of another lock: use one that does not end in", name)
		require.NotErrorIs(t, err, lock.ErrUnknown)
		require.NoError(t, use(), name)
	}
	for what, err := range map[string]error{
		"mutex":     second(a.Mutex("x:timeout").Lock(ctx)),
		"fair":      second(a.FairMutex("x:timeout").Lock(ctx)),
		"fenced":    second(a.FencedMutex("x:timeout").Lock(ctx)),
		"reader":    second(a.RWMutex("x:timeout").Reader().Lock(ctx)),
		"writer":    second(a.RWMutex("x:timeout").Writer().TryLock(ctx)),
		"permits":   second(a.PermitSemaphore("x:timeout").Acquire(ctx, 1)),
		"semaphore": a.Semaphore("x:timeout").Acquire(ctx, 1),
		"latch":     a.CountDownLatch("x:timeout").Wait(ctx),
		"inspect":   second(a.Mutex("x:timeout").Inspect(ctx)),
		"force":     second(a.Mutex("x:timeout").ForceUnlock(ctx)),
	} {
		require.ErrorContains(t, err, "is that of a key of another lock", what)
	}
	require.Empty(t, fixture.Keys(t, s, "*x:timeout*"))
}

func second[T any](_ T, err error) error { return err }

// TestAProfileSaysWhatGoroutinesAreFor: and counts none of them to the call that started them.
func TestAProfileSaysWhatGoroutinesAreFor(t *testing.T) {
	s := onRedis(t)
	held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex(t.Name()).Lock)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	waited := make(chan error, 1)
	pprof.Do(ctx, pprof.Labels("call", t.Name()), func(ctx context.Context) {
		mine, err := c.Mutex("mine").Lock(ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, mine.Unlock(ctx)) }()
		go func() {
			_, err := c.Mutex(t.Name()).Lock(ctx) // it listens
			waited <- err
		}()
		profile := func() string {
			var b bytes.Buffer
			require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
			return b.String()
		}
		for _, role := range []string{"write commands", "read answers", "subscribe", "read messages", "renew"} {
			require.Eventually(t, func() bool { return strings.Contains(profile(), `"wheellock":"`+role+`"`) }, time.Minute, time.Millisecond, role)
		}
		for stack := range strings.SplitSeq(profile(), "\n\n") {
			// Goroutines of Eventually that are just ending have no function of the test any more.
			if strings.Contains(stack, `"call":`) && !strings.Contains(stack, "runtime.goexit1") {
				require.Contains(t, stack, "lock_test.TestAProfile", "it is one of the test's own")
			}
		}
		cancel()
		require.ErrorIs(t, bounded.Receive(t, waited), context.Canceled)
	})
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestStatsTellHowServersClocksStand(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "TIME" { // in 2001
			return faultproxy.Answer([]any{[]byte("1000000000"), []byte("500000")})
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{})
	require.Empty(t, c.Stats().Clocks, "nothing was asked yet")
	_, err := c.Mutex(fixture.KeyOf(t)).IsLocked(t.Context())
	require.NoError(t, err)
	clocks := c.Stats().Clocks
	require.Len(t, clocks, 1)
	require.NotEmpty(t, clocks[0].Server)
	require.Positive(t, clocks[0].Within)
	require.InDelta(t, time.Until(time.Unix(1_000_000_000, 0)), clocks[0].Ahead, float64(time.Minute))
}

// TestAServerThatDoesNotTellItsTimeIsUsedWithoutLimits, but if only TIME gets no answer, a script tells the
// time, and requests get limits after the first ones.
func TestAServerThatDoesNotTellItsTimeIsUsedWithoutLimits(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for name, fate := range map[string]faultproxy.Fate{
		"it says nothing":          faultproxy.LoseRequest,
		"it ends the connection":   faultproxy.HangUp, // as proxies do with what they do not know
		"it is not permitted":      faultproxy.Answer(redis.Error("NOPERM this user has no permissions to run the 'time' command")),
		"it does not know it":      faultproxy.Answer(redis.Error("ERR unknown command")),
		"it answers something odd": faultproxy.Answer([]any{int64(1)}),
		"it answers nothing":       faultproxy.Answer(nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked, limited atomic.Int64
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				switch {
				case c.Args[0] == "TIME":
					asked.Add(1)
					return fate
				case strings.HasPrefix(c.Args[0], "EVAL") && len(c.Args[len(c.Args)-1]) == 13:
					limited.Add(1)
				}
				return faultproxy.Pass
			})
			var log fixture.Log
			c := fixture.ClientOver(t, p, lock.Config{Lease: 20 * time.Second, IOTimeout: 2 * time.Second, Logger: log.Logger()})
			log.Flush = lock.FlushLog(c)
			mu := c.Mutex(t.Name())
			take := mu.TryLock
			if name == "it says nothing" { // which a server that hangs does, too
				take = mu.Lock
			}
			held, err := take(t.Context())
			require.NoError(t, err)
			require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > 0 }, time.Minute, time.Millisecond)
			require.NoError(t, held.Unlock(t.Context()))
			told := "TIME is refused"
			if name == "it says nothing" || name == "it ends the connection" {
				told = "TIME gets no answer"
			}
			require.Equal(t, 1, strings.Count(log.String(), told), log.String())
			require.Equal(t, 1, strings.Count(log.String(), "no time limit"), log.String())
			if told == "TIME is refused" {
				require.Zero(t, limited.Load())
			} else {
				require.Eventually(t, func() bool {
					held, err := mu.TryLock(t.Context())
					return err == nil && held.Unlock(t.Context()) == nil && limited.Load() > 0
				}, time.Minute, 10*time.Millisecond)
			}
			once := asked.Load()
			p.HangUp(0)
			require.Eventually(t, func() bool {
				held, err := mu.TryLock(t.Context())
				return err == nil && held.Unlock(t.Context()) == nil
			}, time.Minute, time.Millisecond)
			require.Equal(t, once, asked.Load(), "it is not asked again for a minute")
		})
	}
}

// TestAServerThatHungIsAskedForItsTimeAgain: it has said nothing to anything.
func TestAServerThatHungIsAskedForItsTimeAgain(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var asked, limited, unlimited atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		switch {
		case c.Args[0] == "TIME" || c.Args[0] == "PING":
			if asked.Add(1) <= 5 {
				return faultproxy.LoseRequest
			}
		case c.Script == "acquire" && len(c.Args[len(c.Args)-1]) == 13:
			limited.Add(1)
		case c.Script == "acquire":
			unlimited.Add(1)
		}
		return faultproxy.Pass
	})
	var log fixture.Log
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 300 * time.Millisecond, Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held, err := c.Mutex(t.Name()).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, held.Unlock(t.Context()))
	require.NotZero(t, limited.Load())
	require.Zero(t, unlimited.Load())
	require.NotContains(t, log.String(), "no time limit")
}

// TestTheFirstCallersOfAClientGetTheirOwnAnswers, although the server knows no script yet and the client
// is still dialling its connections.
func TestTheFirstCallersOfAClientGetTheirOwnAnswers(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			srv := locktest.NewServer(t)
			held := fixture.LockAll(t, srv.Client(lock.Config{}), []string{"a", "b", "c"})
			require.Equal(t, []string{"a", "b", "c"}, srv.Locks())
			require.Len(t, held, 3)
		})
	}
}
