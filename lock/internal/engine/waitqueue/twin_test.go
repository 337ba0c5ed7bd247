package waitqueue

import (
	"slices"
	"time"
)

// twin is a slow second implementation of Line. It keeps no lists and nothing else
// that serves only speed. It works out every instruction from all callers and all
// holds each time.
type twin struct {
	kind      Kind
	limits    RunLimits
	off       bool // the twin gets no events
	closed    bool
	joined    uint64
	waitOrder int
	run       int
	start     Instant
	callers   []twinCaller // by arrival
	holds     []twinHold   // by age
	passed    []int8       // holds that are to be passed on
}

type twinCaller struct {
	id                  int8
	owner               int8
	shared, try         bool
	number, asked       uint64
	probing, fresh, may bool
	refused, served     bool
	waitOrder           int // when it joined the callers of its owner in the line; 0: never
	over                bool
	granted             int8
}

type twinHold struct {
	h, owner int8
	shared   bool
	over     bool // its run has ended
	state    ownHoldState
	to       int8
}

func (t *twin) copyFrom(s *twin) {
	callers, holds := append(t.callers[:0], s.callers...), append(t.holds[:0], s.holds...)
	*t = *s
	t.callers, t.holds, t.passed = callers, holds, nil
}

func (t *twin) at(id int8) *twinCaller {
	for i := range t.callers {
		if t.callers[i].id == id {
			return &t.callers[i]
		}
	}
	return nil
}

func (t *twin) holdAt(h int8) *twinHold {
	for i := range t.holds {
		if t.holds[i].h == h {
			return &t.holds[i]
		}
	}
	return nil
}

func (t *twin) owners() bool { return t.kind != Permits && t.kind != Latch }

// enters returns the oldest hold that an owner may re-enter.
func (t *twin) enters(owner int8, shared bool) int8 {
	for _, h := range t.holds {
		if h.owner == owner && h.shared == shared && h.state != leaving {
			return h.h
		}
	}
	return 0
}

func (t *twin) blocked() bool {
	return t.kind == Exclusive && slices.ContainsFunc(t.holds, func(h twinHold) bool { return h.state != leaving })
}

func (t *twin) line() (out []*twinCaller) {
	for i := range t.callers {
		if c := &t.callers[i]; !c.try && !c.served {
			out = append(out, c)
		}
	}
	return out
}

func (t *twin) first() *twinCaller {
	for i := range t.callers {
		if c := &t.callers[i]; !c.try && !c.served {
			return c
		}
	}
	return nil
}

// ownerProbes reports whether another probe of c's owner is under way.
func (t *twin) ownerProbes(c *twinCaller) bool {
	for _, x := range t.callers {
		if t.owners() && x.probing && x.owner == c.owner && x.id != c.id {
			return true
		}
	}
	return false
}

// mayProbeBesideLine reports whether c may probe beside the line and has not begun.
func (t *twin) mayProbeBesideLine(c *twinCaller) bool {
	if c.probing || c.over || c.refused || c.served {
		return false
	}
	return c.try || c.fresh && (c.shared && t.kind == ReadWrite || t.kind == QueueInRedis)
}

func (t *twin) isFirstBesideLine(c *twinCaller) bool {
	for i := range t.callers {
		if x := &t.callers[i]; x.owner == c.owner && x.shared == c.shared && t.mayProbeBesideLine(x) {
			return x.id == c.id
		}
	}
	return false
}

func (t *twin) firstReaderOfWriter(c *twinCaller) bool {
	for i := range t.callers {
		if x := &t.callers[i]; x.owner == c.owner && x.shared && x.waitOrder > 0 && x.waitOrder < c.waitOrder {
			return false
		}
	}
	return c.shared && c.waitOrder > 0
}

func (t *twin) mustWait(c *twinCaller) bool {
	if t.kind == QueueInRedis {
		return false
	}
	for _, x := range t.callers {
		if x.try || x.served || x.fresh {
			continue
		}
		if t.kind == ReadWrite && c.shared && (x.shared || t.enters(c.owner, false) != 0) {
			continue
		}
		return true
	}
	return false
}

