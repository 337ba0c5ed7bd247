package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// errNobody is the error of a dial to a server that refuses connections.
var errNobody = errors.New("connection refused")

// closedConn is a connection that its server has closed after it had accepted it.
func closedConn() (redis.Conn, error) {
	ours, theirs := net.Pipe()
	theirs.Close()
	return redis.NewConn(ours, 0, 0), nil
}

// unreachable is a virtual server that can be made to take no connections. It counts the dials.
type unreachable struct {
	*redistest.Server
	dial  atomic.Pointer[func() (redis.Conn, error)] // of a server that takes no connections
	dials atomic.Int64
}

func (u *unreachable) client(t *testing.T) *lock.Client {
	return fixture.Client(t, &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		u.dials.Add(1)
		if dial := u.dial.Load(); dial != nil {
			return (*dial)()
		}
		return u.DialContext(ctx)
	}}, lock.Config{})
}

// TestAServerThatTakesNoConnectionsIsDialledSeldom, however many callers wait for it, and each
// caller is told the cause. When the server is back, it is found soon.
func TestAServerThatTakesNoConnectionsIsDialledSeldom(t *testing.T) {
	const many, during, after = 20, 20 * time.Second, 2 * time.Second // dials of a burst; virtual times
	ctx := context.Background()
	for way, dial := range map[string]func() (redis.Conn, error){
		"refuses": func() (redis.Conn, error) { return nil, errNobody },
		"closes":  closedConn,
	} {
		unsent := func(t *testing.T, err error) {
			if way == "refuses" { // else the request was written
				require.ErrorIs(t, err, lock.ErrNotSent)
				require.ErrorIs(t, err, errNobody)
				require.NotErrorIs(t, err, lock.ErrUnknown)
			} else {
				require.True(t, fixture.NoAnswer(err), err)
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
		run("many=12500", func(t *testing.T, u *unreachable, c *lock.Client) {
			u.dial.Store(&dial)
			for _, try := range c.TryLockMany(ctx, fixture.Names("", 12500)) {
				unsent(t, try.Err)
			}
			t.Logf("%d dials", u.dials.Load())
			require.LessOrEqual(t, u.dials.Load(), int64(many))
		})
		run("lost=3000", func(t *testing.T, u *unreachable, c *lock.Client) {
			tries := c.TryLockMany(ctx, fixture.Names("", 3000))
			u.dial.Store(&dial)
			require.NoError(t, u.Kill())
			most := 0.0
			for _, lasts := range []time.Duration{lock.DefaultLease, time.Minute} { // renewals have pauses of their own
				u.dials.Store(0)
				time.Sleep(lasts)
				most = float64(u.dials.Load()) / lasts.Seconds()
				t.Logf("%.1f dials a second", most)
			}
			require.LessOrEqual(t, most, 3.0)
			for _, try := range tries {
				require.ErrorIs(t, try.Held.Err(), lock.ErrLost)
			}
		})
	}
}
