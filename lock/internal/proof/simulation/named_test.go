package simulation_test

import (
	"context"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// named is a server behind a name. After a failover the name leads to the heir, which has all that
// the old master had. The old master lives on as a replica that does not hear the heir, and its
// connections do not end. It speaks to whole clients as a node does.
type named struct{ *nodes }

func newNamed(seed uint64, slowest time.Duration) *named {
	stores := newSmall(seed, slowest, 1, false)
	return &named{&nodes{small: stores, conns: map[*nodeConn]bool{}, loaded: map[int]map[string]bool{}}}
}

func (s *named) client(id, _ int, cfg lock.Config) (*lock.Client, []trouble, error) {
	n := newCables(func(context.Context) (net.Conn, error) { return s.connect(0), nil }, s.slowest, s.seed, uint64(id)+10)
	c, err := lock.New(n.pool(), cfg)
	return c, []trouble{n}, err
}

// failOver makes an heir the master.
func (s *named) failOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, heir := s.stores[0], newStore()
	old.mu.Lock()
	defer old.mu.Unlock()
	heir.redis, heir.since = old.redis, old.since
	old.replica, s.stores[0] = true, heir
	delete(s.loaded, 0)
}

const errReplica = redis.Error("READONLY You can't write against a read only replica.")

// removeNothing answers HDEL of a field that does not exist.
func (s *store) removeNothing() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replica {
		return errReplica
	}
	return int64(0)
}

// readLocked carries out a script on a replica. Only a try that takes nothing writes nothing.
func (s *store) readLocked(sc *script.Script, count int, args []any, last time.Time) (any, error) {
	now := s.nowLocked()
	s.redis.Delete(now, "") // it removes the expired keys
	after := s.redis
	reply, _, err := after.Run(now, sc, count, args, last, false, s.hearLocked)
	if !sc.Acquires() || after.String() != s.redis.String() {
		return nil, errReplica
	}
	return reply, err
}
