package simulation_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/proof/twin"
	"github.com/wheellock/wheellock/lock/script"
)

// store is a server of a small world: the twins of the scripts, its clock, and its subscribers. It
// carries out a request at once. The links to it take time.
type store struct {
	// immutable
	cluster *slots // the slots of its Cluster; nil without a Cluster
	number  int    // of the store in its Cluster

	mu      sync.Mutex    // guards what follows; never held at a point
	ahead   time.Duration // by how much its clock is ahead
	redis   twin.Redis
	heard   map[listener]map[string]bool // the channels that each connection has subscribed to
	conns   []listener                   // in their order
	links   []*link
	past    []state   // of the last second
	runs    int       // how often it was restarted
	since   time.Time // when it was started last
	heir    bool      // it is a replica that was promoted
	replica bool      // it was a master
}

// listener is a connection that messages go to.
type listener interface {
	push(kind, channel string, what any)
	Err() error
}

// ofShard is the prefix of the names of channels that are subscribed by SSUBSCRIBE.
const ofShard = "shard "

// state has the keys of a store before the script that it ran at some time.
type state struct {
	at    time.Time
	redis twin.Redis
}

func newStore() *store {
	// Its uptime is an hour.
	return &store{heard: map[listener]map[string]bool{}, since: time.Now().Add(-time.Hour)}
}

// small are servers for clients that are complete except for their connections.
type small struct {
	stores  []*store
	cluster *slots // nil without
	seed    uint64
	slowest time.Duration
}

// newSmall makes the servers, which are a Cluster or independent.
func newSmall(seed uint64, slowest time.Duration, servers int, cluster bool) *small {
	s := &small{seed: seed, slowest: slowest}
	for range servers {
		s.stores = append(s.stores, newStore())
	}
	if cluster {
		s.cluster = &slots{stores: s.stores, spread: true, at: map[int]int{}, goes: map[int]int{}, came: map[arrival]time.Time{}}
		for i, st := range s.stores {
			st.cluster, st.number = s.cluster, i
		}
	}
	return s
}

// of returns the store that has a key. Without a Cluster, it is the first store.
func (s *small) of(key string) *store {
	if s.cluster == nil {
		return s.stores[0]
	}
	slot := keys.Slot(key)
	from, to, moving := s.cluster.moving(slot)
	if !moving {
		return s.stores[from]
	}
	st := s.stores[from]
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.redis.Exists(st.nowLocked(), key) {
		return st
	}
	return s.stores[to]
}

func (s *small) client(id, server int, cfg lock.Config) (*lock.Client, []trouble, error) {
	to := func(server int) *link {
		return newLink(fmt.Sprintf("link %d.%d", id, server), s.stores[server], s.slowest, s.seed, uint64(id)+10+1000*uint64(server))
	}
	if s.cluster == nil {
		l := to(server)
		c, err := lock.NewTopology(l, cfg)
		return c, []trouble{l}, err
	}
	var links []*link
	var ways []trouble
	for i := range s.stores {
		l := to(i)
		links, ways = append(links, l), append(ways, l)
	}
	c, err := lock.NewTopology(newFleet(s.cluster, links), cfg)
	return c, ways, err
}

func (s *small) ask(server int, command string, args ...any) (any, error) {
	switch {
	case s.cluster == nil:
		return s.stores[server].ask(command, args...)
	case command != "PUBSUB":
		return s.of(fmt.Sprint(args[0])).ask(command, args...)
	}
	var all []any
	for _, st := range s.stores {
		more, err := st.ask(command, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, more.([]any)...)
	}
	return all, nil
}

func (s *small) stop() error { return nil }

// nowLocked returns the time on the clock of s.
func (s *store) nowLocked() time.Time { return time.Now().Add(s.ahead) }

// clock returns by how much its clock is ahead.
func (s *store) clock() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ahead
}

// jump sets its clock forward, or back.
func (s *store) jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// run carries out a script, and sends its messages.
func (s *store) run(sc *script.Script, count int, args []any, last time.Time) (any, error) {
	return s.carryOut(sc, count, args, last, false)
}

// carryOut is run, and asking says whether the request came after ASKING.
func (s *store) carryOut(sc *script.Script, count int, args []any, last time.Time, asking bool) (any, error) {
	s.mu.Lock()
	if sc == script.Uptime {
		defer s.mu.Unlock()
		heir := int64(0)
		if s.heir {
			heir = 1
		}
		run := []byte(fmt.Sprintf("%p %d", s, s.runs))
		return []any{int64(time.Since(s.since) / time.Second), run, run, heir}, nil
	}
	if s.replica {
		defer s.mu.Unlock()
		return s.readLocked(sc, count, args, last)
	}
	leaving := false
	if s.cluster != nil {
		from, _, moving := s.cluster.moving(keys.Slot(fmt.Sprint(args[0])))
		leaving = moving && from == s.number
		if err := s.elsewhereLocked(args[:count], asking); err != nil {
			s.mu.Unlock()
			return nil, err
		}
	}
	s.past = append(s.past, state{time.Now(), s.redis})
	if i := slices.IndexFunc(s.past, func(p state) bool { return time.Since(p.at) < time.Second }); i > 1 {
		s.past = slices.Delete(s.past, 0, i-1)
	}
	shard := ""
	if slices.ContainsFunc(args[count:], func(a any) bool { return fmt.Sprint(a) == "spublish" }) {
		shard = ofShard
	}
	reply, told, err := s.redis.Run(s.nowLocked(), sc, count, args, last, leaving, func(channel string) int64 { return s.hearLocked(shard + channel) })
	s.mu.Unlock()
	for _, m := range told {
		s.publish(shard+m.Channel, m.Text)
	}
	if no, ok := err.(twin.Refusal); ok {
		return nil, redis.Error(no)
	}
	return reply, err
}

