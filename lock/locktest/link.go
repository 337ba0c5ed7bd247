package locktest

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// Link is the network between one or more clients and a Server. All methods are
// safe for concurrent use.
type Link struct {
	// immutable
	s    *Server
	pool *redis.Pool

	mu     sync.Mutex     // guards the fields below; not held while a connection is made
	cut    bool           // Cut was called, and Mend was not
	cuts   int            // calls of Cut
	conns  []redis.Conn   // the connections; closed ones are dropped at the next dial
	losses []loss         // answers that are still to be lost
	calls  map[string]int // see Calls
}

// loss is an answer that is to be lost.
type loss struct {
	name  string // of the script or command
	hangs bool   // the connection stays open
}

var errCut = errors.New("the link is cut")

// Client returns a client that reaches the server over this link. The client is
// closed when the test ends. Locks that it still holds are not released.
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
		// The test must not wait for locks that are still held.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = client.Close(ctx)
	})
	return client
}

// Pool returns a pool of connections over the link, for a service that makes
// its lock.Client itself. The pool is closed when the test ends. The service
// must have closed its client by then.
func (l *Link) Pool() *redis.Pool {
	l.s.t.Helper()
	l.s.sameTime()
	return l.pool
}

// Cut breaks the link. Its connections end, and new ones are refused until
// Mend. Other links work. When the TTL of a lock that is held over this link
// ends, another client can take the lock. The holder learns before that its
// lock is lost.
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

// CutAfter loses the answer to the next call of name over this link. name is a
// script of package lock, such as "acquire" or "release", or a command in
// capital letters, such as "SET". The server carries the call out, and the
// connection ends in place of the answer. Another CutAfter loses one more
// answer. CutAfter fails the test if package lock has no such script. On a
// connection that has subscribed no answer is lost.
func (l *Link) CutAfter(name string) { l.lose(loss{name: name}) }

// HangAfter is like CutAfter, but the connection stays open. The server carries
// out what is sent over this connection, and the client gets no more answers on
// it until the client closes it.
func (l *Link) HangAfter(name string) { l.lose(loss{name: name, hangs: true}) }

func (l *Link) lose(a loss) {
	l.s.t.Helper()
	if a.name == "" || a.name != strings.ToUpper(a.name) && !slices.ContainsFunc(script.All(), func(s *script.Script) bool { return s.Name() == a.name }) {
		l.s.t.Fatalf("locktest: %q is no script of package lock: use a name from lock/script, or a command in capital letters", a.name)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses = append(l.losses, a)
}

// Calls returns how many calls the server has answered over this link, by the
// name of the script of package lock, or of any other command in capital
// letters. A lost answer counts. A call that a paused server has not answered
// does not count. To count the calls of one operation, subtract the map from
// before it. A client also sends TIME on each of its connections, and renew for
// its leases.
func (l *Link) Calls() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.calls)
}

// count counts a call.
func (l *Link) count(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[name]++
}

// answered counts a call. If the answer must be lost, it returns the loss and true.
func (l *Link) answered(name string) (loss, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[name]++
	i := slices.IndexFunc(l.losses, func(a loss) bool { return a.name == name })
	if i < 0 {
		return loss{}, false
	}
	a := l.losses[i]
	l.losses = slices.Delete(l.losses, i, i+1)
	return a, true
}

func (l *Link) dial(ctx context.Context) (redis.Conn, error) {
	l.mu.Lock()
	cut, cuts := l.cut, l.cuts
	l.mu.Unlock()
	if cut {
		return nil, &net.OpError{Op: "dial", Net: "locktest", Err: errCut}
	}
	dialled, err := l.s.redis.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: dialled, link: l}
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
