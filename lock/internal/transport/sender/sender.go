// Package sender sends calls of scripts to the servers that have their keys.
package sender

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
)

// Sender sends scripts. All traffic between the holds of a client and its servers goes through
// a Sender, except renewals and messages. So a simulation can treat each script as one event and
// its answer as another. All methods are safe for concurrent use.
type Sender interface {
	// Send sends a call to the server of key and waits for the answer until ctx ends. An answer
	// that comes later goes to late, unless late is nil.
	Send(ctx context.Context, key string, call wire.Call, late func(pipe.Answer)) pipe.Answer
	// Post sends a call and does not wait. The answer goes to late.
	Post(key string, call wire.Call, late func(pipe.Answer))
}

// Routed is the Sender of a client's servers.
type Routed struct {
	// immutable
	router *servers.Router
	closed error

	requests   pipe.Requests
	unanswered atomic.Uint64
	refused    atomic.Uint64
}

var _ Sender = (*Routed)(nil)

// New returns a Sender of the servers of a router. closed is the error of requests after the
// client was closed.
func New(router *servers.Router, closed error) *Routed {
	return &Routed{router: router, closed: closed}
}

// Send implements Sender.
func (s *Routed) Send(ctx context.Context, key string, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	r := s.request(key, call, late)
	s.router.Send(ctx, key, r)
	a := s.requests.Await(ctx, r)
	if _, refused := a.Err.(redis.Error); refused {
		s.refused.Add(1)
	} else if s.silent(a) {
		s.unanswered.Add(1)
	}
	return a
}

// silent reports whether the server did not answer, if it did not refuse. It returns false if the
// caller has left or the client is closed.
func (s *Routed) silent(a pipe.Answer) bool {
	return a.Err != nil && !a.Left && !errors.Is(a.Err, s.closed)
}

func (s *Routed) request(key string, call wire.Call, late func(pipe.Answer)) *pipe.Request {
	r := s.requests.New(key, call.Script, call.Keys, late, call.Args)
	if !call.Last.IsZero() {
		r.Within(call.Last)
	}
	return r
}

// Post implements Sender.
func (s *Routed) Post(key string, call wire.Call, late func(pipe.Answer)) {
	r := s.request(key, call, late)
	r.Post()
	s.router.Server(key).Put(r) // no caller waits, not even until the server is known
}

// Unanswered returns how many calls of Send got no answer.
func (s *Routed) Unanswered() uint64 { return s.unanswered.Load() }

// Refused returns how many calls of Send got an error of Redis for an answer.
func (s *Routed) Refused() uint64 { return s.refused.Load() }
