package servers

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// publishing says how releases are published at a server.
type publishing struct {
	sharded atomic.Bool // Choice.By says SPUBLISH; read when a request is written

	mu          sync.Mutex // guards the fields below; never held during I/O
	choice      Choice
	isGreeted   bool      // the questions of dialGreeted were answered, or were given up for a while
	failures    int       // connections in a row that failed after the questions
	silentSince time.Time // when too many had failed; zero if they have not
}

// decide applies an event to the server's Choice, and reports whether the Choice has
// changed.
func (s *Server) decide(event func(*publishing) bool) bool {
	p := &s.publishing
	p.mu.Lock()
	changed := event(p)
	p.sharded.Store(p.choice.By() == topology.PubSubSharded)
	p.mu.Unlock()
	if changed {
		s.subscriber.Retune()
		s.router.announce()
	}
	return changed
}

// subscribeMode returns in which ways the server's Subscriber listens.
func (s *Server) subscribeMode() pubsub.SubscribeModes {
	s.publishing.mu.Lock()
	defer s.publishing.mu.Unlock()
	return s.publishing.choice.SubscribeMode(time.Now())
}

// noteAsk records that the server has answered ASK.
func (s *Server) noteAsk() {
	p := &s.publishing
	p.mu.Lock()
	changed := p.choice.Asked(time.Now())
	p.mu.Unlock()
	if changed {
		s.subscriber.Retune()
	}
}

// publishRefused is called for each message that Redis refused. If Redis will refuse SPUBLISH
// again, the client uses PUBLISH at this server from now on.
func (s *Server) publishRefused(refusal string) {
	isForbidden := pipe.Definite(redis.Error(refusal)) && s.decide(func(p *publishing) bool { return p.choice.SPublishRefused(time.Now()) })
	if isForbidden {
		s.router.cfg.Logger.Log(record.ShardsRefused, s.Address(), "SPUBLISH", redis.Error(refusal))
		return
	}
	s.router.cfg.Logger.Log(record.PublishRefused, s.Address(), refusal)
}

// ssubscribeRefused is called when the server refuses SSUBSCRIBE. It reports whether there is another
// way to listen.
func (s *Server) ssubscribeRefused(err error) bool {
	p := &s.publishing
	p.mu.Lock()
	hasOtherWay := p.choice.SSubscribeRefused()
	isNeeded := p.choice.By() == topology.PubSubSharded
	p.mu.Unlock()
	if hasOtherWay && isNeeded {
		s.router.cfg.Logger.Log(record.ShardsRefused, s.Address(), "SSUBSCRIBE", err)
	}
	return hasOtherWay
}

// Publishing counts the servers that have keys, by how releases are published there. It
// does not count servers that were not used yet.
type Publishing struct {
	Plain, Sharded int
	Versions       []string // the versions of these servers, each once, where they matter
}

// Publishing returns the counts of now.
func (r *Router) Publishing() (now Publishing) {
	for _, s := range r.findMasters() {
		p := &s.publishing
		p.mu.Lock()
		isChosen, by, version := p.isGreeted || !p.choice.NeedsVersion(), p.choice.By(), p.choice.version
		p.mu.Unlock()
		switch {
		case !isChosen:
			continue
		case by == topology.PubSubSharded:
			now.Sharded++
		default:
			now.Plain++
		}
		if version != "" && !slices.Contains(now.Versions, version) {
			now.Versions = append(now.Versions, version)
		}
	}
	slices.Sort(now.Versions)
	return now
}

// findMasters returns the servers that have slots or, without slots, the one server.
func (r *Router) findMasters() (list []*Server) {
	if r.single != nil {
		return []*Server{r.single}
	}
	last := r.unknown
	for i := range r.slots {
		if s := r.slots[i].Load(); s != last && s != r.unknown {
			if last = s; !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	return list
}

// announce logs how releases are published, if that was chosen and differs from the last
// such line.
func (r *Router) announce() {
	if !r.traits.Slots || r.traits.PubSub != topology.PubSubAuto {
		return
	}
	now := r.Publishing()
	command := ""
	switch {
	case len(now.Versions) == 0: // no server has made a choice
	case now.Plain > 0 && now.Sharded > 0:
		command = "PUBLISH, SPUBLISH"
	case now.Sharded > 0:
		command = "SPUBLISH"
	case now.Plain > 0:
		command = "PUBLISH"
	}
	r.mu.Lock()
	changed := command != "" && command != r.announced
	if changed {
		r.announced = command
	}
	r.mu.Unlock()
	if changed && !r.cfg.Logger.Log(record.PublishingChosen, command, strings.Join(now.Versions, ", ")) {
		r.mu.Lock()
		r.announced = ""
		r.mu.Unlock()
	}
}

// Publisher returns the argument of scripts that publishes a release of key. Its text,
// PUBLISH or SPUBLISH, is chosen when it is written, because the server is known by then.
func (r *Router) Publisher(key string) any {
	switch {
	case !r.traits.Slots || r.traits.PubSub == topology.PubSubPlain:
		return plainCommand
	case r.traits.PubSub == topology.PubSubSharded:
		return shardedCommand
	}
	return chosen{r, key, plainCommand, shardedCommand}
}

// The commands as interface values, so that a request does not allocate them.
var plainCommand, shardedCommand any = "publish", "spublish"

// Channel returns the argument of scripts with the channel of key. Like the command of
// Publisher, its name is chosen when it is written.
func (r *Router) Channel(key, plain, sharded string) any {
	switch {
	case !r.traits.Slots || r.traits.PubSub == topology.PubSubPlain || plain == sharded:
		return plain
	case r.traits.PubSub == topology.PubSubSharded:
		return sharded
	}
	return chosen{r, key, plain, sharded}
}

// chosen is an argument that depends on how releases of key are published.
type chosen struct {
	router         *Router
	key            string
	plain, sharded any
}

var _ redis.Argument = chosen{}

// RedisArg implements redis.Argument. redigo calls it when it writes the argument.
func (c chosen) RedisArg() any {
	if c.router.Server(c.key).publishing.sharded.Load() {
		return c.sharded
	}
	return c.plain
}
