package locktable

import (
	"maps"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
)

// A Redisson client that waits for a lock tries some milliseconds after the message of a
// release, because a JVM wakes up that slowly. Clients of this library would always have
// the lock by then. So where such a stranger waits, the two sides take turns.

const (
	// strangerPause is for how long a release is left to strangers: a JVM takes 1 to 3 ms.
	strangerPause = 5 * time.Millisecond
	// strangerKnown is for how long a stranger is believed to wait although it used no
	// pause. It may be in a garbage collection.
	strangerKnown = time.Second
	// strangerMost is for how long a stranger is believed to wait if no pause was in vain,
	// because holds are long.
	strangerMost = time.Minute
	// suspectEach is how often a client pauses for a stranger that it does not know,
	// because another subscriber was told of its release. A waiter does so after a hold of
	// that length.
	suspectEach = 250 * time.Millisecond
	// lookInterval and lookDuration: all clients also pause together, at one release at the beginning of
	// each half second. A client that did not pause would take the lock, and no stranger would be
	// seen. It costs a hundredth of the time at most.
	lookInterval = time.Second / 2
	lookDuration = 100 * time.Millisecond
	// mostStrangers is the most locks about whose strangers a shard knows.
	mostStrangers = 64
)

// yieldingOf says how clients with that lease let strangers have their turns.
func yieldingOf(lease time.Duration) waitqueue.Yielding {
	return waitqueue.Yielding{
		Lease: lease, Pause: strangerPause, Known: strangerKnown, Most: strangerMost, Brief: runBrief, Time: runTime,
		Defer: time.Millisecond, DeferEach: 250 * time.Microsecond,
	}
}

// strangers has a shard's knowledge of strangers, by the names of locks: of few locks, and for
// a short time. It outlives the queues, which end when their last waiter has gone.
type strangers map[string]*waitqueue.Strangers

// strangersLocked returns the strangers that wait for a lock, nil if none is known.
func (s *shard[H]) strangersLocked(name string) *waitqueue.Strangers {
	x := s.strangers[name]
	if x != nil && !x.Near(s.table.Now()) {
		delete(s.strangers, name)
		return nil
	}
	return x
}

// add notes the strangers of a lock that had no entry.
func (m *strangers) add(name string, x waitqueue.Strangers, now waitqueue.Instant) *waitqueue.Strangers {
	if *m == nil {
		*m = make(strangers)
	}
	if len(*m) >= mostStrangers {
		m.makeRoom(now)
	}
	(*m)[name] = &x
	return &x
}

// makeRoom deletes the entries that have expired. If there are none, it deletes the entry that
// was seen longest ago.
func (m *strangers) makeRoom(now waitqueue.Instant) {
	var oldest string
	var seen waitqueue.Instant
	for name, x := range *m {
		switch {
		case !x.Near(now):
			delete(*m, name)
		case oldest == "" || x.Seen() < seen:
			oldest, seen = name, x.Seen()
		}
	}
	if len(*m) >= mostStrangers {
		delete(*m, oldest)
	}
}

// refusedLocked notes that Redis refused w, and whether a stranger holds the lock. ttl is what is left of
// the holder's lease.
func (s *shard[H]) refusedLocked(w *Waiter[H], now waitqueue.Instant, ttl time.Duration) {
	if w.key.Kind != waitqueue.Exclusive {
		return
	}
	if x := s.strangersLocked(w.key.Name); x != nil {
		if !w.stranger {
			x.Overtaken(w.lastTryAt, ttl)
		}
		x.Refused(w.lastTryAt, now, w.stranger)
	} else if w.stranger {
		s.strangers.add(w.key.Name, waitqueue.NewStrangers(&s.table.yielding, now), now)
	}
}

// freedByUsLocked notes that the hold of a name has ended. It reports whether strangers may wait.
func (s *shard[H]) freedByUsLocked(name string, r RunEnd) (near bool) {
	now := s.table.Now()
	x := s.strangersLocked(name)
	switch {
	case x != nil:
		x.Freed(now, r.Others)
		if x.IsCrowded() && s.noteLookLocked(name, now, r.isLookTime) {
			x.LeaveOnceMore(now)
		}
	case r.Suspects:
		s.suspectLocked(name, now, r.isLookTime || now > s.suspected[name].Add(suspectEach))
	}
	return x != nil && x.HasStranger()
}

// suspected has, by the name of a lock, when the client last paused for strangers that it did not
// know. An entry counts for suspectEach.
type suspected map[string]waitqueue.Instant

// note notes a pause. It returns false if too many were noted lately.
func (m *suspected) note(name string, now waitqueue.Instant) bool {
	if *m == nil {
		*m = make(suspected)
	}
	if len(*m) >= mostStrangers {
		maps.DeleteFunc(*m, func(_ string, at waitqueue.Instant) bool { return now >= at.Add(suspectEach) })
	}
	if len(*m) >= mostStrangers {
		return false
	}
	(*m)[name] = now
	return true
}

// noteLookLocked reports whether the client pauses now to see whether a stranger takes a lock. It pauses if
// it is time for that, and at most once in lookDuration, so that all clients pause at the same release.
func (s *shard[H]) noteLookLocked(name string, now waitqueue.Instant, isTime bool) bool {
	at, noted := s.suspected[name]
	return isTime && (!noted || now >= at.Add(lookDuration)) && s.suspected.note(name, now)
}

// suspectLocked pauses for an unknown stranger of a lock if it is time for that.
func (s *shard[H]) suspectLocked(name string, now waitqueue.Instant, isTime bool) *waitqueue.Strangers {
	if !s.noteLookLocked(name, now, isTime) {
		return nil
	}
	return s.strangers.add(name, waitqueue.NewSuspected(&s.table.yielding, now), now)
}

// isTimeToLook reports whether it is the time, by the clock of the server of that lock, at which
// all clients pause for a stranger that they do not know.
func (t *Table[H]) isTimeToLook(name string) bool {
	now := time.Now().Add(t.cfg.Ahead(name))
	return now.Sub(now.Truncate(lookInterval)) < lookDuration
}

// yieldUntilLocked returns until when w leaves the object to strangers. If w's time is limited and ends
// before that, at end, it returns 0, because w would have no try at all.
func (w *Waiter[H]) yieldUntilLocked(end time.Time, limited bool, now waitqueue.Instant, isLookTime bool) waitqueue.Instant {
	if w.key.Kind != waitqueue.Exclusive {
		return 0
	}
	x := w.shard.strangersLocked(w.key.Name)
	messages, stood, news := w.q.probe.News(now)
	released := messages > 0 || w.q.probe.Deferred(now, strangerPause)
	switch {
	case x == nil && released:
		x = w.shard.suspectLocked(w.key.Name, now, isLookTime || stood >= suspectEach)
	case x == nil:
	case released && x.IsCrowded() && w.shard.noteLookLocked(w.key.Name, now, isLookTime):
		x.LeaveOnceMore(now)
	case news:
		x.Heard(now, messages)
	}
	if x == nil {
		return 0
	}
	if x.HasStranger() {
		w.q.probe.EndDeferral() // it would not see who has the lock meanwhile
	}
	until := x.Until()
	if limited && time.Until(end) <= time.Duration(until-now) {
		return 0
	}
	return until
}
