package servers

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// publishing is how releases are published at a server.
type publishing struct {
	sharded atomic.Bool // Choice.By, for those who write

	mu     sync.Mutex // guards what follows; never held during I/O
	choice Choice
	asked  bool      // a connection was greeted
	failed int       // connections in a row that the questions have cost
	silent time.Time // when there were too many of those; zero if there were not

	// the log has it
	barred  bool // SPUBLISH or SSUBSCRIBE is refused
	untold  bool // the version is not told
	refused bool // PUBLISH, or what is set, is refused
}

// decide carries out what an event means for the server's Choice, and reports whether
// that has changed.
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

// hearing is what the server's Subscriber listens for.
func (s *Server) hearing() pubsub.Hearing {
	s.publishing.mu.Lock()
	defer s.publishing.mu.Unlock()
	return s.publishing.choice.Hearing(time.Now())
}

// publishRefused is told of each message that Redis refused. If that was SPUBLISH, it is
// PUBLISH from now on.
func (s *Server) publishRefused(refusal string) {
	barred := pipe.Definite(redis.Error(refusal)) && s.decide(func(p *publishing) bool { return p.choice.Refused(time.Now()) })
	if barred {
		s.warnBarred("SPUBLISH", redis.Error(refusal))
		return
	}
	if s.publishing.first(&s.publishing.refused) {
		s.router.cfg.Logger.Warn("lock: PUBLISH is refused, so waiters learn of a release only by polling: "+
			"give the user the right to PUBLISH and to the channels that README.md lists", "server", s.Address(), "error", refusal)
	}
}

// deaf is told that the server refuses SSUBSCRIBE. It reports whether there is another
// way to hear.
func (s *Server) deaf(err error) bool {
	p := &s.publishing
	p.mu.Lock()
	other := p.choice.Deaf()
	matters := p.choice.By() == topology.PubSubSharded
	p.mu.Unlock()
	if other && matters {
		s.warnBarred("SSUBSCRIBE", err)
	}
	return other
}

// warnBarred warns once that the user may not do what the server could.
func (s *Server) warnBarred(command string, err error) {
	if s.publishing.first(&s.publishing.barred) {
		s.router.cfg.Logger.Warn("lock: sharded pub/sub is refused, so PUBLISH is used and clients with that right do not hear it: "+
			"give the user the rights to SPUBLISH, SSUBSCRIBE and SUNSUBSCRIBE (README.md), or set cluster.Options.PubSub",
			"server", s.Address(), "command", command, "error", err)
	}
}

// warnUntold warns once that the server's version is not known.
func (s *Server) warnUntold(err error) {
	if s.publishing.first(&s.publishing.untold) {
		s.router.cfg.Logger.Warn("lock: this server does not tell its version, so PUBLISH is used, which others may not hear: "+
			"give the user the right to INFO (README.md), or set cluster.Options.PubSub", "server", s.Address(), "error", err)
	}
}

// first reports whether a line is to be logged, which is logged once.
func (p *publishing) first(said *bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !*said
	*said = true
	return first
}

// Publishing counts the servers that have keys by how releases are published there, but
// for those that were not used yet.
type Publishing struct {
	Plain, Sharded int
	Versions       []string // of them, each once, where they matter
}

// Publishing returns what is known now.
func (r *Router) Publishing() (now Publishing) {
	for _, s := range r.masters() {
		p := &s.publishing
		p.mu.Lock()
		asked, by, version := p.asked || !p.choice.Asks(), p.choice.By(), p.choice.version
		p.mu.Unlock()
		switch {
		case !asked:
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

// masters are the servers that have slots, or the one.
func (r *Router) masters() (list []*Server) {
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

// announce logs how releases are published, if that was chosen and is another way than
// the log has.
func (r *Router) announce() {
	if !r.traits.Slots || r.traits.PubSub != topology.PubSubAuto {
		return
	}
	now := r.Publishing()
	command := ""
	switch {
	case len(now.Versions) == 0: // nothing was chosen
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
	if changed {
		r.cfg.Logger.Info("lock: how releases are published was chosen by the versions of the Cluster's masters",
			"command", command, "versions", strings.Join(now.Versions, ", "))
	}
}

// Publisher returns what publishes a release of key: an argument of scripts, which says
// PUBLISH or SPUBLISH when it is written, because the server is known by then.
func (r *Router) Publisher(key string) any {
	switch {
	case !r.traits.Slots || r.traits.PubSub == topology.PubSubPlain:
		return plainCommand
	case r.traits.PubSub == topology.PubSubSharded:
		return shardedCommand
	}
	return chosen{r, key, plainCommand, shardedCommand}
}

// What publishes. These are interfaces already, so no request allocates one.
var plainCommand, shardedCommand any = "publish", "spublish"

// Channel returns the channel of key, an argument of scripts: one of two names, as
// Publisher's is one of two commands.
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

// RedisArg implements redis.Argument: redigo calls it when it writes the argument.
func (c chosen) RedisArg() any {
	if c.router.Server(c.key).publishing.sharded.Load() {
		return c.sharded
	}
	return c.plain
}
