package waitqueue

import "time"

// Yielding says how a client lets strangers have their turns. A stranger is a waiter
// of another library, Redisson. It receives the message of a release at the same time as
// this client, but takes longer until it tries. All fields are immutable.
type Yielding struct {
	Lease time.Duration // of the clients of this side
	Pause time.Duration // how long the client does not try after a release
	Known time.Duration // how long a stranger that was seen is believed to wait
	Most  time.Duration // the same, if no pause was in vain since
	Brief time.Duration // a run of hand-overs is not over before this time
	Time  time.Duration // this side does not keep the object for longer
	// A client that has just had a turn tries later, by Defer and DeferEach for every
	// client that should have its turn. At most 20 clients count.
	Defer, DeferEach time.Duration
}

// Strangers says when a client leaves one object to strangers. There are two sides, the
// strangers and the clients of this library, and they have the object in turn. A stranger
// may take the object again right after its release, because its next thread need not
// wait for the message. Then this side may also have the object as often and for as long
// before it leaves a release to strangers. On this side, a client that had the object lets
// the others have it first. Make a Strangers with NewStrangers. It is not safe for
// concurrent use.
//
// Clients of an older version, or of a third library, may take what is left to strangers. If they do
// so for long and strangers seldom get it, nothing is left any more, except at a Look.
type Strangers struct {
	rules *Yielding // immutable

	state        strangersState
	wasSeen      bool    // a stranger was seen; otherwise it is only suspected
	seen         Instant // when a stranger had the object last
	pausedInVain bool    // since then a pause has ended without a stranger
	overtaken    uint8   // two for each pause in which a client that does not pause took it, less one for each that a stranger used; at most crowded

	// the strangers' last turns in a row
	streak int     // how many were seen
	since  Instant // when the object was left to the strangers
	ended  Instant // when the last stranger released it

	turns      int     // turns of this side since then
	took       Instant // when this client took the object from Redis last
	releasedAt Instant // in weReleased and leftToStrangers: when that state began

	others int // clients of this side that should have a turn before this one
}

// crowded is how often strangers are overtaken before nothing is left to them, if they get none of it.
// It is reached if they get less than two thirds.
const crowded = 16

// strangersState says which side has the object or may take it next, as far as this client knows.
type strangersState uint8

const (
	holderUnknown    strangersState = iota // no stranger has it, as far as is known; by Took, by a refusal
	strangerHolds                          // a stranger has it; by a refusal
	strangerReleased                       // that stranger has released it; by the next message
	weReleased                             // this side has released it, and may take it again; by Freed, by a message
	leftToStrangers                        // this side has released it, and leaves it to strangers; by Freed, by a message
)

// NewStrangers returns the Strangers of an object that a stranger had just now.
func NewStrangers(r *Yielding, now Instant) Strangers {
	return Strangers{rules: r, state: strangerHolds, wasSeen: true, seen: now, streak: 1, since: now}
}

// NewSuspected returns the Strangers of an object that was released just now. It makes
// one pause, in which a waiting stranger will be seen.
func NewSuspected(r *Yielding, now Instant) Strangers {
	return Strangers{rules: r, state: leftToStrangers, seen: now.Add(2*r.Pause - r.Known), pausedInVain: true, releasedAt: now}
}

// Refused records that a probe that began at began was refused by a stranger or by
// another holder.
func (s *Strangers) Refused(began, now Instant, stranger bool) {
	if stranger {
		s.seen, s.pausedInVain, s.wasSeen = now, false, true
	}
	switch {
	case s.state >= weReleased && began < s.releasedAt: // the answer is older than that release
	case stranger:
		s.theirTurn(now)
	default:
		s.noteUnusedPause()
		s.state, s.others = holderUnknown, max(s.others-1, 0)
	}
}

// theirTurn records that a stranger has the object.
func (s *Strangers) theirTurn(now Instant) {
	switch s.state {
	case strangerHolds:
		return
	case strangerReleased: // no client of this side was fast enough, so this client defers to none of them
		s.streak++
		s.others = 0
	default:
		s.streak, s.turns, s.since = 1, 0, now
		if s.state >= weReleased {
			s.since = s.releasedAt
		}
	}
	if s.state == leftToStrangers {
		s.overtaken -= min(s.overtaken, 1)
	}
	s.state = strangerHolds
}

// noteUnusedPause records that no stranger took the object that was left to it.
func (s *Strangers) noteUnusedPause() {
	if s.state == leftToStrangers && s.Near(s.releasedAt) {
		s.pausedInVain = true
	}
}

