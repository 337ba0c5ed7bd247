package waitqueue

// instructionFor returns what c must do. No other function decides that.
func (l *Line[O, H]) instructionFor(c *Caller[O, H]) Instruction[H] {
	g := c.group
	switch {
	case c.isGranted():
		return Instruction[H]{DoTake, c.hold.h}
	case c.foundOpen:
		return Instruction[H]{Do: DoReturn}
	case l.closed:
		return Instruction[H]{Do: DoGiveUp}
	}
	if g != nil {
		if n := g.reenterable(c.Shared); n != nil {
			return Instruction[H]{DoReenter, n.h}
		}
		if n := g.reenterable(true); n != nil {
			return Instruction[H]{DoGiveUp, n.h} // the owner would wait for itself
		}
	}
	switch {
	case c.isRefused:
		return Instruction[H]{Do: DoRefuse}
	case c.isProbing:
		return Instruction[H]{Do: DoProbe}
	case l.kind == QueueInRedis && !c.NoWait && !c.isFresh:
		return Instruction[H]{Do: DoProbe} // its probes keep its place in Redis
	case g != nil && g.probes > 0:
		// One owner has one probe at a time, because the hold of the first would
		// refuse the second.
	case l.kind != QueueInRedis && c == l.first:
		if l.kind != Exclusive || l.blocking == 0 {
			return Instruction[H]{Do: DoProbe}
		}
	case g == nil && (c.isFresh || c.mayProbe):
		return Instruction[H]{Do: DoProbe}
	case g != nil && c.list == &g.besideLine[modeOf(c.Shared)] && c == c.list.first:
		return Instruction[H]{Do: DoProbe}
	case g != nil && c.Shared && c == g.inLine[1].first && g.reenterable(false) != nil:
		return Instruction[H]{Do: DoProbe} // its owner writes, and may read too
	}
	return Instruction[H]{}
}

// mustWait reports whether c, which does not wait, would have to wait for the
// callers that wait now.
func (l *Line[O, H]) mustWait(c *Caller[O, H]) bool {
	if c.Shared && l.kind.hasReaders() {
		return l.waiting[0] > 0 && c.group.reenterable(false) == nil
	}
	if l.kind == QueueInRedis {
		return false // Redis has the order
	}
	return l.waiting[0]+l.waiting[1] > 0
}

// admitBesideLine decides whether the first callers of g beside the line may probe. It does
// nothing while another probe of g's owner runs.
func (l *Line[O, H]) admitBesideLine(g *ownerGroup[O, H]) {
	for m := range g.besideLine {
		for g.probes == 0 {
			c := g.besideLine[m].first
			if c == nil || !c.NoWait || c.mayProbe {
				break
			}
			if !l.mustWait(c) {
				c.mayProbe = true
				break
			}
			c.refuse()
			l.update(c)
		}
	}
}

// update computes c's instruction. If it has changed, c is in Step.Wake.
func (l *Line[O, H]) update(c *Caller[O, H]) {
	if c == nil || c.number == 0 {
		return
	}
	in := l.instructionFor(c)
	if l.testRule != nil {
		in = l.testRule(l, c, in)
	}
	if in != c.instruction {
		c.instruction = in
		l.step.Wake = append(l.step.Wake, c)
	}
}

// updateFirsts updates the callers of g that a probe of their owner concerns.
func (l *Line[O, H]) updateFirsts(g *ownerGroup[O, H]) {
	l.update(l.first)
	l.update(g.besideLine[0].first)
	l.update(g.besideLine[1].first)
	l.update(g.inLine[1].first)
}

// updateConcerned updates the callers that the end of a probe, or a change of g's holds, may
// concern.
func (l *Line[O, H]) updateConcerned(g *ownerGroup[O, H]) {
	if f := l.first; f != nil && f.isFresh && !f.isProbing && l.kind == Exclusive && l.blocking > 0 {
		l.startWaiting(f)
	}
	if g != nil {
		l.admitBesideLine(g)
		l.updateReentrants(g)
		l.updateFirsts(g)
	}
	l.update(l.first)
}

// updateReentrants updates all callers of an owner if the hold that they re-enter has
// changed.
func (l *Line[O, H]) updateReentrants(g *ownerGroup[O, H]) {
	writes, reads := g.reenterable(false) != g.lastReenterable[0], g.reenterable(true) != g.lastReenterable[1]
	if !writes && !reads {
		return
	}
	g.lastReenterable = [2]*ownHold[O, H]{g.reenterable(false), g.reenterable(true)}
	l.update(g.unlisted)
	for m := range g.inLine {
		if m == 1 && !reads {
			break // only readers re-enter a hold of readers
		}
		for _, list := range []*list[O, H]{&g.inLine[m], &g.besideLine[m], &g.refused[m]} {
			for c := list.first; c != nil; c = c.listNext {
				l.update(c)
			}
		}
	}
}
