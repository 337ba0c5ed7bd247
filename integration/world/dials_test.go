package world_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// errRefused is the error of a refused dial.
var errRefused = errors.New("connection refused")

// closedConn returns a connection that its server has accepted and closed.
func closedConn() (redis.Conn, error) {
	ours, theirs := net.Pipe()
	theirs.Close()
	return redis.NewConn(ours, 0, 0), nil
}

// unreachable is a virtual server that can stop accepting connections. It counts dials.
type unreachable struct {
	*redistest.Server
	dial   atomic.Pointer[func() (redis.Conn, error)] // of a server that takes no connections
	dials  atomic.Int64
	limits limits
}

func (u *unreachable) client(t *testing.T) *lock.Client {
	return fixture.Client(t, u.pool(), lock.Config{})
}

func (u *unreachable) pool() *redis.Pool {
	return &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		u.dials.Add(1)
		if dial := u.dial.Load(); dial != nil {
			return (*dial)()
		}
		conn, err := u.DialContext(ctx)
		if err != nil {
			return nil, err
		}
		return limitsConn{conn.(redis.ConnWithTimeout), &u.limits}, nil
	}}
}

// limits counts the scripts that were sent with a time limit, and the questions about the memory.
type limits struct{ limited, memory atomic.Int64 }

// limitsConn is a connection that counts what is sent.
type limitsConn struct {
	redis.ConnWithTimeout
	sent *limits
}

func (c limitsConn) Send(command string, args ...any) error {
	switch {
	case command == "INFO" && args[0] == "memory":
		c.sent.memory.Add(1)
	case strings.HasPrefix(command, "EVAL") && len(fmt.Sprintf("%s", args[len(args)-1])) >= 12: // a time in ms
		c.sent.limited.Add(1)
	}
	return c.ConnWithTimeout.Send(command, args...)
}

// TestAServerThatTakesNoConnectionsIsDialledSeldom, however many callers wait for it, and each
// caller is told the cause. When the server is back, it is found soon.
func TestAServerThatTakesNoConnectionsIsDialledSeldom(t *testing.T) {
	const many, during, after = 20, 20 * time.Second, 2 * time.Second // dials of a burst; virtual times
	ctx := context.Background()
	for way, dial := range map[string]func() (redis.Conn, error){
		"refuses": func() (redis.Conn, error) { return nil, errRefused },
		"closes":  closedConn,
	} {
		unsent := func(t *testing.T, err error) {
			require.ErrorIs(t, err, lock.ErrNotSent)
			require.NotErrorIs(t, err, lock.ErrUnknown)
			if way == "refuses" {
				require.ErrorIs(t, err, errRefused)
			} else {
				require.ErrorContains(t, err, "closed pipe")
			}
		}
		run := func(name string, f func(t *testing.T, u *unreachable, c *lock.Client)) {
			t.Run(way+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := &unreachable{Server: fixture.Virtual(t)}
					f(t, u, u.client(t))
				})
			})
		}
		for _, n := range []int{1, 10, 100, 300} {
			run(fmt.Sprintf("waiting=%d", n), func(t *testing.T, u *unreachable, c *lock.Client) {
				u.dial.Store(&dial)
				ctx, cancel := context.WithTimeout(ctx, during)
				defer cancel()
				errs := make([]error, n)
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() { _, errs[i] = c.Mutex(fmt.Sprint(i)).Lock(ctx) })
				}
				all.Wait()
				t.Logf("%.1f dials a second", float64(u.dials.Load())/during.Seconds())
				require.LessOrEqual(t, u.dials.Load(), int64(3*during/time.Second)+many)
				for _, err := range errs {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					unsent(t, err)
				}
				u.dial.Store(nil)
				began := time.Now()
				fixture.Hold(t, c.Mutex("x").Lock)
				require.LessOrEqual(t, time.Since(began), after)
			})
		}
		crowd, holds := 12_500, 3000
		if testing.Short() { // every name costs the race detector a millisecond
			crowd, holds = 1250, 300
		}
		run(fmt.Sprintf("many=%d", crowd), func(t *testing.T, u *unreachable, c *lock.Client) {
			u.dial.Store(&dial)
			for _, try := range c.TryLockMany(ctx, fixture.Names("", crowd)) {
				unsent(t, try.Err)
			}
			t.Logf("%d dials", u.dials.Load())
			require.LessOrEqual(t, u.dials.Load(), int64(many))
		})
		run(fmt.Sprintf("lost=%d", holds), func(t *testing.T, u *unreachable, c *lock.Client) {
			tries := c.TryLockMany(ctx, fixture.Names("", holds))
			u.dial.Store(&dial)
			require.NoError(t, u.Kill())
			for _, lasts := range []time.Duration{lock.DefaultLease, time.Minute} { // renewals have pauses of their own
				u.dials.Store(0)
				time.Sleep(lasts)
				most := float64(u.dials.Load()) / lasts.Seconds()
				t.Logf("%.1f dials a second", most)
				require.LessOrEqual(t, most, 3.0)
			}
			for _, try := range tries {
				require.ErrorIs(t, try.Held.Err(), lock.ErrLost)
			}
		})
	}
}

