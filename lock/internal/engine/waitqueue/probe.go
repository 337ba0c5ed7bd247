package waitqueue

import "time"

// Instant is a time in nanoseconds, on a monotonic clock, since a moment that the
// user chooses once.
type Instant int64

// Add returns t + d, or the last Instant if that is earlier.
func (t Instant) Add(d time.Duration) Instant {
	if sum := t + Instant(d); d < 0 || sum >= t {
		return sum
	}
	return forever
}

const forever = Instant(1<<63 - 1)

// Pacing says how often callers probe. All fields are immutable.
type Pacing struct {
	// Pace is the shortest time between the beginnings of two probes, so that many
	// messages do not cause as many probes.
	Pace time.Duration
	// MaxPoll bounds how long the object can be free without a probe, even if
	// messages were lost.
	MaxPoll time.Duration
	// Quiet is how long an answer counts while the subscription is known to miss no
	// message. A value below MaxPoll means MaxPoll. An answer never counts beyond the
	// end of the known lease.
	Quiet time.Duration
	// Back and BackMost are the first and the longest pause after an unknown
	// outcome. Each pause is twice the one before, and never above MaxPoll.
	Back, BackMost time.Duration
	// The deferral is two round trips, Defer, and DeferEach for every client that
	// should have its turn. At most 20 clients count.
	Defer, DeferEach time.Duration
	// Together, if not 0, makes probes that are due without news begin a little earlier, at a
	// multiple of it. So probes of many callers can share a request.
	Together time.Duration
}

// Backoff returns the pause after n unknown outcomes in a row. n is at least 1. spread
// is from 0 to 1 and shortens the pause by up to a quarter.
func (p *Pacing) Backoff(n int, spread float64) time.Duration {
	d := min(p.Back<<min(max(n-1, 0), 20), p.BackMost)
	return d - time.Duration(spread*float64(d/4))
}

// Poll returns the time between two probes while only this is known: the object is held.
// spread is from 0 to 1 and shortens the time by up to an eighth.
func (p *Pacing) Poll(spread float64) time.Duration {
	return p.MaxPoll - time.Duration(spread*float64(p.MaxPoll/8))
}

// Heard counts the messages and confirmations on the object's channel up to now.
type Heard struct {
	Confirmed int    // counts confirmations of the subscription
	Messages  uint64 // counts messages
	// Upto says that all messages published between the last confirmation and Upto
	// were received. A PING that was sent at Upto was answered on the same connection.
	Upto Instant
}

// Answer is what a probe was told about an object that is held, or whose turn is another client's.
type Answer struct {
	TTL    time.Duration // when the lease of the holder ends unless it is renewed; below 0 if that is not known
	Left   int64         // how much others can still take
	Spread float64       // from 0 to 1: how much sooner to probe again, so that clients do not meet
	Within time.Duration // if not 0: probe again within this time, because no message tells of the release
}

// Mark says when a probe began, and what had been received by then.
type Mark struct {
	number    uint64 // rises from probe to probe
	confirmed int
	messages  uint64
}

// Probe says when the caller that probes for an object does so next. Make a Probe
// with NewProbe. It is not safe for concurrent use.
type Probe struct {
	pacing *Pacing // immutable

	marks uint64 // given out

	// of the last answer, by the beginning of its probe
	mark        Mark
	isTaken     bool    // the answer counts: the object was not free, and this client has not freed it since
	isReleasing bool    // there was no answer, but the client is releasing its own hold
	at          Instant // when the answer came
	latest      Instant // when to probe without news
	lease       Instant // the end of the holder's lease; 0 if it is not known
	isSilent    bool    // no message tells of the release
	spread      float64
	left        int64 // how much is left to take
	unknowns    int   // unknown outcomes in a row

	began Instant // when the last probe began; a Pace before 0 if there was none

	heard   Heard
	newsAt  Instant // when the last message or confirmation was noticed
	freedAt Instant // when the last message was noticed, or the run ended

	// the deferral
	deferTo      uint64 // the deferral ends when this many messages were received
	deferBy      time.Duration
	deferEnd     Instant // the deferral ends at this time at the latest; 0: there is none
	awaitsSilent bool    // one client receives no messages, and said when it tries
}

