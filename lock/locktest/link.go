package locktest

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// Link is the network between one or more clients and a Server. All methods are
// safe for concurrent use.
type Link struct {
	// immutable
	s    *Server
	pool *redis.Pool

	mu    sync.Mutex   // guards what follows; not held while a connection is made
	cut   bool         // Cut was called, and Mend was not
	cuts  int          // calls of Cut
	conns []redis.Conn // those that were not known to be closed at the last dial
}

var errCut = errors.New("the link is cut")

// Client returns a client that reaches the server over this link. It is closed
// when the test ends; locks that it still holds are not released.
func (l *Link) Client(cfg lock.Config) *lock.Client {
	t := l.s.t
	t.Helper()
	l.s.sameTime()
	client, err := lock.New(l.pool, cfg)
	if err != nil {
		t.Fatalf("locktest: %v", err)
		return nil
	}
	t.Cleanup(func() {
		// Its own end is no reason for a test to wait.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = client.Close(ctx)
	})
	return client
}

// Pool returns a pool of connections over the link, for a service that makes
// its lock.Client itself. It is closed when the test ends. The service must
// have closed its client by then.
func (l *Link) Pool() *redis.Pool { return l.pool }

// Cut breaks the link: its connections end, and new ones are refused until
// Mend. Other links work. So another client can have a lock that was held over
// this link when its TTL has ended; the holder is told before.
func (l *Link) Cut() {
	l.mu.Lock()
	l.cut = true
	l.cuts++
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// Mend ends Cut.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

func (l *Link) dial(ctx context.Context) (redis.Conn, error) {
	l.mu.Lock()
	cut, cuts := l.cut, l.cuts
	l.mu.Unlock()
	if cut {
		return nil, &net.OpError{Op: "dial", Net: "locktest", Err: errCut}
	}
	c, err := l.s.redis.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.cuts != cuts { // while it was made
		l.mu.Unlock()
		_ = c.Close()
		return nil, &net.OpError{Op: "dial", Net: "locktest", Err: errCut}
	}
	l.conns = append(slices.DeleteFunc(l.conns, func(c redis.Conn) bool { return c.Err() != nil }), c)
	l.mu.Unlock()
	return c, nil
}
