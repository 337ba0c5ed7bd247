package servers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// clock has what all connections to a server have found out about the server's clock.
type clock struct {
	mu          sync.Mutex // guards the fields below; never held during I/O
	last        pipe.Clock // what the last connection that asked has found out
	silentSince time.Time  // when the server last did not tell its time; zero if it told its time since
	hasRefused  bool       // at silentSince it refused, or answered with no time
	pingsFirst  bool       // the next question for the time comes behind a PING, because the last one got no answer in time
	hasEnded    bool       // the last connection ended before it answered PING, so the next one is sent PING first
}

// askAgain is how long a server that did not tell its time is not asked again.
const askAgain = time.Minute

// DialTimed is Dial, but the connection knows the server's clock, if the server tells its
// time. A server that refuses the question, ends two connections because of it, or does not
// answer it twice, is not asked again for a minute. If it did not refuse, a script asks for the time
// over the connection a second later, see pipe.Clock. The first time without an answer fails
// the dial, because a server that hangs does not answer either. A server that requires a
// password also fails the dial, because its error to a request with many arguments would
// not say that. So does a server that turns the connection away.
//
// Something in front of a server that is down may accept connections and close them. So the
// question counts as the reason only if PING was answered before it on the second connection.
// A connection without the question must answer PING, and otherwise fails the dial.
func (s *Server) DialTimed(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, s.router.cfg.DialTimeout)
	defer cancel()
	for try := 0; ; try++ {
		before := s.connected.Load()
		conn, epoch, err := s.dialSilently(ctx, bound)
		if err != nil {
			s.noteDialFailure(before, err)
			return pipe.Connection{}, err
		}
		dialed := pipe.Connection{Conn: conn, Epoch: epoch}
		asking, done := context.WithTimeout(ctx, s.router.cfg.IOTimeout)
		asked := s.askTime(asking, conn, try > 0)
		slow := asking.Err() != nil || isTimeout(asked.err)
		done()
		failed := asked.err
		_, refused := failed.(redis.Error)
		isEnded := failed != nil && !refused && !slow && !asked.isUnanswered
		if pipe.LoggedOut(failed) || dialing.TurnedAway(failed) || isEnded && asked.sent.IsZero() {
			conn.Close()
			s.noteDialFailure(before, failed)
			if isEnded {
				s.clock.noteEnd()
				s.Failed(failed)
			}
			return pipe.Connection{}, failed
		}
		if !isEnded {
			s.noteReached(nil)
		}
		server, err := pipe.TimeOf(asked.reply, failed)
		switch {
		case asked.isSkipped && failed == nil:
			if !asked.isRefused {
				dialed.Clock.AskByScript(time.Now()) // TIME itself might end this connection too
			}
			return dialed, nil
		case err == nil:
			dialed.Clock.NoteQuestionSent(asked.sent)
			dialed.Clock.Sample(asked.sent, time.Now(), server, 0)
			s.clock.forgetFailures()
			s.Answered()
			s.Timed(dialed.Clock, 0)
			return dialed, nil
		case refused && !pipe.Definite(failed):
			dialed.Clock.NoteQuestionSent(asked.sent) // the server is busy, for example, and is asked again soon
			return dialed, nil
		case refused, failed == nil: // refused for good, or answered with no time
			s.warnRefused(err)
			return dialed, nil
		}
		conn.Close()
		switch {
		case asked.isUnanswered:
			s.warnUnanswered(failed)
		case slow:
			if !errors.Is(ctx.Err(), context.Canceled) {
				s.warnNoAnswer()
				s.clock.setMustPingFirst(!asked.isSlow) // a slow server is asked at once the next time
			}
			return pipe.Connection{}, failed
		case try > 0: // PING was answered, so the question is the reason
			s.warnUnanswered(failed)
		}
	}
}

// timeReply is the result of the question for the time.
type timeReply struct {
	reply        any
	sent         time.Time // when TIME was sent; zero if it was not
	err          error
	isSkipped    bool // TIME was left out, because the server does not tell its time
	isRefused    bool // the server refused TIME before, so it was left out
	isUnanswered bool // only the question got no answer
	isSlow       bool // the server was also slow to answer PING
}