func (t *twin) instruction(id int8) Instruction[int8] {
	c := t.at(id)
	if c == nil {
		return Instruction[int8]{}
	}
	if c.granted != 0 {
		return Instruction[int8]{DoTake, c.granted}
	}
	if c.served {
		return Instruction[int8]{Do: DoReturn}
	}
	if t.closed {
		return Instruction[int8]{Do: DoGiveUp}
	}
	if t.owners() {
		if h := t.enters(c.owner, c.shared); h != 0 {
			return Instruction[int8]{DoReenter, h}
		}
		if h := t.enters(c.owner, true); h != 0 {
			return Instruction[int8]{DoGiveUp, h}
		}
	}
	probe := Instruction[int8]{Do: DoProbe}
	switch {
	case c.refused:
		return Instruction[int8]{Do: DoRefuse}
	case c.probing:
		return probe
	case t.kind == QueueInRedis && !c.try && !c.fresh:
		return probe
	case t.ownerProbes(c):
	case t.kind != QueueInRedis && t.first() != nil && t.first().id == id:
		if !t.blocked() {
			return probe
		}
	case !t.owners():
		if c.fresh || c.may {
			return probe
		}
	case t.mayProbeBesideLine(c):
		if t.isFirstBesideLine(c) {
			return probe
		}
	case c.shared && t.enters(c.owner, false) != 0 && t.firstReaderOfWriter(c):
		return probe
	}
	return Instruction[int8]{}
}

// decideOnce makes the decisions that are made only once.
func (t *twin) decideOnce() {
	if f := t.first(); f != nil && f.fresh && !f.probing && t.blocked() {
		f.fresh = false
	}
	for again := true; again; {
		again = false
		for i := range t.callers {
			c := &t.callers[i]
			if !c.try || c.may || !t.mayProbeBesideLine(c) || t.owners() && (!t.isFirstBesideLine(c) || t.ownerProbes(c)) {
				continue
			}
			if t.mustWait(c) {
				c.refused, again = true, true
			} else {
				c.may = true
			}
		}
	}
}

func (t *twin) waits(c *twinCaller) {
	c.fresh = false
	if c.waitOrder == 0 {
		t.waitOrder++
		c.waitOrder = t.waitOrder
	}
}

func (t *twin) join(id, owner int8, shared, try bool) {
	if t.off {
		return
	}
	t.joined++
	c := twinCaller{id: id, owner: owner, shared: shared, try: try, number: t.joined}
	line := t.line()
	if !try {
		switch t.kind {
		case Exclusive:
			c.fresh = len(line) == 0 && !t.blocked()
		case ReadWrite:
			c.fresh = len(line) == 0 || shared && !slices.ContainsFunc(line, func(x *twinCaller) bool { return !x.shared })
		case Permits:
			c.fresh = !slices.ContainsFunc(line, func(x *twinCaller) bool { return !x.fresh })
		case QueueInRedis:
			c.fresh = true
		}
		if !c.fresh || !shared && t.kind != QueueInRedis {
			t.waitOrder++
			c.waitOrder = t.waitOrder
		}
	}
	t.callers = append(t.callers, c)
	t.decideOnce()
}

func (t *twin) began(id int8) {
	if t.off {
		return
	}
	c := t.at(id)
	c.probing, c.asked = true, t.joined
	t.decideOnce()
}

func (t *twin) ended(id int8, definite bool) {
	if t.off {
		return
	}
	c := t.at(id)
	c.probing, c.over = false, true
	if c.try {
		c.refused = true
	} else {
		t.waits(c)
	}
	if definite && t.owners() {
		for i := range t.callers {
			if x := &t.callers[i]; x.owner == c.owner && x.shared == c.shared && t.mayProbeBesideLine(x) && x.number <= c.asked {
				if x.try {
					x.refused = true
				} else {
					t.waits(x)
				}
			}
		}
	}
	t.decideOnce()
}

