package renewer

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/renewal"
)

// renewingConn is a network connection to a server that renews all. It uses no memory of its own.
type renewingConn struct {
	net.Conn // nil, because no other method is called

	mu     sync.Mutex
	wrote  sync.Cond // on mu
	owes   int       // answers that are not read yet
	closed bool
}

func (c *renewingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owes += bytes.Count(p, []byte("EVALSHA"))
	c.wrote.Signal()
	return len(p), nil
}

func (c *renewingConn) Read(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.owes == 0 && !c.closed {
		c.wrote.Wait()
	}
	if c.closed {
		return 0, io.EOF
	}
	for c.owes > 0 && n+4 <= len(p) {
		n += copy(p[n:], "*0\r\n")
		c.owes--
	}
	return n, nil
}

func (c *renewingConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wrote.Signal()
	return nil
}

func (*renewingConn) SetReadDeadline(time.Time) error  { return nil }
func (*renewingConn) SetWriteDeadline(time.Time) error { return nil }
func (*renewingConn) SetDeadline(time.Time) error      { return nil }

// longNamed is a hold of a lock with a long name, so that a batch is longer than what a connection keeps.
type longNamed struct{ hold }

var longName = strings.Repeat("n", 60)

func (*longNamed) Key() string { return longName }

// TestARenewalNeedsNoMemory: to renew many holds again and again makes no work for the garbage
// collector, over connections of this library and of a program's own pool.
func TestARenewalNeedsNoMemory(t *testing.T) {
	const holds, rounds = 2000, 100
	for name, over := range map[string]func(net.Conn) redis.Conn{
		"a connection with limits": func(c net.Conn) redis.Conn { return resp.Over(resp.New(c)) },
		"redigo":                   func(c net.Conn) redis.Conn { return redis.NewConn(c, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(configOf(time.Minute, func(error) {}, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
					c := &renewingConn{}
					c.wrote.L = &c.mu
					return pipe.Connection{Conn: over(c)}, nil
				}))
				defer r.Close()
				dog, err := renewal.New(renewal.Config{TTL: 30 * time.Second, Dispatchers: 1})
				require.NoError(t, err)
				defer dog.Close()
				lane, err := dog.Lane("s", r)
				require.NoError(t, err)
				all := make([]longNamed, holds)
				for i := range all {
					require.NoError(t, lane.Hold(&all[i].lease, &all[i], renewal.Terms{Stamp: time.Now(), TTL: 30 * time.Second}))
				}
				time.Sleep(5 * time.Minute) // buffers grow
				var before, after runtime.MemStats
				renewed := dog.Stats().Renewed
				runtime.ReadMemStats(&before)
				time.Sleep(rounds * 10 * time.Second)
				runtime.ReadMemStats(&after)
				renewed = dog.Stats().Renewed - renewed
				require.Greater(t, renewed, uint64(holds*rounds/2))
				require.Less(t, float64(after.Mallocs-before.Mallocs)/float64(renewed), 0.1, "allocations a renewal")
				require.Less(t, float64(after.TotalAlloc-before.TotalAlloc)/float64(renewed), 16., "bytes a renewal")
			})
		})
	}
}
