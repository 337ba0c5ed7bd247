package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// errReplacedMeanwhile is returned when a server was replaced before a dial to it ended.
var errReplacedMeanwhile = fmt.Errorf("%w while it was dialled", pipe.ErrReplaced)

// Dial opens a connection to the server that s stands for now, and returns the epoch of
// that server. A caller that stores the connection where Drop or Replaced finds it must
// compare the epoch afterwards, and call noteReached at the first answer. A dial takes
// Config.DialTimeout at most. bound limits how many dials are left behind. Dials to an earlier
// server of s do not count.
func (s *Server) Dial(ctx context.Context, bound *dialing.Bound) (redis.Conn, uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, s.router.cfg.DialTimeout)
	defer cancel()
	before := s.connected.Load()
	conn, epoch, err := s.dialSilently(ctx, bound)
	if err != nil {
		s.noteDialFailure(before, err)
	}
	return conn, epoch, err
}

// dialSilently is like Dial, but the caller must limit ctx and call noteDialFailure. The dial ends early if
// another server replaces the one that is dialled.
func (s *Server) dialSilently(ctx context.Context, bound *dialing.Bound) (redis.Conn, uint32, error) {
	epoch := s.epoch.Load()
	if !s.ensureOpen() {
		return nil, epoch, s.router.noServerError()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(*s.epochContext.Load(), cancel)()
	conn, err := bound.Dial(ctx, epoch, s.dial)
	switch {
	case s.epoch.Load() == epoch:
	case err != nil:
		err = errReplacedMeanwhile
	default:
		conn.Close()
		conn, err = nil, pipe.ErrReplaced
	}
	return conn, epoch, err
}

// dial calls the user's dial function. With a Topology it first waits until a Layout names the
// server. Otherwise the first name would not count as a change, and a connection to another server
// would be kept.
func (s *Server) dial(ctx context.Context) (redis.Conn, error) {
	r := s.router
	if r.cfg.Topology == nil {
		return r.cfg.Dial(s.noteConnect(ctx))
	}
	if err := r.awaitName(ctx); err != nil {
		return nil, err
	}
	conn, err := r.cfg.Topology.Dial(ctx, s.name)
	if err != nil {
		r.hintTopology()
	}
	return conn, err
}

// noteDialFailure calls noteReached for a dial that has failed. before is the number of connections that
// had been made when the dial began. The failure does not count if another connection was made
// meanwhile, because the server may be back by now.
func (s *Server) noteDialFailure(before uint64, err error) {
	if s.connected.Load() == before {
		s.noteReached(err)
	}
}

// noteReached is called when a dial has failed, and when a new connection has brought an answer, or
// was used until there was none in time. A connection alone proves nothing: what stands in front of a
// server accepts connections also while the server is down. If the dial failed, noteReached warns,
// once until there is a connection again. Without that warning a Lock whose context has no end would
// wait in silence.
func (s *Server) noteReached(err error) {
	if err == pipe.ErrReplaced {
		err = nil // the old server did not answer
	}
	s.noteAddress(err)
	if err == nil {
		s.connected.Add(1)
	}
	switch {
	case s.ctx.Err() != nil: // the client ends, whatever became of the dial
	case err == nil:
		if s.noConnection.clear() {
			s.router.cfg.Logger.Log(record.ConnectedAgain, s.Address())
		}
	case errors.Is(err, context.Canceled), err == errReplacedMeanwhile: // the server has not ended the dial
	default:
		s.noConnection.logOnce(func() bool { return s.router.cfg.Logger.Log(record.NoConnection, s.Address(), err) })
	}
}

// Address returns the address of the server for the log. Without a Topology it comes from the
// last dial, or is Config.Address before that. A pool may dial in a way that does not show the
// address.
func (s *Server) Address() string {
	switch address := s.address.Load(); {
	case address != nil:
		return *address
	case s.name != "":
		return s.name
	case s.router.cfg.Topology != nil:
		return "not known yet"
	case s.router.cfg.Address != "":
		return s.router.cfg.Address
	}
	return "the pool's"
}

// noteConnect returns a context that records to which address a pool's dial connects.
func (s *Server) noteConnect(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ // package net calls it for every dial, not only for HTTP
		ConnectDone: func(_, address string, err error) {
			if err == nil {
				s.address.Store(&address)
			}
		},
	})
}

// noteAddress records the address that a pool could not dial.
func (s *Server) noteAddress(err error) {
	var op *net.OpError
	if s.router.cfg.Topology == nil && errors.As(err, &op) && op.Addr != nil {
		address := op.Addr.String()
		s.address.Store(&address)
	}
}
