package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
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
	"github.com/wheellock/wheellock/lock/topology"
)

// causes are how often a test gives the reason for a record.
var causes = []int{100, 2_000}

// perMinute is the bound of a record that many locks, calls or hooks can cause.
const perMinute = 5

// manyNames returns n names of locks.
func manyNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%d", i)
	}
	return list
}

// TestManyHeldsThatAreDroppedMakeFewRecords.
func TestManyHeldsThatAreDroppedMakeFewRecords(t *testing.T) {
	fixture.SkipSlow(t)
	for _, n := range causes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := fixture.Server(t)
			var log fixture.Log
			c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second, DropForgotten: true, Logger: log.Logger()})
			log.Flush = lock.FlushLog(c)
			began := time.Now()
			require.Greater(t, len(heldOf(c.TryLockMany(bounded.Context(t), manyNames(n)))), 10*perMinute)
			bounded.Until(t, func() bool {
				runtime.GC()
				return c.Stats().Held == 0 // none is renewed any more
			})
			minutes := 1 + int(time.Since(began)/time.Minute)
			said := strings.Count(log.String(), "a Held was dropped without Unlock")
			require.NotZero(t, said)
			require.LessOrEqual(t, said, perMinute*minutes)
		})
	}
}

// TestAHookThatAlwaysPanicsMakesFewRecords.
func TestAHookThatAlwaysPanicsMakesFewRecords(t *testing.T) {
	fixture.SkipSlow(t)
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			var log fixture.Log
			c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger(), Hooks: lock.Hooks{Acquired: func(lock.Event) { panic("at the disco") }}})
			require.NoError(t, err)
			log.Flush = lock.FlushLog(c)
			for range n {
				held, err := c.Mutex("m").TryLock(t.Context())
				require.NoError(t, err)
				require.NoError(t, held.Unlock(t.Context()))
			}
			require.Equal(t, perMinute, strings.Count(log.String(), "a hook panicked"), "of %d", n)
			time.Sleep(time.Minute)
			held, err := c.Mutex("m").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, held.Unlock(t.Context()))
			require.Equal(t, perMinute+1, strings.Count(log.String(), "a hook panicked"))
			require.Regexp(t, fmt.Sprintf(` suppressed=%d\n$`, n-perMinute), log.String())
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// TestManyWaitsForLocksOfOneselfMakeFewRecords.
func TestManyWaitsForLocksOfOneselfMakeFewRecords(t *testing.T) {
	fixture.SkipSlow(t)
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			var log fixture.Log
			c, err := lock.New(s.Pool(0), lock.Config{Lease: time.Minute, Logger: log.Logger()})
			require.NoError(t, err)
			log.Flush = lock.FlushLog(c)
			helds := heldOf(c.TryLockMany(t.Context(), manyNames(n)))
			require.Len(t, helds, n)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for _, name := range manyNames(n) {
				go func() { _, _ = c.Mutex(name).Lock(ctx) }()
			}
			time.Sleep(time.Minute)
			require.Equal(t, perMinute, strings.Count(log.String(), "still waiting for a lock that this client itself holds"), "of %d", n)
			require.NoError(t, errors.Join(lock.UnlockMany(t.Context(), helds)...))
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// TestACheckInALoopMakesFewRecords: a service may call Check as its health check.
func TestACheckInALoopMakesFewRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger()})
		require.NoError(t, err)
		log.Flush = lock.FlushLog(c)
		require.NoError(t, c.Check(t.Context()))
		once := strings.Count(log.String(), "Check has advice")
		require.NotZero(t, once)
		for range causes[0] {
			require.NoError(t, c.Check(t.Context()))
		}
		require.Equal(t, once, strings.Count(log.String(), "Check has advice"), "in one minute")
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestAServerThatHangsIsLogged: it still accepts connections. One client only renews, the other
// only calls.
func TestAServerThatHangsIsLogged(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, c *lock.Client){
		"renewals": func(*testing.T, *lock.Client) { time.Sleep(time.Minute) }, // one is due meanwhile
		"calls": func(t *testing.T, c *lock.Client) {
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, _ = c.Mutex("other").TryLock(ctx)
				<-ctx.Done()
				cancel()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				var log fixture.Log
				c, err := lock.New(s.Pool(0), lock.Config{Lease: 2 * time.Minute, IOTimeout: 3 * time.Second, ReleaseOnClose: true, Logger: log.Logger()})
				require.NoError(t, err)
				log.Flush = lock.FlushLog(c)
				defer fixture.CloseNow(c)
				held, err := c.Mutex("m").Lock(t.Context())
				require.NoError(t, err)
				if name == "calls" {
					require.NoError(t, held.Unlock(t.Context()))
				}
				for hang := range 10 {
					before := len(log.String())
					require.NoError(t, s.Pause())
					use(t, c)
					require.Equal(t, 1, strings.Count(log.String()[before:], "Redis did not answer in time"), "hang %d: %s", hang, log.String())
					require.NotContains(t, log.String()[before:], "answers again")
					require.NoError(t, s.Resume())
					use(t, c)
					require.Equal(t, 1, strings.Count(log.String()[before:], "lock: Redis answers again"), log.String())
					time.Sleep(time.Minute) // one comes in a minute
				}
			})
		})
	}
}

