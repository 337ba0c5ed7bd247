package pipe

import (
	"time"

	"github.com/gomodule/redigo/redis"
)

// Clock estimates the clock of the server at the other end of one connection,
// so that a request can have a time limit on that clock. A Clock is a value. It
// does no I/O and reads no clock. The zero Clock knows no time.
//
// The server is asked for its time again once a minute, with the next write,
// and every LATE also tells it. If the time is not known, the server is asked
// again after a second. If TIME got no answer when a connection was made, a
// script asks, which passes wherever requests pass. A server that refuses the
// question for good is not asked again. A limit is too early only if the server's
// clock was set, or this machine was suspended. If the clock seems to be set twice in
// a row, several servers answer at one address. From then on the requests of the
// connection have no limit. After a clock was set back, limits are too late by the
// same time, until the server is asked again.
type Clock struct {
	server       time.Time     // the time that the server told, without monotonic part
	sent         time.Time     // when that question was sent, by this process's clock
	within       time.Duration // how long the answer took, plus the unit; the server read its clock at some moment within that time
	lastAsked    time.Time     // when the last question was sent, answered or not
	isKnown      bool
	isDistrusted bool // two servers seem to answer here
	asksByScript bool // see AskByScript
}

const (
	// askEvery is how long a connection that is used goes without asking for the time.
	askEvery = time.Minute
	// askAgain is askEvery of a connection whose server did not tell its time.
	askAgain = time.Second
	// drift is the number of seconds in which two clocks drift apart by a second at most.
	drift = 2000
	// oldAfter is when an estimate is so old that its drift, 0.3 s by then, would keep those waiting who
	// must know that a lost request cannot run any more.
	oldAfter = 10 * time.Minute
)

// NoteQuestionSent records that the server is asked for its time now.
func (c *Clock) NoteQuestionSent(now time.Time) { c.lastAsked = now }

// AskByScript makes a script ask for the time instead of TIME, because the server, or a proxy
// in front of it, does not answer TIME. The first question is due a second after now.
func (c *Clock) AskByScript(now time.Time) { c.asksByScript, c.lastAsked = true, now }

// Refused records that the server refused the question for good. A server that never told its
// time is not asked again.
func (c *Clock) Refused() {
	if !c.isKnown {
		c.lastAsked = time.Time{}
	}
}

// Due reports whether the server must be asked for its time again. It is false
// if it was never asked, and if it has refused, see Refused.
func (c *Clock) Due(now time.Time) bool {
	every := askEvery
	if !c.isKnown {
		every = askAgain
	}
	return !c.lastAsked.IsZero() && now.Sub(c.lastAsked) >= every
}

// IsOld reports whether limits would be later than need be, because no request has asked for the time for long.
func (c *Clock) IsOld(now time.Time) bool {
	return c.isKnown && !c.isDistrusted && now.Sub(c.sent) >= oldAfter
}

// Sample records an answer with the server's time. The question was sent at sent and
// the answer arrived at arrived, on this process's clock. Clock keeps the better one: the
// shorter round trip of the last minute. A sample that contradicts the estimate replaces
// it. off is how far the two differ then, and 0 otherwise. It is also 0 if this machine's wall
// clock has gained about as much on its monotonic clock, which stands still while the machine is
// suspended. Clocks of both machines that are set at the same time look like that, too. The
// server's time was rounded up to unit.
func (c *Clock) Sample(sent, arrived, server time.Time, unit time.Duration) (off time.Duration) {
	took := max(arrived.Sub(sent), 0)
	within := took + unit
	if c.isKnown {
		// By the earlier estimate, the server's clock showed a time from least to most when
		// this answer arrived.
		least, most := c.server.Add(arrived.Sub(c.sent)-c.within), c.server.Add(arrived.Sub(c.sent))
		switch {
		case server.Add(-unit).After(most):
			off = server.Add(-unit).Sub(most)
		case server.Add(took).Before(least):
			off = server.Add(took).Sub(least)
		case within >= c.within && arrived.Sub(c.sent) < askEvery:
			return 0
		}
		slept := arrived.Round(0).Sub(c.sent.Round(0)) - arrived.Sub(c.sent)
		if off > slept/2 && off < slept*9/8 {
			off = 0
		}
	}
	c.server, c.sent, c.within, c.isKnown = server.Round(0), sent, within, true
	return off
}

// Distrust makes the Clock unknown from now on.
func (c *Clock) Distrust() { c.isDistrusted = true }

// Distrusted reports whether Distrust was called.
func (c *Clock) Distrusted() bool { return c.isDistrusted }

// Limit returns the time limit of a request that is written now and may take timeout. It
// is a time of the server in ms since 1970. It is not before now + timeout, at whatever
// moment of the last round trip the server's clock was read. It is 0, which means no
// limit, if that clock is not known. At open, on this process's clock, the server's clock
// has passed the limit.
func (c *Clock) Limit(now time.Time, timeout time.Duration) (limit int64, open time.Time) {
	if !c.isKnown || c.isDistrusted {
		return 0, time.Time{}
	}
	const ms = time.Millisecond // the limit is rounded up to ms, and the server rounds its time down
	most := c.server.Add(now.Sub(c.sent) + timeout + ms - 1)
	return most.UnixMilli(), now.Add(timeout + c.within + 2*ms + now.Sub(c.sent)/drift)
}

// Offset returns how far the server's clock is ahead of this process's clock, and the
// largest error of this estimate. ok is false if the server's clock is not known.
func (c *Clock) Offset() (ahead, within time.Duration, ok bool) {
	half := c.within / 2
	return c.server.Sub(c.sent.Round(0)) - half, half, c.isKnown
}

// TimeOf reads the answer of TIME.
func TimeOf(reply any, err error) (time.Time, error) {
	parts, err := redis.Int64s(reply, err)
	if err != nil {
		return time.Time{}, err
	}
	if len(parts) != 2 {
		return time.Time{}, redis.Error("TIME has an unknown form")
	}
	return time.Unix(parts[0], parts[1]*1000), nil
}