// TestAServerThatWasGoneIsAskedForItsTimeAgain, also if something in front of it accepted connections
// and closed them: nothing was answered, so TIME was not the reason. The log says that Redis cannot be
// reached, and not that TIME or INFO ends connections.
func TestAServerThatWasGoneIsAskedForItsTimeAgain(t *testing.T) {
	for when, first := range map[string]int{"from the beginning": 1, "later": 0} { // the first round
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &unreachable{Server: fixture.Virtual(t)}
				var log fixture.Log
				c := fixture.Client(t, u.pool(), lock.Config{Logger: log.Logger()})
				if first == 0 { // so the client listens
					_, err := fixture.Client(t, u.Pool(0), lock.Config{}).Mutex("taken").LockFor(t.Context(), 24*time.Hour)
					require.NoError(t, err)
					ctx, cancel := context.WithCancel(t.Context())
					var waiter sync.WaitGroup
					waiter.Go(func() { _, _ = c.Mutex("taken").Lock(ctx) })
					defer waiter.Wait()
					defer cancel()
					synctest.Wait()
				}
				dial := closedConn
				for gone := 1; gone <= 3; gone++ {
					if gone > first { // it is renewed, and lost
						_, err := c.Mutex(fmt.Sprint("held", gone)).Lock(t.Context())
						require.NoError(t, err)
					}
					u.dial.Store(&dial)
					require.NoError(t, u.Kill())
					errs := make([]error, 3)
					var all sync.WaitGroup
					for i := range errs {
						all.Go(func() { _, errs[i] = c.Mutex(fmt.Sprint("waiting", gone, i)).Lock(t.Context()) })
					}
					time.Sleep(3*time.Minute + 13*time.Second)
					synctest.Wait()
					require.Equal(t, gone, strings.Count(log.String(), "no connection to Redis"), log.String())
					require.Equal(t, gone-1, strings.Count(log.String(), "connected to Redis again"), log.String())
					limited := u.limits.limited.Load()
					require.NoError(t, u.Restart(t.Context()))
					u.dial.Store(nil)
					all.Wait()
					require.Equal(t, make([]error, len(errs)), errs)
					require.GreaterOrEqual(t, u.limits.limited.Load(), limited+int64(len(errs)))
					require.EqualValues(t, 1, u.limits.memory.Load())
				}
				require.NotContains(t, log.String(), "no time limit")
				require.NotContains(t, log.String(), "INFO memory")
			})
		})
	}
}

// slowConn is a connection whose Close takes long once it has sent a command, as it may
// with TLS. It can hold back the answer to the command.
type slowConn struct {
	redis.ConnWithTimeout
	after    string        // the command after which it is slow
	sent     chan struct{} // of capacity 1: a token says that it was sent
	answered chan struct{} // closed when the answer may come
	closing  chan struct{} // of capacity 1: a token says that Close was called
	closed   chan struct{} // closed when Close may go on

	mu   sync.Mutex // guards what follows
	slow bool
}

func putToken(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (c *slowConn) isSlow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow
}

func (c *slowConn) Send(cmd string, args ...any) error {
	if cmd == c.after {
		c.mu.Lock()
		c.slow = true
		c.mu.Unlock()
	}
	return c.ConnWithTimeout.Send(cmd, args...)
}

