package servers_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/topology"
)

// replica is a connection to a server that answers commands that only read, and then refuses the
// next script, unless it is a master.
type replica struct {
	redis.Conn // nil: nothing else of it is called
	master     *atomic.Bool
	refuses    redis.Error
	requests   chan string
	scripts    int
	closed     atomic.Bool
}

func (c *replica) Send(cmd string, _ ...any) error { c.requests <- cmd; return nil }
func (c *replica) Flush() error                    { return nil }

func (c *replica) Close() error {
	if !c.closed.Swap(true) {
		c.requests <- "end"
	}
	return nil
}

func (c *replica) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, errors.New("not used")
}

func (c *replica) ReceiveWithTimeout(time.Duration) (any, error) {
	switch <-c.requests {
	case "EVALSHA":
		if c.scripts++; c.scripts > 1 && !c.master.Load() {
			return nil, c.refuses
		}
		return int64(1), nil
	case "end":
		return nil, net.ErrClosed
	}
	return nil, redis.Error("ERR not now")
}

// firstPause is firstPause of backoff.go.
const firstPause = 10 * time.Millisecond

const errReadOnly = redis.Error("READONLY You can't write against a read only replica.")

// TestAReplicaIsDialledAfterGrowingPauses, although its connections answer commands that only read. A
// connection that served for a while is replaced at once, because the next one may find the master.
func TestAReplicaIsDialledAfterGrowingPauses(t *testing.T) {
	for _, refusal := range []redis.Error{errReadOnly, "MOVED 1 host:2"} {
		t.Run(pipe.Code(refusal), func(t *testing.T) { requireGrowingPauses(t, refusal) })
	}
}

func requireGrowingPauses(t *testing.T, refusal redis.Error) {
	synctest.Test(t, func(t *testing.T) {
		var master atomic.Bool
		dials := 0
		f := (&fixture{dial: func(context.Context, string) (redis.Conn, error) {
			dials++
			return &replica{master: &master, refuses: refusal, requests: make(chan string, 10)}, nil
		}}).build(t, false)
		f.follow()
		ask := func() error {
			synctest.Wait() // a connection that was given up has ended
			return f.ask(t.Context(), "k")
		}
		f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}}
		synctest.Wait()
		dials = 0
		for range 2000 { // in 20 s
			if err := ask(); err != nil {
				require.ErrorContains(t, err, string(refusal))
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, dials, 60)

		master.Store(true)
		time.Sleep(time.Minute)
		for range 2 { // the first may find the connection that is left
			require.NoError(t, ask())
		}
		time.Sleep(time.Minute)
		master.Store(false)
		require.ErrorContains(t, ask(), string(refusal))
		require.NoError(t, ask(), "dialled at once")
		require.ErrorContains(t, ask(), string(refusal))
		require.ErrorContains(t, ask(), string(refusal), "the pause")
		for _, pause := range []time.Duration{firstPause, 2 * firstPause} {
			time.Sleep(pause)
			require.NoError(t, ask(), "the pauses begin small")
			require.ErrorContains(t, ask(), string(refusal))
		}
	})
}

// TestAnotherServerIsDialledAtOnce, for commands and for renewal: the failures of the server that it
// replaced do not count.
func TestAnotherServerIsDialledAtOnce(t *testing.T) {
	for name, ask := range map[string]func(*fixture) error{
		"commands": func(f *fixture) error { return f.ask(f.t.Context(), "k") },
		"renewal": func(f *fixture) error {
			_, err := f.router.Server("k").DialRenewal(f.t.Context(), dialing.NewBound(1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				f := (&fixture{dial: func(context.Context, string) (redis.Conn, error) { dials++; return nil, errDown }}).build(t, false)
				f.follow()
				become := func(instance string) {
					f.news <- topology.Layout{Servers: []topology.Server{{Instance: instance}}}
					synctest.Wait()
				}
				become("a")
				dials = 0
				for range 10 {
					require.ErrorIs(t, ask(f), errDown)
				}
				require.LessOrEqual(t, dials, 1, "the others are answered by the first")
				dials = 0
				become("b")
				require.ErrorIs(t, ask(f), errDown)
				require.Equal(t, 1, dials)
			})
		})
	}
}
