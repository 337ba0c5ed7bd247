package servers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// errNoVersion is returned when the answer to INFO has no version.
var errNoVersion = errors.New("the answer to INFO has no version")

// dialCommands opens a connection for commands, unless it is too early for another dial.
func (s *Server) dialCommands(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
	dialed, err := s.backoff.dial(func() (pipe.Connection, error) { return s.dialGreeted(ctx, bound) })
	if err == nil {
		s.dials.Add(1) // before its first request
	}
	return dialed, err
}

// DialRenewal opens a connection for renewal, unless it is too early for another dial.
func (s *Server) DialRenewal(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
	return s.renewing.dial(func() (pipe.Connection, error) { return s.DialTimed(ctx, bound) })
}

// RenewalFailed is Failed for a connection for renewal.
func (s *Server) RenewalFailed(err error) {
	s.renewing.connectionFailed(err)
	s.Failed(err)
}

// RenewalAnswered is Answered for a batch of renewals.
func (s *Server) RenewalAnswered() {
	s.renewing.reset()
	s.Answered()
}

// dialGreeted is dialChecked of a connection that also asks, if that matters, for the
// server's version and whether this user may use SPUBLISH. A restart, or a failover behind
// one name, ends connections. So the answers on the last connection are true for all
// connections in use.
func (s *Server) dialGreeted(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, s.router.cfg.DialTimeout)
	defer cancel()
	for try := 0; ; try++ {
		dialed, err := s.dialChecked(ctx, bound)
		if err != nil || !s.publishing.shouldAskVersion() {
			return dialed, err
		}
		asking, done := context.WithTimeout(ctx, s.router.cfg.IOTimeout)
		info, refusal, err := s.askVersion(asking, dialed.Conn)
		slow := asking.Err() != nil || isTimeout(err)
		done()
		if err == nil {
			s.handleGreeting(info, refusal)
			return dialed, nil
		}
		dialed.Conn.Close()
		if _, passing := err.(redis.Error); passing { // for example BUSY, when the server runs no script either
			return pipe.Connection{}, err
		}
		if !errors.Is(ctx.Err(), context.Canceled) && s.publishing.noteUnanswered(!slow && try > 0) {
			s.router.cfg.Logger.Log(record.VersionUntold, s.Address(), err)
		}
		if slow {
			return pipe.Connection{}, err
		}
	}
}

// askVersion asks the questions of dialGreeted in one round trip. err means that the
// connection is not usable.
func (s *Server) askVersion(ctx context.Context, conn redis.Conn) (info any, refusal, err error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.Send("INFO", "server"); err != nil {
		return nil, nil, err
	}
	// The channel has no subscribers. The command only tests the right to SPUBLISH.
	if err := conn.Send("SPUBLISH", s.router.cfg.Trial, ""); err != nil {
		return nil, nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, nil, err
	}
	var answers [2]any
	for i := range answers {
		deadline, _ := ctx.Deadline()
		reply, err := resp.Receive(conn, max(time.Until(deadline), time.Millisecond))
		if refused, ok := err.(redis.Error); ok {
			reply = refused
		} else if err != nil {
			return nil, nil, err
		}
		answers[i] = reply
	}
	if !stop() {
		return nil, nil, ctx.Err()
	}
	if refused, ok := answers[0].(redis.Error); ok {
		if code, _, _ := strings.Cut(string(refused), " "); !pipe.Definite(redis.Error(code)) {
			return nil, nil, refused
		}
	}
	// An answer such as MOVED shows that the user has the right.
	if refused, ok := answers[1].(redis.Error); ok && pipe.Definite(refused) {
		refusal = refused
	}
	return answers[0], refusal, nil
}

// handleGreeting handles the answers of the server.
func (s *Server) handleGreeting(info any, refusal error) {
	text, err := redis.String(info, nil)
	if refused, ok := info.(redis.Error); ok {
		err = refused
	}
	version := VersionOf(text)
	if version == "" {
		if err == nil {
			err = errNoVersion
		}
		s.router.cfg.Logger.Log(record.VersionUntold, s.Address(), err)
	}
	s.decide(func(p *publishing) bool {
		p.failures, p.silentSince = 0, time.Time{}
		changed := p.choice.Greeted(time.Now(), version, refusal != nil)
		changed = changed || !p.isGreeted
		p.isGreeted = true
		return changed
	})
	if refusal != nil && Shards(version) {
		s.router.cfg.Logger.Log(record.ShardsRefused, s.Address(), "SPUBLISH", refusal)
	}
}

// shouldAskVersion reports whether a new connection asks for the server's version.
func (p *publishing) shouldAskVersion() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.choice.NeedsVersion() && (p.silentSince.IsZero() || time.Since(p.silentSince) > askAgain)
}

// noteUnanswered records that a connection failed after the questions. sure says that the questions
// were the reason. noteUnanswered returns true if the server is not asked for a while from now on,
// because sure is true or this has happened maxUnanswered times in a row.
func (p *publishing) noteUnanswered(sure bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if p.failures < maxUnanswered && !sure {
		return false
	}
	p.silentSince, p.isGreeted = time.Now(), true
	return true
}

// forgetFailures makes the next connection ask, because another server is behind the name.
func (p *publishing) forgetFailures() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures, p.silentSince = 0, time.Time{}
}