func TestAWaitOnALockOfThisVeryClientIsWarnedAboutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger()})
		require.NoError(t, err)
		log.Flush = lock.FlushLog(c)
		ctx := context.Background()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, 9*time.Second)
		defer cancel()
		_, err = c.Mutex("m").Lock(short) // without held.Context
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, log.String(), "still waiting for a lock that this client itself holds")
		long, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = c.Mutex("m").Lock(long)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, strings.Count(log.String(), "still waiting for a lock that this client itself holds"), log.String())
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, c.Close(ctx))
	})
}

// TestALongWaitSaysWhoHoldsTheLock, and asks for that once in a minute at most, whatever the
// number of calls that wait.
func TestALongWaitSaysWhoHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		holder, err := lock.New(s.Pool(0), lock.Config{Label: "web-1"})
		require.NoError(t, err)
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger()})
		require.NoError(t, err)
		log.Flush = lock.FlushLog(c)
		ctx := context.Background()
		time.Sleep(time.Second)
		for kind := range fixture.MutexKinds(holder, "") {
			has := kind // what keeps others out
			if kind == "reader" {
				has = "writer"
			}
			mu := fixture.MutexKinds(holder, "m")[has]
			before := len(log.String())
			said := func() string { return log.String()[before:] }
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			var calls sync.WaitGroup
			waitFor := func(name string, d time.Duration) {
				calls.Go(func() {
					short, cancel := context.WithTimeout(ctx, d)
					defer cancel()
					_, err := fixture.MutexKinds(c, name)[kind].Lock(short)
					require.ErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			waitFor("m", 9*time.Second)
			calls.Wait()
			require.NotContains(t, said(), "still waiting")
			waitFor("m", 50*time.Second)
			waitFor("m", 50*time.Second)
			time.Sleep(time.Second)
			second, err := fixture.MutexKinds(holder, "n")[has].Lock(ctx)
			require.NoError(t, err)
			waitFor("n", 50*time.Second)
			calls.Wait()
			require.Equal(t, 1, strings.Count(said(), "still waiting"), "%s: %s", kind, said())
			require.Regexp(t, `level=WARN msg="lock: still waiting for a lock that another owner has" name=[mn] waited=[1-4]\ds holder="?`+
				holder.ID()+`:\d+:\d+(:write)?"? label=web-1 advice="[^"]+"( suppressed=\d)?\n`, said(), kind)
			time.Sleep(time.Minute)
			waitFor("m", 150*time.Second)
			calls.Wait()
			require.Equal(t, 2, strings.Count(said(), "still waiting"), kind)
			require.NoError(t, second.Unlock(ctx))
			require.NoError(t, held.Unlock(ctx))
			time.Sleep(time.Minute)
		}
		fixture.Do(t, s, "SET", "m", "another library's", "PX", time.Hour.Milliseconds())
		short, cancel := context.WithTimeout(ctx, 50*time.Second)
		defer cancel()
		_, err = c.Mutex("m").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Regexp(t, `another owner has" name=m waited=1\ds holder="" label="" advice="[^"]+"( suppressed=\d)?\n$`, log.String())

		time.Sleep(time.Minute)
		fixture.Do(t, s, "DEL", "m")
		fixture.Do(t, s, "HSET", "m", strings.Repeat("x", 1000), 1)
		fixture.Do(t, s, "PEXPIRE", "m", time.Hour.Milliseconds())
		short, cancel = context.WithTimeout(ctx, 50*time.Second)
		defer cancel()
		_, err = c.Mutex("m").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Regexp(t, ` holder=x{256} label="" advice="[^"]+"\n$`, log.String())

		time.Sleep(time.Minute)
		before := len(log.String())
		fixture.Do(t, s, "SET", "s", 0)
		short, cancel = context.WithTimeout(ctx, 50*time.Second)
		defer cancel()
		require.ErrorIs(t, c.Semaphore("s").Acquire(short, 1), context.DeadlineExceeded)
		require.Empty(t, log.String()[before:], "permits have no holder")
		require.NoError(t, c.Close(ctx))
		require.NoError(t, holder.Close(ctx))
	})
}

