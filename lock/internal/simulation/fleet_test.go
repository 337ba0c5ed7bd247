package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/network"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/lock/topology"
)

// slots says which store of a Cluster has each slot. A slot is moved at once, with all its keys, as
// Redis 8.4 and Valkey 9 do it.
type slots struct {
	stores []*store // immutable

	mu sync.Mutex // guards what follows; locked behind those of stores
	at map[int]int
}

// of is the number of the store that has a slot.
func (s *slots) of(slot int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, moved := s.at[slot]; moved {
		return n
	}
	return slot % len(s.stores)
}

// move moves the slot of a key to a store.
func (s *slots) move(key string, to int) {
	for _, st := range s.stores {
		st.mu.Lock()
		defer st.mu.Unlock()
	}
	slot := keys.Slot(key)
	from := s.of(slot)
	if from == to {
		return
	}
	a, b := s.stores[from], s.stores[to]
	a.redis.Carry(a.nowLocked(), &b.redis, b.nowLocked(), func(key string) bool { return keys.Slot(key) == slot })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[slot] = to
}

// fleet is the Network of a client of a Cluster: a link to each store. What it knows of the slots
// may be old; then it is told where a key is.
type fleet struct {
	slots *slots
	links []*link

	// immutable after Connect
	cfg    network.Config
	router *servers.Router // finds none
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

// follow learns of slots that have moved: when one was met, and from time to time.
func (f *fleet) follow() {
	for {
		timer := time.NewTimer(lease / 2)
		select {
		case <-f.ctx.Done():
			timer.Stop()
			return
		case <-f.hint:
		case <-timer.C:
		}
		timer.Stop()
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

// to is the link to the store that has a key, as far as is known.
func (f *fleet) to(key string) *link {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot := keys.Slot(key)
	if n := f.view[slot]; n > 0 {
		return f.links[n-1]
	}
	return f.links[slot%len(f.links)]
}

// moved reads where a store says that a key is; nil if err says nothing of it.
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

// elsewhere is what a store says of a key that it has not got.
func elsewhere(slot, to int) error { return redis.Error(fmt.Sprintf("MOVED %d %d", slot, to)) }

// Send implements sender.Sender.
func (f *fleet) Send(ctx context.Context, key string, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	return f.to(key).Send(ctx, key, call, late)
}

// Post implements sender.Sender.
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
