package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/topology"
)

// slots says which store of a Cluster has each slot.
type slots struct {
	// immutable
	stores []*store
	spread bool // neighbouring slots are of different stores

	mu   sync.Mutex            // guards what follows; locked after the mutexes of stores
	at   map[int]int           // by slot that was moved, its store
	goes map[int]int           // by slot that is being moved key by key, the store to which it goes
	came map[arrival]time.Time // when a slot last began to move to a store key by key
}

type arrival struct{ slot, store int }

// of returns the number of the store that has a slot.
func (s *slots) of(slot int) int {
	from, _, _ := s.moving(slot)
	return from
}

// moving is of, and also reports whether the slot is being moved key by key, and where to.
func (s *slots) moving(slot int) (from, to int, moving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, moving = s.goes[slot]
	if n, moved := s.at[slot]; moved {
		return n, to, moving
	}
	return s.first(slot), to, moving
}

// first returns the number of the store that has a slot at first.
func (s *slots) first(slot int) int {
	if s.spread {
		return slot % len(s.stores)
	}
	return slot * len(s.stores) / slotsOfCluster
}

// elsewhereLocked returns the error for a request whose keys, all of one slot, are not all here: MOVED if
// another store has the slot, ASK if all keys have gone while the slot is being moved, and TRYAGAIN if
// only some are here. asking says that the request came after ASKING.
func (s *store) elsewhereLocked(names []any, asking bool) error {
	slot := keys.Slot(fmt.Sprint(names[0]))
	from, to, moving := s.cluster.moving(slot)
	switch {
	case !moving && from == s.number:
		return nil
	case !moving, from != s.number && (to != s.number || !asking):
		return elsewhere("MOVED", slot, from)
	}
	missing := 0
	for _, name := range names {
		if !s.redis.Exists(s.nowLocked(), fmt.Sprint(name)) {
			missing++
		}
	}
	switch {
	case missing == 0, from != s.number && len(names) == 1:
		return nil
	case from == s.number && missing == len(names):
		return elsewhere("ASK", slot, to)
	}
	return redis.Error("TRYAGAIN Multiple keys request during rehashing of slot")
}

// underWay is longer than a request can be in flight.
const underWay = 5 * time.Second