func TestAServerThatMayEvictLocksIsWarnedAbout(t *testing.T) {
	for policy, warned := range map[string]bool{"noeviction": false, "volatile-ttl": true, "allkeys-lru": true} {
		s := fixture.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", policy)
		var log fixture.Log
		c := fixture.ClientOf(t, s, lock.Config{Connections: 1, Logger: log.Logger()})
		log.Flush = lock.FlushLog(c)
		for range 3 {
			held := fixture.Hold(t, c.Mutex("m").Lock)
			require.NoError(t, held.Unlock(bounded.Context(t)))
		}
		fixture.CloseNow(c)
		want := 0
		if warned {
			want = 1
		}
		require.Equal(t, want, strings.Count(log.String(), "maxmemory_policy="+policy), log.String())
	}
}

// The first Lock of a new user often has no deadline, and no Redis either.
func TestALockThatFindsNoRedisIsToldOfInTheLog(t *testing.T) {
	t.Parallel()
	s := fixture.Mini(t)
	require.NoError(t, s.Kill())
	var log fixture.Log
	c := fixture.ClientOf(t, s, lock.Config{Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	const said = "no connection to Redis"
	lockOnce := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() { _, err := c.Mutex(t.Name()).Lock(ctx); failed <- err }()
		require.Eventually(t, func() bool { return strings.Contains(log.String(), said) }, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, bounded.Receive(t, failed), context.Canceled)
	}
	lockOnce()
	_, err := c.Mutex(t.Name()).TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrNotSent)
	require.Equal(t, 1, strings.Count(log.String(), said), "once until there is a connection")
	require.Contains(t, log.String(), s.Addr())

	require.NoError(t, s.Restart(t.Context()))
	require.NoError(t, c.Mutex(t.Name()).Do(t.Context(), func(context.Context, *lock.Held) error { return nil }))
	require.Contains(t, log.String(), "connected to Redis again")
	require.Equal(t, strings.Count(log.String(), "level="), strings.Count(log.String(), " server="+s.Addr()), "a pool does not tell the address, a failed dial does:\n%s", log.String())
	require.NoError(t, s.Kill())
	require.Eventually(t, func() bool {
		_, err := c.Mutex(t.Name()).TryLock(t.Context())
		return err != nil && strings.Count(log.String(), said) >= 2 // again, if one that had connected before says so after that
	}, time.Minute, time.Millisecond)
}