// askTime asks the server for its time. If the server was silent within the last askAgain, it must only
// answer PING. If the last connection has ended, it must answer PING before TIME. That is also so if it
// did not answer TIME in time before. Then it has for TIME half of the time that is left of ctx. If that
// half is less than four times what PING took, the server is slow and has all the time that is left.
func (s *Server) askTime(ctx context.Context, conn redis.Conn, hasEnded bool) (a timeReply) {
	within := ctx
	s.clock.mu.Lock()
	a.isSkipped, hasEnded = s.clock.isSilentLocked(), hasEnded || s.clock.hasEnded
	a.isRefused = a.isSkipped && s.clock.hasRefused
	wasSlow := s.clock.pingsFirst
	s.clock.mu.Unlock()
	if hasEnded || a.isSkipped || wasSlow {
		began := time.Now()
		if _, err := pipe.RoundTrip(ctx, conn, "PING"); err != nil {
			if _, refused := err.(redis.Error); !refused || pipe.LoggedOut(err) || dialing.TurnedAway(err) {
				a.err = err
				return a
			}
		}
		if a.isSkipped {
			return a
		}
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline)
		if a.isSlow = time.Since(began) > left/8; wasSlow && !a.isSlow {
			half, cancel := context.WithTimeout(ctx, left/2)
			defer cancel()
			within = half
		}
	}
	a.sent = time.Now()
	a.reply, a.err = pipe.RoundTrip(within, conn, "TIME")
	a.isUnanswered = within != ctx && ctx.Err() == nil && (within.Err() != nil || a.err != nil && isTimeout(a.err))
	return a
}

// Timed gets the Clock of a connection after each question for the time. off is how far the server's
// clock has been set.
func (s *Server) Timed(c pipe.Clock, off time.Duration) {
	s.clock.mu.Lock()
	s.clock.last = c
	s.clock.mu.Unlock()
	if c.Distrusted() {
		s.router.cfg.Logger.Log(record.TwoClocks, s.Address())
	}
	if limit := s.router.cfg.IOTimeout; off > limit || -off > limit {
		s.router.cfg.Logger.Log(record.ClockSet, s.Address(), off)
	}
}

// Clock returns how far the server's clock is ahead of the clock of this process, and how
// exactly that is known. ok is false if the server did not tell its time.
func (s *Server) Clock() (ahead, within time.Duration, ok bool) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.clock.last.Offset()
}

// Ahead is the first result of Clock, which is an estimate.
func (s *Server) Ahead() time.Duration {
	ahead, _, _ := s.Clock()
	return ahead
}

// isSilentLocked reports whether the server did not tell its time within the last askAgain, so it is not
// asked now.
func (c *clock) isSilentLocked() bool {
	return !c.silentSince.IsZero() && time.Since(c.silentSince) < askAgain
}

// forgetFailures is called when the server has told its time, or another one is behind the name.
func (c *clock) forgetFailures() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silentSince, c.pingsFirst, c.hasEnded = time.Time{}, false, false
}

// setMustPingFirst records whether the next question comes behind a PING. The answer to PING shows
// whether the server hangs, or leaves only TIME unanswered.
func (c *clock) setMustPingFirst(must bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pingsFirst = must
}

// noteSilence records that the server does not tell its time, and whether it refused.
func (c *clock) noteSilence(hasRefused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silentSince, c.hasRefused = time.Now(), hasRefused
}

// noteEnd records that a connection ended before it answered PING. So the server, or the way to it, has
// failed, and it is asked for its time again when it is back.
func (c *clock) noteEnd() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silentSince, c.hasEnded = time.Time{}, true
}

func (s *Server) warnRefused(err error) {
	s.clock.noteSilence(true)
	s.router.cfg.Logger.Log(record.TimeRefused, s.Address(), err)
}

func (s *Server) warnUnanswered(err error) {
	s.clock.noteSilence(false)
	s.router.cfg.Logger.Log(record.TimeUnanswered, s.Address(), err)
}