// begin begins to move the slot of a key to a store, key by key. It returns false if the slot is there,
// or is being moved, or began to move to that store not long ago. Otherwise a late request after an
// earlier ASKING could arrive while the slot moves there again, and would be answered although its key
// is not there yet. No server and no client can notice that.
func (s *slots) begin(key string, to int) bool {
	slot := keys.Slot(key)
	from, _, moving := s.moving(slot)
	if moving || from == to {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, came := s.came[arrival{slot, to}]; came && time.Since(last) < underWay {
		return false
	}
	s.goes[slot], s.came[arrival{slot, to}] = to, time.Now()
	return true
}

// carry moves one key of a slot that is moving: a random one, or the one with the shortest name,
// which is the lock. It returns false if no key was left: then the slot has been moved.
func (s *slots) carry(slot int, rng *rand.Rand) bool {
	for _, st := range s.stores {
		st.mu.Lock()
	}
	from, to, _ := s.moving(slot)
	a, b := s.stores[from], s.stores[to]
	left := slices.DeleteFunc(a.redis.Keys(a.nowLocked()), func(key string) bool { return keys.Slot(key) != slot })
	if len(left) > 0 {
		slices.SortStableFunc(left, func(a, b string) int { return len(a) - len(b) })
		key := left[rng.IntN(len(left))]
		if rng.IntN(2) == 0 {
			key = left[0]
		}
		a.redis.Carry(a.nowLocked(), &b.redis, b.nowLocked(), func(k string) bool { return k == key })
		for _, st := range s.stores {
			st.mu.Unlock()
		}
		return true
	}
	s.mu.Lock()
	s.at[slot] = to
	delete(s.goes, slot)
	s.mu.Unlock()
	for _, st := range s.stores {
		st.mu.Unlock()
	}
	a.unsubscribe(slot)
	return false
}

// unsubscribe ends the sharded subscriptions of a slot that another store has now.
func (s *store) unsubscribe(slot int) {
	type ended struct {
		c       listener
		channel string
	}
	var all []ended
	s.mu.Lock()
	for _, c := range s.conns {
		for _, name := range slices.Sorted(maps.Keys(s.heard[c])) {
			if channel, sharded := strings.CutPrefix(name, ofShard); sharded && keys.Slot(channel) == slot {
				delete(s.heard[c], name)
				all = append(all, ended{c, channel})
			}
		}
	}
	s.mu.Unlock()
	for _, e := range all {
		e.c.push("sunsubscribe", e.channel, int64(0))
	}
}

// move moves the slot of a key to a store at once, with all its keys, as Redis 8.4 and Valkey 9 do it.
func (s *slots) move(key string, to int) {
	slot := keys.Slot(key)
	from, _, moving := s.moving(slot)
	if from == to || moving {
		return
	}
	a, b := s.stores[from], s.stores[to]
	for _, st := range s.stores {
		st.mu.Lock()
	}
	a.redis.Carry(a.nowLocked(), &b.redis, b.nowLocked(), func(key string) bool { return keys.Slot(key) == slot })
	s.mu.Lock()
	s.at[slot] = to
	s.mu.Unlock()
	for _, st := range s.stores {
		st.mu.Unlock()
	}
	a.unsubscribe(slot)
}

// fleet is the Network of a client of a Cluster, with a link to each store. Its map of slots may be
// old, and then a redirection names the right store.
type fleet struct {
	slots *slots
	links []*link

	// immutable after Connect
	cfg    network.Config
	router *servers.Router // it finds no server
	ctx    context.Context
	cancel context.CancelFunc
	hint   chan struct{} // that the layout is old
	wg     sync.WaitGroup

	mu   sync.Mutex // guards what follows; never held at a point
	view map[int]int
}

var (
	_ network.Connector = (*fleet)(nil)
	_ network.Network   = (*fleet)(nil)
	_ topology.Topology = (*fleet)(nil)
)

func newFleet(s *slots, links []*link) *fleet {
	f := &fleet{slots: s, links: links, hint: make(chan struct{}, 1), view: map[int]int{}}
	for _, l := range links {
		l.fleet = f
	}
	return f
}

// Traits implements topology.Topology.
func (*fleet) Traits() topology.Traits { return topology.Traits{Slots: true} }

// Dial implements topology.Topology.
func (*fleet) Dial(context.Context, string) (redis.Conn, error) {
	return nil, errors.New("a simulation has no connections")
}

// Follow implements topology.Topology.
func (*fleet) Follow(ctx context.Context, _ time.Duration, _ <-chan struct{}, _ func(topology.Layout)) {
	<-ctx.Done()
}

// Connect implements network.Connector.
func (f *fleet) Connect(cfg network.Config) (network.Network, error) {
	f.cfg = cfg
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for _, l := range f.links {
		if _, err := l.Connect(cfg); err != nil {
			return nil, err
		}
	}
	f.router = f.links[0].router
	f.wg.Add(1)
	points.Go(f.links[0].name+" layouts", func() { defer f.wg.Done(); f.follow() })
	return f, nil
}

// follow learns which slots have moved: after a redirection, and from time to time.
func (f *fleet) follow() {
	for {
		timer := time.NewTimer(lease / 2)
		select {
		case <-f.ctx.Done():
		case <-f.hint:
		case <-timer.C:
		}
		timer.Stop()
		// If several channels were ready, select has chosen a random one.
		if f.ctx.Err() != nil {
			return
		}
		select {
		case <-f.hint:
		default:
		}
		points.Here("layout")
		f.slots.mu.Lock()
		changed := false
		f.mu.Lock()
		for slot, to := range f.slots.at {
			changed = changed || f.view[slot] != to+1
			f.view[slot] = to + 1
		}
		f.mu.Unlock()
		f.slots.mu.Unlock()
		if changed {
			f.cfg.Moved()
		}
	}
}

// to returns the link to the store that has a key, as far as the client knows.
func (f *fleet) to(key string) *link {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot := keys.Slot(key)
	if n := f.view[slot]; n > 0 {
		return f.links[n-1]
	}
	return f.links[f.slots.first(slot)]
}

// moved returns the link to which the error MOVED redirects, or nil for any other error. It records the
// new place of the slot.
func (f *fleet) moved(err error) *link {
	said, ok := err.(redis.Error)
	if !ok || !strings.HasPrefix(string(said), "MOVED ") {
		return nil
	}
	words := strings.Fields(string(said))
	slot, _ := strconv.Atoi(words[1])
	to, _ := strconv.Atoi(words[2])
	f.mu.Lock()
	f.view[slot] = to + 1
	f.mu.Unlock()
	select {
	case f.hint <- struct{}{}:
	default:
	}
	return f.links[to]
}

// elsewhere returns the redirection of a store that does not have a key. It has the number of the right
// store, where a real node would give an address.
func elsewhere(how string, slot, to int) error {
	return redis.Error(fmt.Sprintf("%s %d %d", how, slot, to))
}

// Send implements network.Sender.
func (f *fleet) Send(ctx context.Context, key string, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	return f.to(key).Send(ctx, key, call, late)
}

// Post implements network.Sender.
func (f *fleet) Post(key string, call wire.Call, late func(pipe.Answer)) {
	f.to(key).Post(key, call, late)
}

// Server implements network.Network.
func (f *fleet) Server(key string) network.Server { return f.to(key) }

// Publisher implements network.Network.
func (*fleet) Publisher(string) any { return "publish" }

// Channel implements network.Network.
func (*fleet) Channel(_, plain, _ string) any { return plain }

// Router implements network.Network.
func (f *fleet) Router() *servers.Router { return f.router }

// Count implements network.Network.
func (*fleet) Count(pipe.Answer) {}

// Refused implements network.Network.
func (*fleet) Refused() uint64 { return 0 }

// Unanswered implements network.Network.
func (f *fleet) Unanswered() (n uint64) {
	for _, l := range f.links {
		n += l.Unanswered()
	}
	return n
}

// Close implements network.Network.
func (f *fleet) Close(why error) {
	f.cancel()
	f.wg.Wait()
	for _, l := range f.links {
		l.Close(why)
	}
}