func TestAMasterThatChangesIsToldOfInTheLog(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var refuse atomic.Bool
	top := fixture.NewShifting(func(ctx context.Context) (redis.Conn, error) {
		if refuse.Load() {
			return nil, errors.New("refused")
		}
		return s.DialContext(ctx)
	})
	var log fixture.Log
	c := fixture.Client(t, top, lock.Config{Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.Empty(t, log.String())
	top.Become("second")
	require.Contains(t, log.String(), `old="at first" new="at second"`)
	refuse.Store(true)
	top.Become("third")
	_, err := c.Mutex(t.Name() + "2").TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrNotSent)
	require.Contains(t, log.String(), "no connection to Redis")
	refuse.Store(false)
	require.NoError(t, held.Unlock(t.Context()))
	// A dial that was under way may have succeeded between two refused dials.
	n := strings.Count(log.String(), "connected to Redis again")
	require.NotZero(t, n, log.String())
	require.Equal(t, n, strings.Count(log.String(), "no connection to Redis"), log.String())
	// The second may be asked which locks it has just when dials begin to be refused.
	where := regexp.MustCompile(`(no connection to Redis|connected to Redis again).* server="at (second|third)"`)
	require.Contains(t, log.String(), `server="at third"`)
	require.Len(t, where.FindAllString(log.String(), -1), 2*n, "each line says where:\n%s", log.String())
}

// TestAClusterThatIsNotFoundIsToldOfInTheLog, without a server, because no node has answered.
func TestAClusterThatIsNotFoundIsToldOfInTheLog(t *testing.T) {
	t.Parallel()
	var log fixture.Log
	c := fixture.Client(t, &lostCluster{}, lock.Config{IOTimeout: 10 * time.Millisecond, Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	for range 3 {
		_, err := c.Mutex("m").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotSent)
	}
	require.Equal(t, 1, strings.Count(log.String(), "no connection to Redis"), log.String())
	require.Contains(t, log.String(), "nobody is there")
	require.Regexp(t, `server="?\w`, log.String())
}

// lostCluster is a Topology that finds nothing.
type lostCluster struct{ *fixture.Shifting }

func (*lostCluster) Traits() topology.Traits { return topology.Traits{Slots: true} }

func (*lostCluster) Follow(ctx context.Context, _ time.Duration, _ <-chan struct{}, update func(topology.Layout)) {
	for ctx.Err() == nil {
		update(topology.Layout{Err: errors.New("nobody is there")})
		time.Sleep(time.Millisecond)
	}
}

// startDoorkeeper starts a server that turns each connection away with that text, as Redis does: it
// does not wait for a request.
func startDoorkeeper(t *testing.T, text string) (addr string, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_, _ = io.WriteString(conn, text+"\r\n")
			_ = conn.(*net.TCPConn).CloseWrite() // closing could lose the text, if a request is on its way
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	return l.Addr().String(), accepted
}

// TestAServerThatTurnsConnectionsAwaySaysWhy: its text is not the answer to TIME.
func TestAServerThatTurnsConnectionsAwaySaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, says, advice string
		definite           bool
	}{
		{"-ERR max number of clients reached", "max number of clients reached", "raise maxclients", false},
		{"-DENIED Redis is running in protected mode because protected mode is enabled", "running in protected mode", "set protected-mode no", true},
	} {
		addr, accepted := startDoorkeeper(t, c.text)
		for _, url := range []string{"redis://" + addr, "redis://:pw@" + addr + "/2"} {
			var log fixture.Log
			client, err := lock.Open(url, lock.Config{Logger: log.Logger(), IOTimeout: 3 * time.Second})
			require.NoError(t, err)
			log.Flush = lock.FlushLog(client)
			before := accepted.Load()
			_, err = client.Mutex("m").TryLock(bounded.Context(t))
			require.ErrorContains(t, err, c.says)
			require.Equal(t, !c.definite, errors.Is(err, lock.ErrUnknown), "Redis said no, or may say yes soon")
			require.EqualValues(t, 1, accepted.Load()-before, "no request is sent to a connection that is over")
			require.Contains(t, log.String(), c.says)
			require.NotContains(t, log.String(), "TIME")
			err = client.Check(bounded.Context(t))
			require.ErrorContains(t, err, c.advice)
			fixture.CloseNow(client)
		}
	}
}

