package waitqueue

import "time"

// Instant is a time in nanoseconds since a moment that the user chooses once,
// by a clock that never goes back.
type Instant int64

// Add returns t + d, or the last Instant if there is none so late.
func (t Instant) Add(d time.Duration) Instant {
	if sum := t + Instant(d); d < 0 || sum >= t {
		return sum
	}
	return forever
}

const forever = Instant(1<<63 - 1)

// Pacing says how often callers probe. All fields are immutable.
type Pacing struct {
	// Pace is the least time between the beginnings of two probes, so that a
	// flood of messages is no flood of probes.
	Pace time.Duration
	// MaxPoll bounds how long the object can be free without a probe, whatever
	// messages were lost.
	MaxPoll time.Duration
	// Quiet is how long an answer is trusted while the subscription is known to
	// lose nothing. Below MaxPoll it means MaxPoll. The end of the known lease
	// bounds it too.
	Quiet time.Duration
	// Back and BackMost are the first and the longest pause after an unknown
	// outcome; each is twice the one before, and never above MaxPoll.
	Back, BackMost time.Duration
	// Defer is added to two round trips, and with DeferEach for every client that
	// is to have its turn, but for at most 20, it is the deferral.
	Defer, DeferEach time.Duration
}

// Backoff is the pause after n unknown outcomes in a row, n at least 1. spread
// is from 0 to 1 and shortens it by up to a quarter.
func (p *Pacing) Backoff(n int, spread float64) time.Duration {
	d := min(p.Back<<min(max(n-1, 0), 20), p.BackMost)
	return d - time.Duration(spread*float64(d/4))
}

// Poll is the time between two probes of which nothing is known but that the object is
// held. spread is from 0 to 1 and shortens it by up to an eighth.
func (p *Pacing) Poll(spread float64) time.Duration {
	return p.MaxPoll - time.Duration(spread*float64(p.MaxPoll/8))
}

// Heard is what is known of the object's channel now.
type Heard struct {
	Confirmed int    // counts confirmations of the subscription
	Messages  uint64 // counts messages
	// Upto: all that was published since the last confirmation, and before Upto,
	// was heard. A PING sent then was answered on the subscription's connection.
	Upto Instant
}

// Outcome is how a probe ended.
type Outcome uint8

const (
	Refused Outcome = iota // the object is held, or free for another
	Taken                  // the caller has what it wants
	Young                  // it may not be answered yet, as by a member of a RedLock that was restarted
	Unknown                // there was no answer
)

// Answer is what a probe brought.
type Answer struct {
	Outcome Outcome
	TTL     time.Duration // of Refused: when the lease of the holder ends, if nothing renews it; below 0 if that is not known
	Left    int64         // of Taken and Refused: what others can still take
	Spread  float64       // from 0 to 1: how much sooner to probe again, so that clients do not meet
	After   time.Duration // of Refused: how long after a message to probe, because a release has several parts
	Within  time.Duration // of Refused, if not 0: probe again within so long, because no message tells of the release
}

// Mark says when a probe began, and what had been heard by then.
type Mark struct {
	number    uint64 // rises from probe to probe
	confirmed int
	messages  uint64
}

// Probe says when the caller that probes for an object does so next. Make one
// with NewProbe. It is not safe for concurrent use.
type Probe struct {
	pacing *Pacing // immutable

	marks uint64 // given out

	// of the last answer, by the beginning of its probe
	mark     Mark
	answered bool    // it stands: the object was not free, and nothing has freed it that the client did itself
	ours     bool    // it was no answer: the client's own release is on its way
	at       Instant // when it came
	latest   Instant // when to probe without news
	lease    Instant // the end of the holder's lease; 0 if it is not known
	after    time.Duration
	silent   bool // no message tells of the release
	spread   float64
	left     int64 // what it left to take
	unknowns int   // answers that did not come, in a row

	begun bool    // there was a probe
	began Instant // the last one

	heard   Heard
	newsAt  Instant // when the last message or confirmation was noticed
	freedAt Instant // when the last message was, or the run ended

	// the deferral
	deferTo  uint64 // until so many messages were heard
	deferBy  time.Duration
	deferEnd Instant // not after that; 0: there is none
	awaited  bool    // one of those hears nothing, and said when it tries
}

// NewProbe returns the Probe of an object of which nothing is known.
func NewProbe(p *Pacing) Probe { return Probe{pacing: p} }

// Hear notes what is known of the channel. The user calls it when it was woken,
// and before Due and Began.
func (p *Probe) Hear(now Instant, h Heard) {
	if h.Messages != p.heard.Messages {
		p.newsAt, p.freedAt = now, now
	} else if h.Confirmed != p.heard.Confirmed {
		p.newsAt = now
	}
	p.heard = h
}

// news reports whether the object may have been released since the last answered
// probe began: a message came, or the subscription was confirmed, before which
// messages were not heard.
func (p *Probe) news() bool {
	if p.heard.Messages != p.mark.messages {
		return true
	}
	return p.heard.Confirmed != p.mark.confirmed
}

// Since is how many messages came since the last answered probe began, and for how long its
// answer has stood. news is false if there was no message, and none that may have been
// missed, or if this client has had the object since.
func (p *Probe) Since(now Instant) (messages uint64, stood time.Duration, news bool) {
	if !p.answered || p.ours || !p.news() {
		return 0, 0, false
	}
	return p.heard.Messages - p.mark.messages, time.Duration(now - p.at), true
}