func (t *twin) opened(id int8) {
	if t.off {
		return
	}
	asked := t.at(id).asked
	for i := range t.callers {
		if c := &t.callers[i]; c.number <= asked {
			c.served = true
		}
	}
	t.at(id).probing = false
	t.decideOnce()
}

// passOn passes on a hold that was handed to c, because c does not take it.
func (t *twin) passOn(c *twinCaller) {
	t.holdAt(c.granted).state = held
	t.passed = append(t.passed, c.granted)
	c.granted = 0
}

func (t *twin) remove(id int8) {
	t.callers = slices.DeleteFunc(t.callers, func(c twinCaller) bool { return c.id == id })
}

func (t *twin) leave(id int8) {
	if t.off {
		return
	}
	if c := t.at(id); c != nil {
		if c.granted != 0 {
			t.passOn(c)
		}
		t.remove(id)
		t.decideOnce()
	}
}

func (t *twin) took(id, h int8) {
	if t.off {
		return
	}
	c := t.at(id)
	n := twinHold{h: h, owner: c.owner, shared: c.shared}
	if t.closed {
		t.passed = append(t.passed, h)
	}
	t.holds = append(t.holds, n)
	t.run = 0
	t.leave(id)
}

func (t *twin) held(owner int8, shared bool, h int8) {
	t.holds = append(t.holds, twinHold{h: h, owner: owner, shared: shared})
	t.decideOnce()
}

func (t *twin) take(id int8) {
	if t.off {
		return
	}
	c := t.at(id)
	t.holdAt(c.granted).state = held
	t.remove(id)
	t.decideOnce()
}

// leaving returns the successor, or -1, and whether the run is over.
func (t *twin) leaving(h int8, now Instant, yields bool) (next int8, over bool) {
	if t.off {
		return -1, false
	}
	n := t.holdAt(h)
	if n == nil || n.state == leaving {
		return -1, false
	}
	n.state = leaving
	t.decideOnce()
	f := t.first()
	if t.closed || t.kind != Exclusive || f == nil || f.granted != 0 || t.limits.Length == 0 {
		return -1, false
	}
	switch ran := time.Duration(now - t.start); {
	case yields:
		n.over = true
	case t.run == 0:
		n.over = false
	case t.run >= t.limits.Length, ran > t.limits.Time:
		n.over = true
	case ran < t.limits.Brief:
		n.over = false
	default:
		n.over = t.run >= max(t.limits.Least, len(t.line()))
	}
	return f.id, n.over
}

func (t *twin) handed(h, next, owner, to int8, now Instant) {
	if t.off {
		return
	}
	from := t.holdAt(h)
	if t.run++; from != nil && from.over {
		t.run = 0
	}
	if t.run == 1 {
		t.start = now
	}
	t.holds = slices.DeleteFunc(t.holds, func(n twinHold) bool { return n.h == h })
	n := twinHold{h: to, owner: owner, state: granted, to: next}
	if c := t.at(next); c == nil || c.granted != 0 || t.closed {
		n.state = held
		t.passed = append(t.passed, to)
	} else {
		c.granted = to
	}
	t.holds = append(t.holds, n)
	t.decideOnce()
}

func (t *twin) gone(h int8) {
	if t.off {
		return
	}
	n := t.holdAt(h)
	if n == nil {
		return
	}
	if n.state == granted {
		t.at(n.to).granted = 0
	}
	t.holds = slices.DeleteFunc(t.holds, func(n twinHold) bool { return n.h == h })
	if len(t.holds) == 0 {
		t.run = 0
	}
	t.decideOnce()
}

func (t *twin) close() {
	if t.off {
		return
	}
	t.closed = true
	for i := range t.callers {
		if c := &t.callers[i]; c.granted != 0 {
			t.passOn(c)
		}
	}
	t.decideOnce()
}