// restart starts the server again without its data. If late is above 0, a replica takes its place
// instead, without the writes of the last late.
func (s *store) restart(late time.Duration) {
	s.mu.Lock()
	before := s.redis
	s.redis, s.heir = twin.Redis{}, late > 0
	s.runs++
	if late == 0 {
		s.since = time.Now()
	} else {
		s.redis = before
		for _, p := range slices.Backward(s.past) {
			if time.Since(p.at) >= late {
				break
			}
			s.redis = p.redis
		}
	}
	s.past = nil
	s.redis.Delete(s.nowLocked(), guarded) // the oracle has seen the elements that were there
	links := s.links
	s.mu.Unlock()
	for _, l := range links {
		l.cut(0, -1)
	}
}

func (s *store) hearLocked(channel string) int64 { return int64(len(s.listenersLocked(channel))) }

func (s *store) listenersLocked(channel string) (all []listener) {
	for _, c := range s.conns {
		if s.heard[c][channel] {
			all = append(all, c)
		}
	}
	return all
}

// subscribe makes c hear a channel, or not any more.
func (s *store) subscribe(c listener, channel string, hears bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Err() != nil {
		return
	}
	if s.heard[c] == nil {
		s.heard[c] = map[string]bool{}
		s.conns = append(s.conns, c)
	}
	if delete(s.heard[c], channel); hears {
		s.heard[c][channel] = true
	}
}

// forget forgets a connection.
func (s *store) forget(c listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.heard, c)
	s.conns = slices.DeleteFunc(s.conns, func(x listener) bool { return x == c })
}

// publish sends a message to all subscribers, in a Cluster those at every store. A sharded message goes
// only to the subscribers at s.
func (s *store) publish(channel, text string) {
	all, kind := []*store{s}, "message"
	plain, sharded := strings.CutPrefix(channel, ofShard)
	switch {
	case sharded:
		kind = "smessage"
	case s.cluster != nil:
		all = s.cluster.stores
	}
	for _, st := range all {
		st.mu.Lock()
		to := st.listenersLocked(channel)
		st.mu.Unlock()
		for _, c := range to {
			c.push(kind, plain, text)
		}
	}
}

// enter and leave take and release a lock as a client of Redisson does.
func (s *store) enter(key, field string, lease time.Duration) (ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redis.Enter(s.nowLocked(), key, field, lease)
}

func (s *store) leave(key, field string) {
	s.mu.Lock()
	left := s.redis.Leave(s.nowLocked(), key, field)
	s.mu.Unlock()
	if left {
		s.publish(keys.Channel(key), "0")
	}
}

// setNew and unset take and release a lock as a client does that has only SET NX.
func (s *store) setNew(key, value string, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redis.SetNew(s.nowLocked(), key, value, lease)
}

func (s *store) unset(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis.Text(s.nowLocked(), key) == value {
		s.redis.Delete(s.nowLocked(), key)
	}
}

// ask implements server. An oracle, or somebody outside of the clients, sends the command.
func (s *store) ask(command string, args ...any) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, key := s.nowLocked(), ""
	if len(args) > 0 {
		key = fmt.Sprint(args[0])
	}
	fields, ttl := s.redis.Fields(now, key)
	number := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	switch command {
	case "EXISTS":
		return number(s.redis.Exists(now, key)), nil
	case "DEL":
		return number(s.redis.Delete(now, key)), nil
	case "SET":
		s.redis.SetText(now, key, fmt.Sprint(args[1]))
		return "OK", nil
	case "GET":
		return []byte(s.redis.Text(now, key)), nil
	case "PTTL":
		switch {
		case !s.redis.Exists(now, key):
			return int64(-2), nil
		case ttl < 0:
			return int64(-1), nil
		}
		return ttl.Milliseconds(), nil
	case "HKEYS", "LRANGE", "HGETALL":
		var all []any
		for _, f := range fields {
			all = append(all, []byte(f))
		}
		return all, nil
	case "KEYS":
		var all []any
		for _, name := range s.redis.Keys(now) {
			all = append(all, []byte(name))
		}
		return all, nil
	case "ZCARD":
		return int64(len(fields)), nil
	case "ZCOUNT": // up to a score
		var n int64
		for _, f := range fields {
			n += number(int64(s.redis.Score(now, key, f)) <= args[2].(int64))
		}
		return n, nil
	case "PUBSUB":
		all := map[string]bool{}
		for _, c := range s.conns {
			maps.Copy(all, s.heard[c])
		}
		var names []any
		for _, name := range slices.Sorted(maps.Keys(all)) {
			names = append(names, []byte(name))
		}
		return names, nil
	}
	return nil, fmt.Errorf("the store does not know %s", command)
}
