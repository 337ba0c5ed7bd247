package locktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

// TB has the methods of *testing.T and *testing.B that this package needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Server is a Redis in the test's memory. All methods are safe for concurrent
// use.
type Server struct {
	// immutable
	t     TB
	redis *memredis.Server
	began time.Time // on the clock of the bubble, if the Server was made in a bubble

	mu    sync.Mutex // guards links
	links []*Link
}

// New returns a client of a new server, for a test that needs only a client.
// Client and server end with the test.
func New(t TB, cfg lock.Config) *lock.Client {
	t.Helper()
	return NewServer(t).Client(cfg)
}

// NewServer starts an empty server, which ends with the test. If it is called
// in a testing/synctest bubble, the server belongs to the bubble.
func NewServer(t TB) *Server {
	t.Helper()
	// Redis also counts TTLs in milliseconds.
	r, err := memredis.Start(memredis.Config{Resolution: time.Millisecond})
	if err != nil {
		t.Fatalf("locktest: %v", err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	return &Server{t: t, redis: r, began: time.Now().Round(0)}
}

// Client returns a client on a Link of its own, like a client in another
// process. The client is closed when the test ends. Locks that it still holds
// are not released.
func (s *Server) Client(cfg lock.Config) *lock.Client {
	s.t.Helper()
	return s.Link().Client(cfg)
}

// Link returns a new link to the server, which can be cut.
func (s *Server) Link() *Link {
	s.t.Helper()
	s.sameTime()
	l := &Link{s: s, calls: map[string]int{}}
	s.mu.Lock()
	s.links = append(s.links, l)
	s.mu.Unlock()
	l.pool = &redis.Pool{DialContext: l.dial}
	s.t.Cleanup(func() { _ = l.pool.Close() })
	return l
}

// sameTime fails the test if it is called in a synctest bubble and the server was made outside. The
// clock of a bubble begins in 2000. So TTLs would never end or would end at once, and the test
// would hang or fail somewhere else.
func (s *Server) sameTime() {
	s.t.Helper()
	if s.began.Sub(time.Now().Round(0)) > time.Hour {
		s.t.Fatalf("locktest: the Server was made outside the synctest bubble of its client, so their clocks differ: call NewServer inside the function that synctest.Test runs")
	}
}

// Locks returns the sorted names of each Mutex, FencedMutex, FairMutex and
// RWMutex that is held. Each name includes Config.KeyPrefix. Semaphores and
// latches are not listed. Locks fails the test while the server is paused.
func (s *Server) Locks() []string {
	s.t.Helper()
	conn, err := s.redis.DialContext(context.Background())
	if err != nil {
		s.t.Fatalf("locktest: %v", err)
		return nil
	}
	defer conn.Close()
	all, err := redis.Strings(conn.Do("KEYS", "*"))
	names := []string{}
	for _, key := range all {
		if keys.IsBeside(key) {
			continue
		}
		kind, typeErr := redis.String(conn.Do("TYPE", key))
		if typeErr != nil {
			err = typeErr
		}
		if kind == "hash" {
			names = append(names, key)
		}
	}
	if err != nil {
		s.t.Fatalf("locktest: %v", err)
	}
	slices.Sort(names)
	return names
}

// Calls returns the sums of Link.Calls of all clients and links. The calls of
// the test itself, such as Do and Locks, are not counted.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	links := slices.Clone(s.links)
	s.mu.Unlock()
	sums := map[string]int{}
	for _, l := range links {
		for name, n := range l.Calls() {
			sums[name] += n
		}
	}
	return sums
}

// Delete takes a lock away from its holder, as a DEL by hand, an eviction or a
// failover does. It reports whether the lock was held. Another client can take
// the lock at once. The holder learns it at its next renewal, within a third of
// its lease and a round trip. name includes Config.KeyPrefix.
func (s *Server) Delete(name string) bool {
	s.t.Helper()
	n, err := redis.Int(s.Do("DEL", name))
	if err != nil {
		s.t.Fatalf("locktest: %v", err)
	}
	return n > 0
}

// Do sends the server a command over a connection of its own.
func (s *Server) Do(command string, args ...any) (any, error) {
	conn, err := s.redis.DialContext(context.Background())
	if err != nil {
		return nil, fmt.Errorf("locktest: %w", err)
	}
	defer conn.Close()
	return conn.Do(command, args...)
}

// Pause makes the server silent until Resume. Connections stay open, no call is
// answered, and TTLs run on. Calls that are sent meanwhile are executed at
// Resume.
func (s *Server) Pause() { s.must(s.redis.Pause()) }

// Resume ends Pause.
func (s *Server) Resume() { s.must(s.redis.Resume()) }

// Restart cuts all connections and continues with an empty server, like a
// server that saves nothing.
func (s *Server) Restart() { s.must(s.redis.Restart(context.Background())) }

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("locktest: %v", err)
	}
}