func (c *slowConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(d)
	if c.isSlow() {
		putToken(c.sent)
		<-c.answered
	}
	return reply, err
}

func (c *slowConn) Close() error {
	if c.isSlow() {
		putToken(c.closing)
		<-c.closed
	}
	return c.ConnWithTimeout.Close()
}

func TestNobodyWaitsForAConnectionToClose(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	closed := func() chan struct{} { c := make(chan struct{}); close(c); return c }()
	for _, test := range []struct {
		name     string
		after    string
		replicas int
		answered chan struct{}
	}{
		{"one in use, when the server is replaced", "WAIT", 1, closed},
		{"one just made, when the server is replaced", "INFO", 0, make(chan struct{})},
		{"one just made for replicas, when the server is replaced", "INFO", 1, make(chan struct{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			slow := slowConn{
				after: test.after, sent: make(chan struct{}, 1), answered: test.answered,
				closing: make(chan struct{}, 1), closed: make(chan struct{}),
			}
			release := sync.OnceFunc(func() { close(slow.closed) })
			top := fixture.NewShifting(func(ctx context.Context) (redis.Conn, error) {
				conn, err := s.DialContext(ctx)
				if err != nil {
					return nil, err
				}
				return &slowConn{
					ConnWithTimeout: conn.(redis.ConnWithTimeout),
					after:           slow.after, sent: slow.sent, answered: slow.answered, closing: slow.closing, closed: slow.closed,
				}, nil
			})
			c := fixture.Client(t, top, lock.Config{Replicas: test.replicas, Connections: 1, ReplicaTimeout: time.Duration(test.replicas) * time.Millisecond})
			defer release()
			first := make(chan struct{})
			go func() {
				defer close(first)
				_, _ = c.Mutex(t.Name() + "1").TryLock(bounded.Context(t))
			}()
			bounded.Receive(t, slow.sent)
			if test.answered == closed {
				bounded.Receive(t, first)
			}
			become := make(chan struct{})
			go func() {
				defer close(become)
				top.Become("second")
			}()
			if test.answered != closed {
				bounded.Receive(t, become)
				close(test.answered)
			}
			bounded.Receive(t, slow.closing)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			second := make(chan error, 1)
			go func() {
				_, err := c.Mutex(t.Name() + "2").TryLock(ctx)
				second <- err
			}()
			select {
			case <-second: // its result does not matter
			case <-time.After(time.Minute):
				release()
				t.Error("TryLock waits for a connection to close")
			}
			release()
			bounded.Receive(t, first)
			bounded.Receive(t, become)
		})
	}
}

// TestAReadIsRepeatedOnceWhenItsFlowIsForgotten, as by a NAT that drops the packets of a
// connection that was idle for long. A call that changes something is not repeated.
func TestAReadIsRepeatedOnceWhenItsFlowIsForgotten(t *testing.T) {
	t.Parallel()
	p := fixture.Proxy(t, fixture.RedisOrMini(t), nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 2 * time.Second})
	ctx := bounded.Context(t)
	for what, read := range map[string]func() error{
		"inspect": func() error { _, err := c.Mutex("m").IsLocked(ctx); return err },
		"count":   func() error { _, err := c.Semaphore("s").Available(ctx); return err },
	} {
		require.NoError(t, read())
		p.HoldFlowOf(what)
		require.NoError(t, read(), what)
		require.Equal(t, 1, p.CountHeldFlows(), "the first request got lost")
		p.Heal()
	}
	fixture.Hold(t, c.Mutex("m").TryLock)
	p.HoldFlowOf("acquire")
	_, err := c.Mutex("n").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrUnknown)
}

