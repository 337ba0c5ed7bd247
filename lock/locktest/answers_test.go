package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// since returns the calls in now that are not in before, except TIME.
func since(before, now map[string]int) map[string]int {
	diff := map[string]int{}
	for name, n := range now {
		if name != "TIME" && n != before[name] { // a client has several connections, and asks on each
			diff[name] = n - before[name]
		}
	}
	return diff
}

// losing runs test twice, each time in a bubble and with another way to lose an answer.
func losing(t *testing.T, test func(t *testing.T, srv *locktest.Server, link *locktest.Link, lose func(string), hangs bool)) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs=%t", hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				link := srv.Link()
				lose := link.CutAfter
				if hangs {
					lose = link.HangAfter
				}
				test(t, srv, link, lose, hangs)
			})
		})
	}
}

// requireNothingLeft waits until the client has released everything by itself, which takes much less
// than a lease, and checks that no lock is left.
func requireNothingLeft(t *testing.T, srv *locktest.Server) {
	t.Helper()
	time.Sleep(10 * time.Second)
	require.Empty(t, srv.Locks())
}

// TestALockWhoseAnswerIsLostIsTakenOnce: Lock goes on with a new field, and the old one is gone.
func TestALockWhoseAnswerIsLostIsTakenOnce(t *testing.T) {
	losing(t, func(t *testing.T, srv *locktest.Server, link *locktest.Link, lose func(string), hangs bool) {
		client := link.Client(lock.Config{})
		lose("acquire")
		began := time.Now()
		held, err := client.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		took := time.Since(began)
		if hangs {
			require.GreaterOrEqual(t, took, lock.DefaultIOTimeout)
		}
		require.Less(t, took, lock.DefaultIOTimeout+100*time.Millisecond)
		require.Equal(t, 2, link.Calls()["acquire"])
		fields, err := redis.Int(srv.Do("HLEN", "job"))
		require.NoError(t, err)
		require.Equal(t, 1, fields, "the hold whose answer was lost is gone")
		require.NoError(t, held.Unlock(t.Context()))
		requireNothingLeft(t, srv)
	})
}

// TestATryWhoseAnswerIsLostIsUnknown: the client releases the lock that the server granted.
func TestATryWhoseAnswerIsLostIsUnknown(t *testing.T) {
	losing(t, func(t *testing.T, srv *locktest.Server, link *locktest.Link, lose func(string), _ bool) {
		client := link.Client(lock.Config{FailFast: true})
		for _, take := range []func(context.Context) (*lock.Held, error){client.Mutex("job").TryLock, client.Mutex("job").Lock} {
			lose("acquire")
			_, err := take(t.Context())
			require.ErrorIs(t, err, lock.ErrUnknown)
			requireNothingLeft(t, srv)
			held, err := srv.Client(lock.Config{}).Mutex("job").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, held.Unlock(t.Context()))
		}
		require.Equal(t, 2, link.Calls()["acquire"])
	})
}

// TestAnUnlockWhoseAnswerIsLostIsSentAgain: the lock is free, and Unlock says so.
func TestAnUnlockWhoseAnswerIsLostIsSentAgain(t *testing.T) {
	losing(t, func(t *testing.T, srv *locktest.Server, link *locktest.Link, lose func(string), _ bool) {
		held, err := link.Client(lock.Config{}).Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		lose("release")
		require.NoError(t, held.Unlock(t.Context()))
		require.Equal(t, 2, link.Calls()["release"])
		require.Empty(t, srv.Locks())
	})
}

