package waitqueue

import "time"

func nanos(t Instant) time.Duration { return time.Duration(t) }

// check looks at everything that must be true in every state.
func (w *world) check() {
	sc := w.sc
	ownerless := sc.kind >= Permits
	waitingProbes, perOwner := 0, [4]int{}
	for n := range sc.calls {
		i, c := int8(n), &w.calls[n]
		if !w.inLine(i) {
			continue
		}
		told := w.line.Instruction(&w.callers[i])
		if !sc.noTwin {
			if want := w.twin.instruction(i); told != want {
				w.wrong("caller %d is told %v, and by the twin %v", i, told, want)
			}
		}
		if c.phase == flying {
			perOwner[w.owner(i)]++
			if c.waited && !c.passes {
				waitingProbes++
			}
		}
		if c.phase == queued && c.asleep && !c.token && told != c.seen {
			w.wrong("caller %d sleeps on %v and was not woken for %v", i, c.seen, told)
		}
		switch mine, other := w.hasHold(w.owner(i), sc.calls[i].shared), w.hasHold(w.owner(i), true); {
		case ownerless || told.Do == DoTake:
		case w.line.closed:
			if told.Do != DoGiveUp {
				w.wrong("the client is closed and caller %d is told %v", i, told)
			}
		case mine && (told.Do != DoReenter || !w.holds[told.Hold].entered()):
			w.wrong("caller %d may re-enter and is told %v", i, told)
		case !mine && told.Do == DoReenter:
			w.wrong("caller %d is told to re-enter hold %d, which nobody has", i, told.Hold)
		case !mine && other && told.Do != DoGiveUp:
			w.wrong("caller %d would wait for its own owner and is told %v", i, told)
		}
	}
	if waitingProbes > 1 {
		w.wrong("%d callers that wait probe", waitingProbes)
	}
	for o, n := range perOwner {
		if n > 1 && !ownerless {
			w.wrong("owner %d probes %d times", o, n)
		}
	}
	for n := range w.holds {
		h := &w.holds[n]
		if h.at != inHand {
			continue
		}
		if w.line.closed {
			w.wrong("hold %d is handed to a caller that gives up", n)
		}
		i := int8(n) - maxCalls - 1
		if told := w.line.Instruction(&w.callers[i]); !w.inLine(i) || told.Do != DoTake || told.Hold != int8(n) {
			w.wrong("hold %d is nobody's: caller %d, which it was handed to, does not take it", n, i)
		}
	}
	w.checkDue()
}

// checkDue: while the object is free for the first in line, as far as the client
// can know, a probe is under way or due in time.
func (w *world) checkDue() {
	q := w.line.First()
	if q == nil || w.fault != "" {
		return
	}
	i := w.id(q)
	c := &w.calls[i]
	switch told := w.line.Instruction(q); told.Do {
	case DoWait:
		for _, h := range w.holds {
			if h.entered() {
				return
			}
		}
		if !w.ownerProbes(i) {
			w.wrong("caller %d is the first, this client has no hold, and it is told to wait", i)
		}
	case DoProbe:
		if b := w.bound(i); c.phase == queued && c.asleep && !c.token && c.until > b {
			w.wrong("caller %d sleeps for %d more, and must not for more than %d", i, min(c.until-w.now, 1000), b-w.now)
		}
	}
}

// bound is when the first in line probes at the latest.
func (w *world) bound(i int8) Instant {
	p := &w.sc.pacing
	poll := w.knownAt + Instant(p.MaxPoll)
	b := poll
	switch w.known {
	case knowsNothing:
		b = w.now
	case knowsTaken:
		if needs := max(w.sc.calls[i].needs, 1); w.spare >= needs {
			b = w.now
		} else if w.news {
			b = min(poll, max(w.newsAt, w.knownAt))
		}
	case knowsRefused:
		if needs := max(w.sc.calls[i].needs, 1); w.spare >= needs {
			b = w.now
			break
		}
		if w.knownHeard { // nothing was published until Upto
			b = max(b, min(w.heard.Upto+Instant(p.MaxPoll), w.knownAt+Instant(p.Quiet)))
		}
		if w.lease != 0 {
			b = min(b, w.lease)
		}
		if w.news {
			b = min(b, max(w.newsAt, w.knownAt))
		}
	case knowsUnknown:
		b = min(b, w.knownAt+Instant(p.Backoff(int(w.unknowns), 0)))
	}
	if w.noticed < w.deferTo {
		each := Instant(p.DeferEach) * Instant(w.deferTo-w.noticed)
		b = max(b, min(w.deferEnd, w.noticedAt+Instant(p.Defer)+each))
	}
	return max(b, w.begun+Instant(p.Pace))
}