func TestARenewalThatIsRefusedIsLoggedAndNoLoss(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-hexists", "-pexpire", "-pttl", "-zscore", "-zadd", "-evalsha"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			var out fixture.Log
			cfg := lock.Config{Lease: 2 * time.Second, Logger: out.Logger()}
			c := fixture.ClientWithout(t, s, "u", cfg)
			out.Flush = lock.FlushLog(c)
			ctx := bounded.Context(t)
			var helds []*lock.Held
			for kind, lk := range fixture.LockKinds(t, c) {
				z := right == "-zscore" || right == "-zadd"
				if right == "-pttl" && kind != "read" || z != (kind == "permits") && right != "-evalsha" || kind == "read" && right == "-pexpire" {
					continue // they do not need it, or share a key with one that does
				}
				if kind == "write" {
					continue // "read" has the key
				}
				held, err := lk.Lock(ctx)
				require.NoError(t, err, kind)
				helds = append(helds, held)
			}
			require.NotEmpty(t, helds)
			less := []any{right}
			if right == "-zscore" {
				less = append(less, "-zmscore") // either will do
			}
			fixture.SetUserWithout(t, s, "u", less...)
			if right == "-evalsha" {
				require.Eventually(t, func() bool { return strings.Count(out.String(), "lock: renewal is refused") > 0 }, time.Minute, 5*time.Millisecond)
			}
			for _, held := range helds {
				fixture.RequireLost(t, held, lock.TrustEnded)
			}
			require.Equal(t, 1, strings.Count(out.String(), "lock: renewal is refused"), out.String())
			require.Contains(t, out.String(), " server="+s.Addr()+" ", "a pool's server is named")
			require.Positive(t, strings.Count(out.String(), "NOPERM")+strings.Count(out.String(), "permissions")+strings.Count(out.String(), "can't run"), out.String())
			fixture.SetUserWithout(t, s, "u")
			held := fixture.Hold(t, c.Mutex("again").Lock)
			before := c.Stats().Renewal.Renewed
			require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > before+1 }, time.Minute, 5*time.Millisecond)
			if right == "-hexists" {
				fixture.SetUserWithout(t, s, "u", right)
				bounded.Receive(t, held.Done())
				require.Equal(t, 2, strings.Count(out.String(), "lock: renewal is refused"), "once until it worked again")
			}
		})
	}
}

func TestAMessageThatIsRefusedIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	for kind := range map[string]bool{"mutex": true, "fair": true, "read": true, "write": true, "permits": true, "semaphore": true, "latch": true, "force": true} {
		var out fixture.Log
		c := fixture.ClientWithout(t, s, "u"+kind, lock.Config{Logger: out.Logger()}, "-publish")
		out.Flush = lock.FlushLog(c)
		ctx := bounded.Context(t)
		for range 2 {
			switch kind {
			case "semaphore":
				_, err := c.Semaphore("s").TrySet(ctx, 1)
				require.NoError(t, err)
				require.NoError(t, c.Semaphore("s").Release(ctx, 2))
			case "latch":
				_, err := c.CountDownLatch("l").TrySet(ctx, 1)
				require.NoError(t, err)
				require.NoError(t, c.CountDownLatch("l").CountDown(ctx))
			case "force":
				_ = fixture.Hold(t, c.Mutex("f").Lock)
				ok, err := c.Mutex("f").ForceUnlock(ctx)
				require.NoError(t, err)
				require.True(t, ok)
			case "fair":
				fixture.Do(t, s, "RPUSH", "redisson_lock_queue:{"+t.Name()+":fair}", "java:1")
				fixture.Do(t, s, "ZADD", "redisson_lock_timeout:{"+t.Name()+":fair}", time.Now().Add(time.Hour).UnixMilli(), "java:1")
				held := fixture.Hold(t, c.Mutex(t.Name()+":fair").Lock)
				_, err := c.FairMutex(t.Name() + ":fair").ForceUnlock(ctx)
				require.NoError(t, err)
				_ = held.Unlock(ctx)
			default:
				held, err := fixture.LockKinds(t, c)[kind].Lock(ctx)
				require.NoError(t, err, kind)
				require.NoError(t, held.Unlock(ctx), kind)
			}
		}
		require.Equal(t, 1, strings.Count(out.String(), "lock: PUBLISH is refused"), "%s %s", kind, out.String())
		require.Contains(t, out.String(), " server="+s.Addr()+" ", "a pool's server is named")
		fixture.CloseNow(c)
	}
}