// Overtaken records that a probe that began at began was refused by a holder that is no stranger, whose
// lease ends after ttl. If that holder did not pause for strangers, it has overtaken them. Refused
// follows. Only a holder with the same lease as this client is recognized.
func (s *Strangers) Overtaken(began Instant, ttl time.Duration) {
	took := began.Add(ttl - s.rules.Lease)
	if s.state == leftToStrangers && began >= s.releasedAt && took > s.releasedAt.Add(-s.rules.Pause) && took < s.releasedAt.Add(s.rules.Pause*3/4) {
		s.overtaken = min(s.overtaken+2, crowded)
	}
}

// IsCrowded reports whether others than strangers take what is left to strangers.
func (s *Strangers) IsCrowded() bool { return s.overtaken == crowded }

// LeaveOnceMore leaves an object that was released just now to strangers once more, although others have
// taken it so often.
func (s *Strangers) LeaveOnceMore(now Instant) {
	s.state, s.releasedAt, s.overtaken = leftToStrangers, now, crowded-1
}

// leave leaves the object to strangers, if it is they who get it.
func (s *Strangers) leave(now Instant) {
	s.state, s.releasedAt = leftToStrangers, now
	if s.IsCrowded() {
		s.state = holderUnknown
	}
}

// Took records that this client has taken the object from Redis.
func (s *Strangers) Took(now Instant) {
	s.noteUnusedPause()
	s.state, s.took = holderUnknown, now
}

// NoWaiters records that Redis knew of no waiter, and the client keeps the object.
func (s *Strangers) NoWaiters(now Instant) { s.pausedInVain, s.took = true, now }

// Leaving records that a hold of this client is about to end. It reports whether the run
// of hand-overs that led to the hold is over, because a stranger waits.
func (s *Strangers) Leaving(now Instant) (over bool) {
	s.turns++
	return s.HasStranger() && s.Near(now) && !s.mayTakeTurn(now) && now > s.took.Add(s.rules.Brief)
}

// Freed records that a hold of this client has ended, and how many other clients were
// told. One of these is a stranger.
func (s *Strangers) Freed(now Instant, told int64) {
	s.noteRelease(now)
	s.others = int(min(max(told-1, 0), 20))
}

// noteRelease records that this side has released the object.
func (s *Strangers) noteRelease(now Instant) {
	s.leave(now)
	if s.state == leftToStrangers && s.mayTakeTurn(now) {
		s.state = weReleased
	}
}

// Heard records how many messages came since the last answered probe began. If messages is 0,
// some may have been missed. Only the first messages count. Further messages do not make a
// pause longer.
func (s *Strangers) Heard(now Instant, messages uint64) {
	switch {
	case s.state == strangerHolds && messages == 1:
		s.state, s.seen, s.ended = strangerReleased, now, now
	case s.state == holderUnknown && messages == 1:
		s.turns++
		s.noteRelease(now)
	case s.state == holderUnknown, s.state < weReleased && messages > 1:
		s.leave(now)
	}
}

// mayTakeTurn reports whether this side may have one more turn as long as its turns before. With
// it, this side must not have had more turns than the strangers, nor for longer.
func (s *Strangers) mayTakeTurn(now Instant) bool {
	if s.turns >= s.streak || s.turns == 0 || s.ended < s.since {
		return false
	}
	taken := time.Duration(now - s.ended)
	return taken+taken/time.Duration(s.turns) <= min(time.Duration(s.ended-s.since), s.rules.Time)
}

// Until returns when the client may try.
func (s *Strangers) Until() Instant {
	at, after := s.releasedAt, s.rules.Pause
	switch s.state {
	case holderUnknown, strangerHolds:
		return 0
	case strangerReleased:
		at, after = s.ended, s.deferral()
	case weReleased:
		after = s.deferral()
	}
	if !s.Near(at) {
		return 0
	}
	return at.Add(after)
}

// deferral returns how long other clients of this side go first.
func (s *Strangers) deferral() time.Duration {
	if s.others == 0 {
		return 0
	}
	return s.rules.Defer + time.Duration(s.others)*s.rules.DeferEach
}

// Near reports whether a stranger is believed to wait. If not, s can be dropped.
func (s *Strangers) Near(at Instant) bool {
	known := s.rules.Known
	if !s.pausedInVain {
		known = s.rules.Most
	}
	return at <= s.seen.Add(known)
}

// HasStranger reports whether a stranger was seen that gets what is left to it. If not, the clients of
// this library leave nothing to strangers, except for the one pause.
func (s *Strangers) HasStranger() bool { return s.wasSeen && !s.IsCrowded() }

// Seen returns when a stranger had the object last.
func (s *Strangers) Seen() Instant { return s.seen }
