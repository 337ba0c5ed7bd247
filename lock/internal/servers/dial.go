package servers

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// Dial opens a connection to the server that s stands for now, and says which epoch
// that is of. Whoever keeps it in a place where Drop or Replaced finds it compares
// the epoch afterwards. No more dials than bound says are left behind; those to a
// server that s stood for before do not count.
func (s *Server) Dial(ctx context.Context, bound *dialing.Bound) (redis.Conn, uint32, error) {
	before := s.connected.Load()
	conn, epoch, err := s.dialSilently(ctx, bound)
	s.dialEnded(before, err)
	return conn, epoch, err
}

// dialSilently is Dial that leaves it to the caller to call dialEnded.
func (s *Server) dialSilently(ctx context.Context, bound *dialing.Bound) (redis.Conn, uint32, error) {
	epoch := s.epoch.Load()
	if s == s.router.unknown {
		return nil, epoch, s.router.noServer()
	}
	conn, err := bound.Dial(ctx, epoch, s.dial)
	if err == nil && s.epoch.Load() != epoch {
		conn.Close()
		conn, err = nil, pipe.ErrReplaced
	}
	return conn, epoch, err
}

// dial calls the user's dial function. That of a Topology has to wait for the first
// Layout: only if the Instance is known from the start will a change of it be seen.
func (s *Server) dial(ctx context.Context) (redis.Conn, error) {
	r := s.router
	if r.cfg.Topology == nil {
		return r.cfg.Dial(s.noteConnect(ctx))
	}
	r.await(ctx)
	conn, err := r.cfg.Topology.Dial(ctx, s.name)
	if err != nil {
		r.look()
	}
	return conn, err
}

// dialEnded is reached of a dial before which so many had connected. If it fails later than
// another has connected, it may have been refused before the server was back.
func (s *Server) dialEnded(before uint64, err error) {
	if err == nil || s.connected.Load() == before {
		s.reached(err)
	}
}

// reached is told how a dial ended. It warns when there is no connection to the
// server, once until there is one: a Lock whose context has no end would wait for
// it in silence.
func (s *Server) reached(err error) {
	if err == pipe.ErrReplaced {
		err = nil // the old one was
	}
	s.noteAddress(err)
	if err == nil {
		s.connected.Add(1)
	}
	switch {
	case err == nil && s.unreached.Swap(false):
		s.router.cfg.Logger.Info("lock: connected to Redis again", "server", s.Address())
	case err == nil:
	case s.ctx.Err() != nil, errors.Is(err, context.Canceled): // it is not the server that has ended the dial
	case !s.unreached.Swap(true):
		s.router.cfg.Logger.Warn("lock: no connection to Redis; calls that wait for one try again: check that Redis runs at this address and takes this password",
			"server", s.Address(), "error", err)
	}
}

// Address says in the log which server it is. A pool does not tell, but its last dial
// did, unless the pool dials in a way of its own.
func (s *Server) Address() string {
	switch address := s.address.Load(); {
	case address != nil:
		return *address
	case s.name != "":
		return s.name
	case s.router.cfg.Topology != nil:
		return "not known yet"
	}
	return "the pool's"
}

// noteConnect returns a context with which a pool's dial tells what it has connected to.
func (s *Server) noteConnect(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ // for every dial of package net, of HTTP or not
		ConnectDone: func(_, address string, err error) {
			if err == nil {
				s.address.Store(&address)
			}
		},
	})
}

// noteAddress notes the address that a pool could not dial.
func (s *Server) noteAddress(err error) {
	var op *net.OpError
	if s.router.cfg.Topology == nil && errors.As(err, &op) && op.Addr != nil {
		address := op.Addr.String()
		s.address.Store(&address)
	}
}
