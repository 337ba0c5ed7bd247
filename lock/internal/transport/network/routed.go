package network

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
)

// Routed is the Network of the servers that a pool or a Topology leads to.
type Routed struct {
	// immutable
	router *servers.Router
	closed error // the error of requests after Close

	requests   pipe.Requests
	unanswered atomic.Uint64
	refused    atomic.Uint64 // calls, and batches of renewals
}

var _ Network = (*Routed)(nil)

// Connect returns the Network of the servers of cfg. If the Topology is a Connector, Connect
// returns the Network of the Connector. It does no I/O. An error says that the watchdog is closed.
func Connect(cfg Config) (Network, error) {
	if other, ok := cfg.Servers.Topology.(Connector); ok {
		return other.Connect(cfg)
	}
	n := &Routed{closed: cfg.Closed}
	toServers := cfg.Servers
	toServers.Moved = cfg.Moved
	toServers.Opened = func(s *servers.Server) (servers.Attachment, error) { return newLane(&cfg, s, &n.refused) }
	var err error
	if n.router, err = servers.New(toServers); err != nil {
		return nil, err
	}
	return n, nil
}

// Send implements Network.
func (n *Routed) Send(ctx context.Context, key string, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	r := n.newRequest(key, call, late)
	n.router.Send(ctx, key, r)
	a := n.requests.Await(ctx, r)
	n.Count(a)
	return a
}

// Count implements Network. It counts nothing if the caller has left or the client is closed.
func (n *Routed) Count(a pipe.Answer) {
	if a.Err == nil {
		return
	}
	if _, refused := a.Err.(redis.Error); refused {
		n.refused.Add(1)
	} else if !a.IsAbandoned && !errors.Is(a.Err, n.closed) {
		n.unanswered.Add(1)
	}
}

// newRequest returns the request of a call.
func (n *Routed) newRequest(key string, call wire.Call, late func(pipe.Answer)) *pipe.Request {
	r := n.requests.New(key, call.Script, call.Keys, late, call.Args)
	if !call.Last.IsZero() {
		r.Within(call.Last)
	}
	return r
}

// Mint sends a call of the script acquire or handoff. The first keys of the call are the lock, which
// is name, and the counter of tokens. While the slot moves, these two may be on different servers, and
// no script reaches both. Then Mint takes the lock without a token and asks for the token afterwards,
// while it has the lock. So tokens still rise from holder to holder.
func Mint(ctx context.Context, s Sender, name string, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	a := s.Send(ctx, name, call, late)
	if a.Err == nil || !pipe.TryAgain(a.Err) {
		return a
	}
	a = s.Send(ctx, name, call.Alone(), late)
	if a.Err != nil || !wire.TakenWithoutToken(a.Reply) {
		return a
	}
	counter := call.Args.Behind(1).First()
	t := s.Send(ctx, counter, wire.Token(counter, call.Least), nil)
	token, ok := t.Reply.Number()
	switch {
	case t.Err != nil:
		// The lock may be taken, so the outcome stays unknown.
		a.Err = &mintError{t.Err}
	case !ok:
		a.Err = &mintError{errors.New("the answer is no number")}
	}
	a.Reply = resp.ReplyOf([]any{int64(1), token})
	return a
}

// mintError says why a lock that was taken got no token. It does not unwrap to an error of
// Redis, because callers would take that for a refusal of the lock.
type mintError struct{ err error }

func (e *mintError) Error() string { return "minting the token: " + e.err.Error() }

// Post implements Network.
func (n *Routed) Post(key string, call wire.Call, late func(pipe.Answer)) {
	r := n.newRequest(key, call, late)
	r.Post()
	n.router.Server(key).Put(r) // no caller waits, not even until the server is known
}

// The methods of Network, with Send, Count and Post.

func (n *Routed) Unanswered() uint64       { return n.unanswered.Load() }
func (n *Routed) Refused() uint64          { return n.refused.Load() }
func (n *Routed) Server(key string) Server { return server{n.router.Server(key)} }
func (n *Routed) Publisher(key string) any { return n.router.Publisher(key) }
func (n *Routed) Channel(key, plain, sharded string) any {
	return n.router.Channel(key, plain, sharded)
}
func (n *Routed) Router() *servers.Router { return n.router }
func (n *Routed) Close(why error)         { n.router.Close(why) }

// server is a Server of a Routed.
type server struct{ *servers.Server }

// Lane implements Server. The Attachment of a server that is known is its lane.
func (s server) Lane() Lane {
	if l, _ := s.Attachment().(*lane); l != nil {
		return l
	}
	return nil
}
