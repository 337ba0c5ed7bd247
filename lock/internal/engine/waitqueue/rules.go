package waitqueue

// rule returns what c must do. No other function decides that.
func (l *Line[O, H]) rule(c *Caller[O, H]) Instruction[H] {
	p := c.party
	switch {
	case c.granted:
		return Instruction[H]{DoTake, c.own.h}
	case c.served:
		return Instruction[H]{Do: DoReturn}
	case l.closed:
		return Instruction[H]{Do: DoGiveUp}
	}
	if p != nil {
		if n := p.entered(c.Shared); n != nil {
			return Instruction[H]{DoReenter, n.h}
		}
		if n := p.entered(true); n != nil {
			return Instruction[H]{DoGiveUp, n.h} // the owner would wait for itself
		}
	}
	switch {
	case c.refused:
		return Instruction[H]{Do: DoRefuse}
	case c.probing:
		return Instruction[H]{Do: DoProbe}
	case l.kind == QueueInRedis && !c.Try && !c.fresh:
		return Instruction[H]{Do: DoProbe} // its probes keep its place in Redis
	case p != nil && p.probes > 0:
		// One owner has one probe at a time, because the hold of the first would
		// refuse the second.
	case l.kind != QueueInRedis && c == l.first:
		if l.kind != Exclusive || l.blocking == 0 {
			return Instruction[H]{Do: DoProbe}
		}
	case p == nil && (c.fresh || c.may):
		return Instruction[H]{Do: DoProbe}
	case p != nil && c.list == &p.aside[mode(c.Shared)] && c == c.list.first:
		return Instruction[H]{Do: DoProbe}
	case p != nil && c.Shared && c == p.line[1].first && p.entered(false) != nil:
		return Instruction[H]{Do: DoProbe} // its owner writes, and may read too
	}
	return Instruction[H]{}
}

// mustWait reports whether c, which does not wait, would have to wait for the
// callers that wait now.
func (l *Line[O, H]) mustWait(c *Caller[O, H]) bool {
	if c.Shared && l.kind.hasReaders() {
		return l.waiting[0] > 0 && c.party.entered(false) == nil
	}
	if l.kind == QueueInRedis {
		return false // Redis has the order
	}
	return l.waiting[0]+l.waiting[1] > 0
}

// advance decides, when no other probe of p's owner runs, whether the first callers
// of p beside the line may probe.
func (l *Line[O, H]) advance(p *party[O, H]) {
	for m := range p.aside {
		for p.probes == 0 {
			c := p.aside[m].first
			if c == nil || !c.Try || c.may {
				break
			}
			if !l.mustWait(c) {
				c.may = true
				break
			}
			c.refuse()
			l.look(c)
		}
	}
}

// look computes c's instruction. If it has changed, c is in Step.Wake.
func (l *Line[O, H]) look(c *Caller[O, H]) {
	if c == nil || c.number == 0 {
		return
	}
	l.looks++
	in := l.rule(c)
	if l.bent != nil {
		in = l.bent(l, c, in)
	}
	if in != c.told {
		c.told = in
		l.step.Wake = append(l.step.Wake, c)
	}
}

// lookFirsts looks at the callers of p that a probe of their owner concerns.
func (l *Line[O, H]) lookFirsts(p *party[O, H]) {
	l.look(l.first)
	l.look(p.aside[0].first)
	l.look(p.aside[1].first)
	l.look(p.line[1].first)
}

// after looks at the callers that the end of a probe, or a change of p's holds, may
// concern.
func (l *Line[O, H]) after(p *party[O, H]) {
	if f := l.first; f != nil && f.fresh && !f.probing && l.kind == Exclusive && l.blocking > 0 {
		l.settle(f)
	}
	if p != nil {
		l.advance(p)
		l.afterHold(p)
		l.lookFirsts(p)
	}
	l.look(l.first)
}

// afterHold looks at all callers of an owner if the hold that they re-enter has
// changed.
func (l *Line[O, H]) afterHold(p *party[O, H]) {
	writes, reads := p.entered(false) != p.told[0], p.entered(true) != p.told[1]
	if !writes && !reads {
		return
	}
	p.told = [2]*holding[O, H]{p.entered(false), p.entered(true)}
	l.look(p.unlisted)
	for m := range p.line {
		if m == 1 && !reads {
			break // only readers re-enter a hold of readers
		}
		for _, list := range []*list[O, H]{&p.line[m], &p.aside[m], &p.over[m]} {
			for c := list.first; c != nil; c = c.listNext {
				l.look(c)
			}
		}
	}
}
