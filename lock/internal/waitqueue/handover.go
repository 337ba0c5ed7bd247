package waitqueue

import "time"

// Run bounds the hand-overs of an object inside one client, one after the other:
// others wait too. Length 0 means none.
type Run struct {
	Length int           // at most so many
	Least  int           // no more than so many, if that is more than wait
	Brief  time.Duration // or more, while they have not taken as long as that
	Time   time.Duration // and not after so long
}

// Leaving notes that nobody has the hold h of that owner any more and that it is
// to end now. It returns the caller that h may be handed to, or nil if h is to be
// released. If the run is over, only a script may hand it over that lets other
// clients have their turn first: it releases the object where one of them waits.
// yields: the run is over in any case, because others wait that are in need of it.
// Handed or Gone comes next, in the same step or when Redis has answered.
func (l *Line[O, H]) Leaving(o O, h H, now Instant, yields bool) (next *Caller[O, H], over bool, done Step[O, H]) {
	l.begin()
	n := l.parties.hold(o, h)
	if n == nil || n.state == leaving {
		return nil, false, l.step
	}
	p := n.party
	n.state = leaving
	l.blocking--
	l.after(p)
	if l.closed || l.kind != Exclusive || l.first == nil || l.first.granted || l.limits.Length == 0 {
		return nil, false, l.step
	}
	n.over = yields || l.runOver(now)
	return l.first, n.over, l.step
}

func (l *Line[O, H]) runOver(now Instant) bool {
	if l.run == 0 {
		return false
	}
	all := l.run >= l.turns()
	if all {
		l.brief = now < l.runStart.Add(l.limits.Brief)
	}
	return all && !l.brief || l.run >= l.limits.Length || now > l.runStart.Add(l.limits.Time)
}

// turns is how many hand-overs a run may have that is not brief.
func (l *Line[O, H]) turns() int { return min(l.limits.Length, max(l.limits.Least, l.Len())) }

// Run is how many hand-overs led to the present hold.
func (l *Line[O, H]) Run() int { return l.run }

// Sofar is what is known of a run while nobody is in line.
type Sofar struct {
	run   int // 0: there is none
	start Instant
	brief bool
}

// Running reports whether a run led to the present hold.
func (r Sofar) Running() bool { return r.run > 0 }

// Pause returns the run that led to the present hold, for Resume of the next Line: a
// Line that is dropped ends no run.
func (l *Line[O, H]) Pause() Sofar {
	if l.run == 0 {
		return Sofar{}
	}
	return Sofar{l.run, l.runStart, l.brief}
}

// Resume makes r the run that led to the hold of which Held has just told.
func (l *Line[O, H]) Resume(r Sofar) { l.run, l.runStart, l.brief = r.run, r.start, r.brief }

// Ahead is how many more hand-overs there may be in the run of the next hold: of one
// that is handed over, in the present run or as the first of another.
func (l *Line[O, H]) Ahead(over bool) int {
	n := l.turns()
	if l.brief { // the run is, or the last one was
		n = l.limits.Length
	}
	if over {
		return n
	}
	return max(n-l.run-1, 0)
}

// Handed notes that next's hold to has taken the place of h, which next was to
// get by Leaving. If next has left, or the Line is closed, to is passed on.
func (l *Line[O, H]) Handed(o O, h H, next *Caller[O, H], to H, now Instant) Step[O, H] {
	l.begin()
	over := false
	if n := l.parties.hold(o, h); n != nil {
		over = n.over
		l.unhold(n) // it was leaving: nobody was told to re-enter it
	}
	if over {
		l.run = 0
	} else if l.run++; l.run == 1 {
		l.runStart = now
	}
	p := l.parties.found(next.Owner, &next.founded)
	if next.number == 0 || next.granted || l.closed {
		l.hold(p, &holding[O, H]{}, to, false, held)
		l.step.PassOn = append(l.step.PassOn, to)
	} else {
		next.granted = true
		l.hold(p, &next.own, to, false, granted)
		next.own.caller = next
	}
	l.look(next)
	l.after(p)
	return l.step
}