// TestALongWayIsDialledWithTheDefaults: TLS, a login, a name and a database take six round trips
// and more.
func TestALongWayIsDialledWithTheDefaults(t *testing.T) {
	t.Parallel()
	s := fixture.Secure(t)
	link := fixture.Link(t, 300*time.Millisecond)
	fixture.Do(t, s.Server, "CONFIG", "SET", "requirepass", "s3cret")
	to := url.URL{Scheme: "rediss", User: url.UserPassword("default", "s3cret"), Host: s.SecureAddr, Path: "/3", RawQuery: "client_name=far"}
	c, err := lock.Endpoint{URL: to.String(), TLS: s.Client, NetDial: link.Dial}.Open(lock.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { fixture.CloseNow(c) })
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// connectionsOf returns the number of a user's connections. A client's first Lock makes one.
func connectionsOf(t *testing.T, conn redis.Conn, user string) (n int) {
	t.Helper()
	fixture.NeedAbilities(t, redistest.Users)
	list, err := redis.String(conn.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	for _, word := range strings.Fields(list) {
		if word == "user="+user {
			n++
		}
	}
	return n
}

// TestConnectionsForRenewalAreDialledWithTheFirstHold that is renewed, and not with others.
func TestConnectionsForRenewalAreDialledWithTheFirstHold(t *testing.T) {
	s := fixture.Server(t)
	conn := fixture.Dial(t, s)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute})
	fixed, err := c.Mutex("fixed").LockFor(t.Context(), time.Minute)
	require.NoError(t, err)
	before := connectionsOf(t, conn, "default")
	held := fixture.Hold(t, c.Mutex("m").Lock)
	bounded.Until(t, func() bool { return connectionsOf(t, conn, "default") >= before+2 })
	require.Zero(t, c.Stats().Renewal.Renewed, "none was needed yet")
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, fixed.Unlock(t.Context()))

	extended := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute})
	fixed, err = extended.Mutex("fixed").LockFor(t.Context(), time.Minute)
	require.NoError(t, err)
	before = connectionsOf(t, conn, "default")
	inner, err := extended.Mutex("fixed").Lock(fixed.Context(t.Context())) // wants renewal
	require.NoError(t, err)
	bounded.Until(t, func() bool { return connectionsOf(t, conn, "default") >= before+2 })
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, fixed.Unlock(t.Context()))
}

// TestAPasswordThatIsChangedAfterTheFirstLockLosesNoHold: connections stay logged in,
// and the connections for renewal are made with the first lock.
func TestAPasswordThatIsChangedAfterTheFirstLockLosesNoHold(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.Users)
	s := fixture.Server(t)
	conn := fixture.Dial(t, s)
	setPassword := func(password string) {
		fixture.SetUser(t, s, "rotated", "reset", "on", ">"+password, "allkeys", "allchannels", "+@all")
	}
	setPassword("first")
	host, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	c, err := lock.Open("redis://rotated:first@"+net.JoinHostPort(host, port), lock.Config{Lease: 6 * time.Second}) // a busy machine dials slowly
	require.NoError(t, err)
	t.Cleanup(func() { fixture.CloseNow(c) })
	held := fixture.Hold(t, c.Mutex("m").Lock)
	bounded.Until(t, func() bool { return connectionsOf(t, conn, "rotated") >= 3 })
	setPassword("second")
	renewed := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool { return held.Err() != nil || c.Stats().Renewal.Renewed >= renewed+4 })
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(t.Context()))
}

// TestAReEntryPausesWhileRedisIsGone: a server that refuses connections does so at once,
// so without pauses a re-entry dials as often as it can until its hold is lost.
func TestAReEntryPausesWhileRedisIsGone(t *testing.T) {
	for name, kind := range map[string]func(c *lock.Client) *lock.Mutex{
		"Mutex":     func(c *lock.Client) *lock.Mutex { return c.Mutex("m") },
		"FairMutex": func(c *lock.Client) *lock.Mutex { return c.FairMutex("m") },
		"RWMutex":   func(c *lock.Client) *lock.Mutex { return c.RWMutex("m").Writer() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := locktest.NewServer(t).Link()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var failed atomic.Int64
				pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
					c, err := link.Pool().DialContext(ctx)
					if err != nil && failed.Add(1) == 1000 {
						cancel() // otherwise the test would never end, because virtual time stands still
					}
					return c, err
				}}
				c := fixture.Client(t, pool, lock.Config{})
				held, err := kind(c).LockFor(ctx, time.Minute)
				require.NoError(t, err)
				link.Cut()
				again, stop := context.WithTimeout(held.Context(ctx), 20*time.Second)
				defer stop()
				_, err = kind(c).LockFor(again, time.Minute)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Less(t, failed.Load(), int64(200))
				link.Mend()
				require.NoError(t, held.Unlock(ctx))
			})
		})
	}
}
