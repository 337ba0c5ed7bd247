package servers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// clock is what is known of a server's clock, over all connections to it.
type clock struct {
	mu       sync.Mutex // guards what follows; never held during I/O
	last     pipe.Clock // what the last connection that asked found out
	silent   time.Time  // when the server did not tell; zero if it did
	unsaid   bool       // the last question has got no answer in time
	warned   bool       // that the server does not tell
	distrust bool       // it was warned that two servers seem to answer as one
	jumped   time.Time  // when it was last warned that the clock was set
}

// toldAgain is how long nothing is said of a clock that is set once more: every
// connection finds it out, and some clocks jump every minute.
const toldAgain = 10 * time.Minute

// askAgain is for how long a server that did not tell its time is not asked again.
const askAgain = time.Minute

// DialTimed is Dial of a connection that knows the server's clock, if the server tells.
// One that refuses, ends two connections because of the question, or twice says nothing
// to it, is not asked again for a minute. The first of those silences fails the dial,
// because a server that hangs says nothing either. One that wants a password first
// fails the dial too: it answers requests with many arguments by an error that
// does not say so.
func (s *Server) DialTimed(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
	for try := 0; ; try++ {
		before := s.connected.Load()
		conn, epoch, err := s.dialSilently(ctx, bound)
		if err != nil {
			s.dialEnded(before, err)
			return pipe.Connection{}, err
		}
		dialed := pipe.Connection{Conn: conn, Epoch: epoch}
		if s.clock.isSilent() {
			s.reached(nil)
			return dialed, nil
		}
		reply, sent, unsaid, failed := s.askTime(ctx, conn)
		if pipe.LoggedOut(failed) {
			conn.Close()
			s.dialEnded(before, failed)
			return pipe.Connection{}, failed
		}
		s.reached(nil)
		server, err := pipe.TimeOf(reply, failed)
		_, refused := failed.(redis.Error)
		switch {
		case err == nil:
			dialed.Clock.Asking(sent)
			dialed.Clock.Sample(sent, time.Now(), server)
			s.clock.tells()
			s.Timed(dialed.Clock, 0)
			return dialed, nil
		case refused && !pipe.Definite(failed):
			dialed.Clock.Asking(sent) // it is busy, say: it is asked again soon
			return dialed, nil
		case refused, failed == nil:
			s.warnSilent(err)
			return dialed, nil
		}
		conn.Close()
		switch {
		case unsaid: // it is the question
			s.warnSilent(failed)
		case ctx.Err() != nil || isTimeout(failed):
			if !errors.Is(ctx.Err(), context.Canceled) {
				s.clock.isUnsaid()
			}
			return pipe.Connection{}, failed
		case try > 0: // it is the question
			s.warnSilent(failed)
		}
	}
}

// askTime asks the server for its time. If it has said nothing to that before, it must
// answer PING first, and has half of what is left of ctx then: unsaid is true if it says
// nothing again.
func (s *Server) askTime(ctx context.Context, conn redis.Conn) (reply any, sent time.Time, unsaid bool, err error) {
	if !s.clock.wasUnsaid() {
		sent = time.Now()
		reply, err = pipe.RoundTrip(ctx, conn, "TIME")
		return reply, sent, false, err
	}
	if _, err := pipe.RoundTrip(ctx, conn, "PING"); err != nil {
		if _, refused := err.(redis.Error); !refused || pipe.LoggedOut(err) {
			return nil, time.Time{}, false, err
		}
	}
	deadline, _ := ctx.Deadline()
	half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
	defer cancel()
	sent = time.Now()
	reply, err = pipe.RoundTrip(half, conn, "TIME")
	unsaid = ctx.Err() == nil && (half.Err() != nil || err != nil && isTimeout(err))
	return reply, sent, unsaid, err
}

// Timed is told what is known of the server's clock each time that it was asked.
func (s *Server) Timed(c pipe.Clock, off time.Duration) {
	s.clock.mu.Lock()
	s.clock.last = c
	warn := c.Distrusted() && !s.clock.distrust
	s.clock.distrust = s.clock.distrust || warn
	jumped := off > s.router.cfg.IOTimeout || -off > s.router.cfg.IOTimeout
	if jumped = jumped && (s.clock.jumped.IsZero() || time.Since(s.clock.jumped) >= toldAgain); jumped {
		s.clock.jumped = time.Now()
	}
	s.clock.mu.Unlock()
	log := s.router.cfg.Logger
	if warn {
		log.Warn("lock: this server says again and again that requests come too late, as if two servers with different clocks "+
			"answered at one address. Requests over such a connection have no time limit from now on. One that arrives late "+
			"may leave a lock that nobody holds until its lease ends: use an address of one server", "server", s.Address())
	}
	if jumped {
		log.Warn("lock: the server's clock was set, or another server answers. While a clock is set back, requests that arrive late "+
			"are carried out; a clock that is set forward ends leases early: let NTP slew the clock", "server", s.Address(), "by", off)
	}
}

// Clock returns by how much the server's clock is ahead of this process' and how
// exactly that is known; ok is false if the server did not tell.
func (s *Server) Clock() (ahead, within time.Duration, ok bool) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.clock.last.Offset()
}

// isSilent reports whether the server is not to be asked now.
func (c *clock) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.silent.IsZero() && time.Since(c.silent) < askAgain
}

// tells notes that the server told its time.
func (c *clock) tells() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent, c.unsaid = time.Time{}, false
}

// isUnsaid notes that the server has said nothing when it was asked.
func (c *clock) isUnsaid() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsaid = true
}

func (c *clock) wasUnsaid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsaid
}

// warnSilent notes that the server does not tell its time, and warns once.
func (s *Server) warnSilent(err error) {
	s.clock.mu.Lock()
	s.clock.silent = time.Now()
	warned := s.clock.warned
	s.clock.warned = true
	s.clock.mu.Unlock()
	if !warned {
		s.router.cfg.Logger.Warn("lock: TIME is refused, is not answered, or ends the connection, so requests have no time limit. One that arrives "+
			"late may leave a lock that nobody holds until its lease ends: give the user the right to TIME (README.md)",
			"server", s.Address(), "error", err)
	}
}