// NewProbe returns the Probe of an object about which nothing is known.
func NewProbe(p *Pacing) Probe { return Probe{pacing: p, began: -Instant(p.Pace)} }

// Hear records the messages and confirmations on the channel. The user calls it when a
// caller was woken, and before Due and Began.
func (p *Probe) Hear(now Instant, h Heard) {
	if h.Messages != p.heard.Messages {
		p.newsAt, p.freedAt = now, now
	} else if h.Confirmed != p.heard.Confirmed {
		p.newsAt = now
	}
	p.heard = h
}

// hasNews reports whether the object may have been released since the last answered
// probe began. That is so if a message came, or if the subscription was confirmed,
// because messages before the confirmation were missed.
func (p *Probe) hasNews() bool {
	if p.HasMessage() {
		return true
	}
	return p.heard.Confirmed != p.mark.confirmed
}

// HasMessage reports whether a message came since the last answered probe began.
func (p *Probe) HasMessage() bool { return p.heard.Messages != p.mark.messages }

// News returns how many messages came since the last answered probe began, and how old its
// answer is. news is false if no message came and none can have been missed, or if this client
// has had the object since.
func (p *Probe) News(now Instant) (messages uint64, stood time.Duration, news bool) {
	if !p.isTaken || p.isReleasing || !p.hasNews() {
		return 0, 0, false
	}
	return p.heard.Messages - p.mark.messages, time.Duration(now - p.at), true
}

// Deferred reports whether others had their turn after a run of this client, the client has
// not probed since, and the last message came less than d ago.
func (p *Probe) Deferred(now Instant, d time.Duration) bool {
	return !p.isTaken && p.deferEnd != 0 && now < p.freedAt.Add(d)
}

// EndDeferral ends the deferral to clients that receive messages, because another rule says
// when this client probes. The deferral to a client that receives none goes on.
func (p *Probe) EndDeferral() {
	if !p.awaitsSilent {
		p.deferEnd = 0
	}
}

// AwaitsSilentClient reports whether this client defers to a client that receives no messages. The deferral
// may take long, and a message ends it.
func (p *Probe) AwaitsSilentClient(now Instant) bool { return p.awaitsSilent && now < p.deferUntil() }

// DueAt is like Due, but the client does not probe before then, because a stranger may take
// the object. A client that still defers at then probes nevertheless, because it would not
// notice the stranger. It probes a little later, because it must not pass clients that do not
// defer. The deferral to a client that receives no messages goes on.
func (p *Probe) DueAt(then Instant, needs int64) Instant {
	if p.awaitsSilent || p.deferUntil() <= then {
		return max(p.Due(needs), then)
	}
	return max(then.Add(p.pacing.DeferEach), p.began.Add(p.pacing.Pace))
}

// Due returns when the first in line probes. needs is how much it needs. The result
// counts until the next event. A user that sleeps until then wakes for each message
// and confirmation, calls Hear, and calls Due again.
func (p *Probe) Due(needs int64) Instant {
	var due Instant
	switch {
	case !p.isTaken || p.left > 0 && needs <= p.left:
	case p.isReleasing || p.unknowns > 0:
		due = p.latest
	default:
		due = max(p.latest, p.quietUntil())
		if t := Instant(p.pacing.Together); t > 0 {
			due -= due % t
		}
		if p.lease != 0 {
			due = min(due, p.lease)
		}
		if p.hasNews() {
			due = min(due, p.newsAt)
		}
	}
	return max(due, p.deferUntil(), p.began.Add(p.pacing.Pace))
}

// quietUntil returns until when the last answer counts, because no message came on a
// subscription that misses none.
func (p *Probe) quietUntil() Instant {
	if p.isSilent || p.mark.confirmed == 0 || p.heard.Confirmed != p.mark.confirmed {
		return 0
	}
	poll := p.pacing.Poll(p.spread)
	longest := max(p.pacing.Quiet, p.pacing.MaxPoll)
	longest -= time.Duration(p.spread * float64(longest/8))
	return min(p.heard.Upto.Add(poll), p.at.Add(longest))
}