// refusing are ways to make a server refuse all writes, and to end that.
var refusing = map[string]struct {
	advice       string
	begin, cease func(*testing.T, *redistest.Server)
}{
	"MISCONF": {
		advice: "make the server save its data again (see its log and its disk), or set stop-writes-on-bgsave-error no",
		begin: func(t *testing.T, s *redistest.Server) {
			require.NoError(t, os.MkdirAll(filepath.Join(dump(t, s), "in the way"), 0o777))
			fixture.Do(t, s, "CONFIG", "SET", "save", "3600 1")
			save(t, s, "err")
		},
		cease: func(t *testing.T, s *redistest.Server) {
			require.NoError(t, os.RemoveAll(dump(t, s)))
			save(t, s, "ok")
		},
	},
	"NOREPLICAS": {
		advice: "connect the replicas of the server, or lower its min-replicas-to-write",
		begin: func(t *testing.T, s *redistest.Server) {
			fixture.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", 1)
		},
		cease: func(t *testing.T, s *redistest.Server) {
			fixture.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", 0)
		},
	},
}

// dump returns the name of the file to which s saves its data.
func dump(t *testing.T, s *redistest.Server) string {
	t.Helper()
	return filepath.Join(fixture.Strings(t, s, "CONFIG", "GET", "dir")[1], fixture.Strings(t, s, "CONFIG", "GET", "dbfilename")[1])
}

// save makes s save its data, and waits until that has ended with status.
func save(t *testing.T, s *redistest.Server, status string) {
	t.Helper()
	fixture.Do(t, s, "BGSAVE")
	bounded.Until(t, func() bool {
		info := string(fixture.Do(t, s, "INFO", "persistence").([]byte))
		return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:"+status)
	})
}

func eachRefusal(t *testing.T, f func(t *testing.T, s *redistest.Server, word string)) {
	for word := range refusing {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			if word == "NOREPLICAS" {
				fixture.NeedAbilities(t, redistest.ReplicasRule)
			}
			f(t, fixture.Server(t), word)
		})
	}
}

// TestALossBecauseTheServerRefusesToWriteSaysSo, and so does one record of the log.
func TestALossBecauseTheServerRefusesToWriteSaysSo(t *testing.T) {
	t.Parallel()
	eachRefusal(t, func(t *testing.T, s *redistest.Server, word string) {
		var out fixture.Log
		hook, ctx := make(chan lock.Event, 10), bounded.Context(t)
		c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second, Logger: out.Logger(), Hooks: lock.Hooks{Lost: func(e lock.Event) { hook <- e }}})
		out.Flush = lock.FlushLog(c)
		var helds []*lock.Held
		for kind, lk := range fixture.LockKinds(t, c) {
			if kind != "write" { // "read" has the key
				held, err := lk.Lock(ctx)
				require.NoError(t, err, kind)
				helds = append(helds, held)
			}
		}
		work := helds[0].Context(ctx)
		refusing[word].begin(t, s)
		require.Eventually(t, func() bool { return c.Stats().Held == 0 }, time.Minute, 5*time.Millisecond)
		refusing[word].cease(t, s)
		errs := []error{context.Cause(work)}
		for _, held := range helds {
			bounded.Receive(t, held.Done())
			errs = append(errs, held.Err(), context.Cause(held.Context(ctx)), bounded.Receive(t, hook).Err, held.Unlock(ctx))
		}
		for _, err := range errs {
			var lost *lock.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, lock.TrustEnded, lost.Reason)
			require.ErrorIs(t, err, lock.ErrLost)
			require.NotErrorIs(t, err, lock.ErrUnknown)
			var said redis.Error
			require.ErrorAs(t, err, &said)
			require.Contains(t, string(said), word)
			require.Equal(t, said, lost.Err)
			require.ErrorContains(t, err, "no renewal was acknowledged in time: Redis answered "+string(said)+": stop the work that needs the lock, and "+refusing[word].advice)
		}
		require.Equal(t, 1, strings.Count(out.String(), "lock: renewal is refused"), out.String())
		require.Contains(t, out.String(), word)
		require.Contains(t, out.String(), refusing[word].advice)
	})
}