// TestARenewalWhoseAnswerIsLostLosesNoLock: it is sent again in time.
func TestARenewalWhoseAnswerIsLostLosesNoLock(t *testing.T) {
	losing(t, func(t *testing.T, _ *locktest.Server, link *locktest.Link, lose func(string), _ bool) {
		held, err := link.Client(lock.Config{}).Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		lose("renew")
		time.Sleep(time.Minute)
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// TestAnswersOfACommandOfTheServiceAreLostToo: each call of CutAfter or HangAfter loses one answer.
func TestAnswersOfACommandOfTheServiceAreLostToo(t *testing.T) {
	losing(t, func(t *testing.T, srv *locktest.Server, link *locktest.Link, lose func(string), hangs bool) {
		ways := []func(redis.Conn) (any, error){
			func(c redis.Conn) (any, error) { return c.Do("incr", "n") },
			func(c redis.Conn) (any, error) { return redis.DoWithTimeout(c, time.Second, "INCR", "n") },
			func(c redis.Conn) (any, error) { return redis.DoContext(c, t.Context(), "INCR", "n") },
			func(c redis.Conn) (any, error) {
				if err := c.Send("INCR", "n"); err != nil {
					return nil, err
				}
				return c.Do("")
			},
			func(c redis.Conn) (any, error) {
				if err := c.Send("INCR", "n"); err != nil {
					return nil, err
				}
				return c.Do("PING")
			},
			func(c redis.Conn) (any, error) {
				if err := c.Send("INCR", "n"); err != nil {
					return nil, err
				}
				if err := c.Flush(); err != nil {
					return nil, err
				}
				return redis.ReceiveWithTimeout(c, time.Second)
			},
			func(c redis.Conn) (any, error) {
				if err := c.Send("INCR", "n"); err != nil {
					return nil, err
				}
				if err := c.Flush(); err != nil {
					return nil, err
				}
				return redis.ReceiveContext(c, t.Context())
			},
		}
		for i, do := range ways {
			lose("INCR")
			conn := link.Pool().Get()
			began := time.Now()
			_, err := conn.Do("PING")
			require.NoError(t, err)
			_, err = do(conn)
			require.Error(t, err, "way %d", i)
			require.Error(t, conn.Err())
			require.Equal(t, hangs, time.Since(began) > 0, "it waits if and only if the connection stays open")
			_ = conn.Close()
			conn = link.Pool().Get()
			_, err = do(conn)
			require.NoError(t, err, "way %d", i)
			require.NoError(t, conn.Close())
		}
		n, err := redis.Int(srv.Do("GET", "n"))
		require.NoError(t, err)
		require.Equal(t, 2*len(ways), n, "the server has carried all out")
		require.Equal(t, map[string]int{"INCR": n, "PING": len(ways) + 2}, link.Calls())
	})
}

// TestALossWaitsForItsAnswer: no answer is lost on a connection that has subscribed or that the server
// does not answer, nor if the server does not know the script.
func TestALossWaitsForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		link := srv.Link()
		conn := link.Pool().Get()
		_, err := conn.Do("INCR", "n")
		require.NoError(t, err)
		require.NoError(t, conn.Send("INCR", "n"))
		_, err = conn.Do("EVALSHA", strings.Repeat("0", 40), 0)
		require.ErrorContains(t, err, "NOSCRIPT")
		require.Equal(t, map[string]int{"INCR": 2}, link.Calls())

		link.CutAfter("PING")
		_, err = conn.Do("SUBSCRIBE", "c")
		require.NoError(t, err)
		_, err = conn.Do("PING")
		require.NoError(t, err)
		_ = conn.Close() // a subscriber may send only few commands
		calls := link.Calls()
		require.Equal(t, []int{1, 1}, []int{calls["SUBSCRIBE"], calls["PING"]})

		for _, ask := range []func(redis.Conn) (any, error){
			func(c redis.Conn) (any, error) { return c.Do("PING") },
			func(c redis.Conn) (any, error) {
				if err := c.Send("PING"); err != nil {
					return nil, err
				}
				return nil, errors.Join(c.Flush(), func() error { _, err := c.Receive(); return err }())
			},
		} {
			conn = link.Pool().Get()
			_, err = conn.Do("INCR", "n")
			require.NoError(t, err)
			srv.Pause()
			_, err = ask(conn)
			require.ErrorContains(t, err, "timeout")
			_ = conn.Close()
			srv.Resume()
		}
		require.Equal(t, map[string]int{"INCR": 2}, since(calls, link.Calls()))

		conn = link.Pool().Get()
		_, err = conn.Do("PING")
		require.ErrorIs(t, err, io.EOF)
		_ = conn.Close()
	})
}

// TestCallsAreWhatTheServerCarriedOut: each counts once, also the first call of a script, which is sent
// again because the server does not know the script.
func TestCallsAreWhatTheServerCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		link := srv.Link()
		client, other := link.Client(lock.Config{}), srv.Client(lock.Config{})
		job := func() {
			held, err := client.Mutex("job").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, held.Unlock(t.Context()))
		}
		job()
		require.Equal(t, 1, link.Calls()["acquire"])
		before := link.Calls()
		job()
		require.Equal(t, map[string]int{"acquire": 1, "release": 1}, since(before, link.Calls()))

		held, err := other.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		_, err = client.Mutex("job").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, held.Unlock(t.Context()))
		require.Equal(t, 3, link.Calls()["acquire"])
		require.Equal(t, 4, srv.Calls()["acquire"], "of all links")
		_, err = srv.Do("PING")
		require.NoError(t, err)
		require.Zero(t, srv.Calls()["PING"], "the test's own")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, srv.Client(lock.Config{}).Mutex("w").Do(t.Context(), func(context.Context, *lock.Held) error {
			_, err := client.Mutex("w").Lock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			return nil
		}))
		require.Equal(t, 1, link.Calls()["SUBSCRIBE"])
		srv.Pause()
		_, err = client.Mutex("job").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrUnknown)
		synctest.Wait() // its connection has ended
		before = link.Calls()
		srv.Resume()
		time.Sleep(time.Second)
		require.NotContains(t, since(before, link.Calls()), "acquire", "its connection was given up")
	})
}

func TestALossOfNoScriptFailsTheTest(t *testing.T) {
	for _, name := range []string{"acquired", "", "Set"} {
		tt := &fakeT{}
		link := locktest.NewServer(tt).Link()
		require.Panics(t, func() { link.CutAfter(name) })
		require.Contains(t, tt.fatal, fmt.Sprintf("%q is no script", name))
		tt.end()
	}
}