// deferUntil returns the time before which others have their turn.
func (p *Probe) deferUntil() Instant {
	if p.deferEnd == 0 || p.heard.Messages >= p.deferTo {
		return 0
	}
	d := p.freedAt.Add(p.deferBy + time.Duration(min(p.deferTo-p.heard.Messages, 20))*p.pacing.DeferEach)
	return min(d, p.deferEnd)
}

// Began records that the first in line probes. It returns the Mark for the result.
func (p *Probe) Began(now Instant) Mark {
	p.began = now
	return p.BeganBeside()
}

// BeganBeside is Began for a caller that probes beside the first in line. It does not
// make the first wait longer.
func (p *Probe) BeganBeside() Mark {
	p.marks++
	return Mark{p.marks, p.heard.Confirmed, p.heard.Messages}
}

// Refused records that a probe did not get the object. Like the other results, it changes nothing if
// that probe began before the probe of the last answer, or before an own hold ended.
func (p *Probe) Refused(now Instant, m Mark, a Answer) {
	if !p.recordResult(now, m, a.Spread) {
		return
	}
	p.left, p.isSilent = a.Left, a.Within > 0
	if a.TTL >= 0 {
		p.lease = now.Add(max(a.TTL, p.pacing.Pace))
	}
	if a.Within > 0 {
		p.latest = min(p.latest, now.Add(a.Within-time.Duration(a.Spread*float64(a.Within/8))))
	}
}

// Took records that the caller has the object, and how much others can still take.
func (p *Probe) Took(now Instant, m Mark, left int64) {
	if p.recordResult(now, m, 0) {
		p.left = left
	}
}

// Unanswered records that a probe had no answer. spread is from 0 to 1: how much sooner to probe
// again, so that clients do not meet.
func (p *Probe) Unanswered(now Instant, m Mark, spread float64) {
	unknowns := p.unknowns + 1
	if p.recordResult(now, m, spread) {
		p.unknowns = unknowns
		p.latest = min(p.latest, now.Add(p.pacing.Backoff(unknowns, spread)))
	}
}

// NotCounted records that the answers to a probe do not count yet, for example because a member of a
// RedLock was restarted. spread is as in Unanswered.
func (p *Probe) NotCounted(now Instant, m Mark, spread float64) {
	if p.recordResult(now, m, spread) {
		p.latest = min(p.latest, now.Add(p.pacing.Backoff(6, spread)))
	}
}

// recordResult records what all results have in common. It reports whether the result counts.
func (p *Probe) recordResult(now Instant, m Mark, spread float64) bool {
	if m.number < p.mark.number {
		return false
	}
	p.mark, p.at, p.spread, p.isSilent, p.isReleasing = m, now, spread, false, false
	p.left, p.lease, p.unknowns = 0, 0, 0
	p.isTaken = true
	p.latest = now.Add(p.pacing.Poll(spread))
	return true
}

// Releasing records that this client has begun to release or to hand over its own
// hold. No caller probes until Freed, but for no longer than MaxPoll.
func (p *Probe) Releasing(now Instant) {
	p.forget()
	p.isTaken, p.isReleasing = true, true
	p.latest = now.Add(p.pacing.MaxPoll)
}

// Freed records that an own hold has ended. It was released or lost, or its release
// is pending. The next probe is due now.
func (p *Probe) Freed() { p.forget() }

// forget drops the last answer, and the answers of all probes that have begun.
func (p *Probe) forget() {
	p.marks++
	p.mark.number = p.marks
	p.isTaken, p.isReleasing, p.unknowns, p.left, p.lease = false, false, 0, 0, 0
}

// RunEnded records that the release before Freed ended a run and told other clients.
// They have their turn first, until messages have been received in all. awaited says
// that one of them receives no messages and tries within two roundTrips.
func (p *Probe) RunEnded(now Instant, messages uint64, roundTrip time.Duration, awaited bool) {
	p.awaitsSilent = awaited
	p.deferTo, p.deferBy = messages, 2*roundTrip+p.pacing.Defer
	p.deferEnd, p.freedAt = now.Add(p.pacing.MaxPoll), now
}
