package waitqueue

import "time"

// RunLimits limits a run, which is a number of hand-overs of an object inside one client,
// one after the other. It has limits because other clients wait too. Length 0 means
// no hand-overs.
type RunLimits struct {
	Length int           // the most hand-overs of a run
	Least  int           // a run has at most as many as callers wait, or Least if that is more
	Brief  time.Duration // a run that is shorter than Brief may have more hand-overs, up to Length
	Time   time.Duration // no hand-over after this time
}

// Leaving records that no call uses the hold h of that owner any more and that the hold
// must end now. It returns the caller that may get h by a hand-over, or nil if h must be
// released. If over is true, only a script may hand h over. That script releases the
// object if another client waits for it. yields ends the run in any case, because others
// wait that need the object. Handed or HoldEnded must follow, in the same step or when Redis
// has answered.
func (l *Line[O, H]) Leaving(o O, h H, now Instant, yields bool) (next *Caller[O, H], over bool, done Step[O, H]) {
	l.beginStep()
	n := l.groups.findHold(o, h)
	if n == nil || n.state == leaving {
		return nil, false, l.step
	}
	g := n.group
	n.state = leaving
	l.blocking--
	l.updateConcerned(g)
	if l.closed || l.kind != Exclusive || l.first == nil || l.first.isGranted() || l.limits.Length == 0 {
		return nil, false, l.step
	}
	n.endsRun = yields || l.isRunOver(now)
	return l.first, n.endsRun, l.step
}

func (l *Line[O, H]) isRunOver(now Instant) bool {
	if l.run.length == 0 {
		return false
	}
	all := l.run.length >= l.maxTurns()
	if all {
		l.run.wasBrief = now < l.run.start.Add(l.limits.Brief)
	}
	return all && !l.run.wasBrief || l.run.length >= l.limits.Length || now > l.run.start.Add(l.limits.Time)
}

// maxTurns returns how many hand-overs a run that is not brief may have.
func (l *Line[O, H]) maxTurns() int { return min(l.limits.Length, max(l.limits.Least, l.Len())) }

// RunLength returns how many hand-overs led to the present hold.
func (l *Line[O, H]) RunLength() int { return l.run.length }

// RunState is the state of a run.
type RunState struct {
	length   int // hand-overs that led to the present hold
	start    Instant
	wasBrief bool // when last all callers had had a turn in a run, the run had not taken Run.Brief
}

// Running reports whether a run led to the present hold.
func (r RunState) Running() bool { return r.length > 0 }

// SuspendRun returns the run that led to the present hold, for RestoreRun of the next Line. A
// run does not end because its Line is dropped.
func (l *Line[O, H]) SuspendRun() RunState { return l.run }

// RestoreRun makes r the run that led to the hold that was just given to AddHold.
func (l *Line[O, H]) RestoreRun(r RunState) { l.run = r }

// Ahead returns how many more hand-overs the run of the next hold may have. The next hold
// is handed over in the present run or, if over, as the first of another run.
func (l *Line[O, H]) Ahead(over bool) int {
	n := l.maxTurns()
	if l.run.wasBrief { // this run is brief, or the last one was
		n = l.limits.Length
	}
	if over {
		return n
	}
	return max(n-l.run.length-1, 0)
}

// Handed records that the hold to of next has replaced h. Leaving named next. If next has
// left, or the Line is closed, Step.PassOn has to.
func (l *Line[O, H]) Handed(o O, h H, next *Caller[O, H], to H, now Instant) Step[O, H] {
	l.beginStep()
	over := false
	if n := l.groups.findHold(o, h); n != nil {
		over = n.endsRun
		l.removeHold(n) // it was leaving, so no caller had the instruction to re-enter it
	}
	if over {
		l.run.length = 0
	} else if l.run.length++; l.run.length == 1 {
		l.run.start = now
	}
	g := l.groups.findOrAdd(next.Owner, &next.newGroup)
	if next.number == 0 || next.isGranted() || l.closed {
		l.addHold(g, &ownHold[O, H]{}, to, false, held)
		l.step.PassOn = append(l.step.PassOn, to)
	} else {
		l.addHold(g, &next.hold, to, false, granted)
		next.hold.caller = next
	}
	l.update(next)
	l.updateConcerned(g)
	return l.step
}