// Deferred reports whether others had their turn after a run of this client, which has not
// probed since, and the last message came less than d ago.
func (p *Probe) Deferred(now Instant, d time.Duration) bool {
	return !p.answered && p.deferEnd != 0 && now < p.freedAt.Add(d)
}

// EndDeferral makes the client defer to nobody any more but to one that hears nothing:
// something else says when it probes.
func (p *Probe) EndDeferral() {
	if !p.awaited {
		p.deferEnd = 0
	}
}

// DueAt is Due where the client does not probe before then, because a stranger may take
// the object. One that still defers by then probes all the same, because it would not see
// the stranger, but a little later, because it must not pass those that do not defer. One
// that defers to somebody who hears nothing goes on to do so.
func (p *Probe) DueAt(then Instant, needs int64) Instant {
	if p.awaited || p.deferral() <= then {
		return max(p.Due(needs), then)
	}
	return max(then.Add(p.pacing.DeferEach), p.began.Add(p.pacing.Pace))
}

// Due is when the first in line probes, which needs so much. The answer stands
// until the next event; the user that sleeps until then wakes for each message
// and confirmation, calls Hear, and asks again.
func (p *Probe) Due(needs int64) Instant {
	var due Instant
	switch {
	case !p.answered || p.left > 0 && needs <= p.left:
	case p.ours || p.unknowns > 0:
		due = p.latest
	default:
		due = max(p.latest, p.quiet())
		if p.lease != 0 {
			due = min(due, p.lease)
		}
		if p.news() {
			due = min(due, p.newsAt.Add(p.after))
		}
	}
	due = max(due, p.deferral())
	if p.begun {
		due = max(due, p.began.Add(p.pacing.Pace))
	}
	return due
}

// quiet is how long the last answer stands because nothing was heard where
// everything would have been.
func (p *Probe) quiet() Instant {
	if p.silent || p.mark.confirmed == 0 || p.heard.Confirmed != p.mark.confirmed {
		return 0
	}
	poll := p.pacing.Poll(p.spread)
	longest := max(p.pacing.Quiet, p.pacing.MaxPoll)
	longest -= time.Duration(p.spread * float64(longest/8))
	return min(p.heard.Upto.Add(poll), p.at.Add(longest))
}

// deferral is the time before which others have their turn.
func (p *Probe) deferral() Instant {
	if p.deferEnd == 0 || p.heard.Messages >= p.deferTo {
		return 0
	}
	d := p.freedAt.Add(p.deferBy + time.Duration(min(p.deferTo-p.heard.Messages, 20))*p.pacing.DeferEach)
	return min(d, p.deferEnd)
}

// Began notes that the first in line probes, and returns what its answer is to
// be told with.
func (p *Probe) Began(now Instant) Mark {
	p.begun, p.began = true, now
	return p.Beside()
}

// Beside is Began for a caller that probes beside the first in line. It does not
// make the first wait longer.
func (p *Probe) Beside() Mark {
	p.marks++
	return Mark{p.marks, p.heard.Confirmed, p.heard.Messages}
}

// Answered notes what a probe brought. It says nothing new, and nothing changes,
// if that probe began before that of the last answer, or before an own hold
// ended.
func (p *Probe) Answered(now Instant, m Mark, a Answer) {
	if m.number < p.mark.number {
		return
	}
	p.mark, p.at, p.spread, p.after, p.silent, p.ours = m, now, a.Spread, a.After, a.Within > 0, false
	p.left, p.lease = 0, 0
	if a.Outcome == Unknown {
		p.unknowns++
	} else {
		p.unknowns = 0
	}
	p.answered = true
	p.latest = now.Add(p.pacing.Poll(a.Spread))
	switch a.Outcome {
	case Taken:
		p.left = a.Left
	case Refused:
		p.left = a.Left
		if a.TTL >= 0 {
			p.lease = now.Add(max(a.TTL, p.pacing.Pace))
		}
		if a.Within > 0 {
			p.latest = min(p.latest, now.Add(a.Within-time.Duration(a.Spread*float64(a.Within/8))))
		}
	case Young:
		p.latest = min(p.latest, now.Add(p.pacing.Backoff(6, a.Spread)))
	case Unknown:
		p.latest = min(p.latest, now.Add(p.pacing.Backoff(p.unknowns, a.Spread)))
	}
}

// Releasing notes that this client has begun to release or to hand over its own
// hold. Until Freed nobody probes, but for no longer than MaxPoll.
func (p *Probe) Releasing(now Instant) {
	p.forget()
	p.answered, p.ours = true, true
	p.latest = now.Add(p.pacing.MaxPoll)
}

// Freed notes that an own hold has ended: it was released or lost, or its
// release is owed. The next probe is due now.
func (p *Probe) Freed() { p.forget() }

// forget makes what answers said, and will say of probes that have begun, count
// no more.
func (p *Probe) forget() {
	p.marks++
	p.mark.number = p.marks
	p.answered, p.ours, p.unknowns, p.left, p.lease = false, false, 0, 0, 0
}

// RunEnded notes that the release that Freed tells of ended a run and told
// others: until so many messages were heard in all, they have their turn first. awaited:
// one of them hears nothing, and tries within two roundTrips.
func (p *Probe) RunEnded(now Instant, messages uint64, roundTrip time.Duration, awaited bool) {
	p.awaited = awaited
	p.deferTo, p.deferBy = messages, 2*roundTrip+p.pacing.Defer
	p.deferEnd, p.freedAt = now.Add(p.pacing.MaxPoll), now
}