// TestAHoldSurvivesAServerThatRefusesToWriteForLessThanALease.
func TestAHoldSurvivesAServerThatRefusesToWriteForLessThanALease(t *testing.T) {
	t.Parallel()
	eachRefusal(t, func(t *testing.T, s *redistest.Server, word string) {
		var out fixture.Log
		c := fixture.ClientOf(t, s, lock.Config{Lease: 9 * time.Second, Logger: out.Logger()})
		out.Flush = lock.FlushLog(c)
		held := fixture.Hold(t, c.Mutex("m").Lock)
		refusing[word].begin(t, s)
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "lock: renewal is refused") }, time.Minute, 5*time.Millisecond)
		refusing[word].cease(t, s)
		before := held.Deadline()
		require.Eventually(t, func() bool { return held.Deadline().After(before) }, time.Minute, 5*time.Millisecond)
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.Equal(t, 1, strings.Count(out.String(), "lock: renewal is refused"), out.String())
	})
}

// TestALockThatTheServerRefusesToWriteIsHadWhenItWritesAgain: until then nothing is taken, and
// TryLock says what to do.
func TestALockThatTheServerRefusesToWriteIsHadWhenItWritesAgain(t *testing.T) {
	t.Parallel()
	eachRefusal(t, func(t *testing.T, s *redistest.Server, word string) {
		c, ctx := fixture.ClientOf(t, s, lock.Config{Lease: time.Minute, IOTimeout: 5 * time.Second}), bounded.Context(t)
		refusing[word].begin(t, s)
		_, err := c.Mutex("m").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, word)
		require.ErrorContains(t, err, refusing[word].advice+", then try again")
		var said redis.Error
		require.True(t, errors.As(err, &said))
		require.False(t, fixture.Exists(t, s, "m"))

		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err = c.Mutex("m").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, refusing[word].advice)
		got := make(chan error, 1)
		go func() { got <- c.Mutex("m").Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
		require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
		refusing[word].cease(t, s)
		require.NoError(t, bounded.Receive(t, got))
	})
}

// TestTwoServersBehindOneAddressAreToldOfInTheLog: their clocks differ by an hour, and every request may
// meet either.
func TestTwoServersBehindOneAddressAreToldOfInTheLog(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var asked atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "TIME" { // the one whose clock is behind
			asked.Add(1)
			return faultproxy.Answer([]any{[]byte("1700000000"), []byte("0")})
		}
		if strings.HasPrefix(c.Args[0], "EVAL") && len(c.Args[len(c.Args)-1]) == 13 && c.Script == "acquire" && asked.Load()%2 == 1 {
			asked.Add(1) // the other one, once
			return faultproxy.Answer(redis.Error("LATE 1700003600000"))
		}
		return faultproxy.Pass
	})
	var log fixture.Log
	c := fixture.ClientOver(t, p, lock.Config{Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held, err := c.Mutex(fixture.KeyOf(t)).Lock(t.Context())
	require.NoError(t, err)
	require.Contains(t, log.String(), "clock was set")
	require.Contains(t, log.String(), "again and again")
	require.NoError(t, held.Unlock(t.Context()))
}
