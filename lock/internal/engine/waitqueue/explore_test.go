package waitqueue

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// code writes a state. Two worlds have the same code if and only if they have the same
// possible futures. So times count from now, all past times are equal, and counters that
// are only compared are written as their order.
type code struct {
	b   []byte
	now Instant
}

func (e *code) put(vs ...int8) {
	for _, v := range vs {
		e.b = append(e.b, byte(v))
	}
}

func (e *code) bits(bs ...bool) {
	var v byte
	for i, b := range bs {
		if b {
			v |= 1 << i
		}
	}
	e.b = append(e.b, v)
}

// time writes a time. All times further past than oldest are equal.
func (e *code) time(t, oldest Instant) {
	switch t {
	case 0:
		e.put(-128)
	case forever:
		e.put(127)
	default:
		e.put(int8(max(t-e.now, -oldest)))
	}
}

func (e *code) in(in Instruction[int8]) { e.put(int8(in.Do), in.Hold) }

// encode appends the state of w to b.
func (w *world) encode(b []byte) []byte {
	e := &code{b, w.now}
	pacing := &w.sc.pacing
	l, p := &w.line, &w.probe
	bl := w.left
	e.put(bl.unknown, bl.late, bl.lost, bl.deaf, bl.silent, bl.close, w.other, w.free, w.taken, w.messages)
	e.put(w.ghosts[0], w.ghosts[1], w.late[0], w.late[1], int8(l.run.length), w.runs)
	if w.other != 0 {
		e.time(w.otherEnd, 0)
	}
	e.bits(w.subscribed, l.closed, p.isTaken, p.isReleasing, w.up, p.heard.Confirmed != w.heard.Confirmed,
		p.heard.Messages != w.heard.Messages)
	e.time(p.began, Instant(pacing.Pace))
	if p.isTaken {
		e.time(p.latest, 0)
		e.time(p.lease, 0)
		e.put(int8(p.left), int8(min(p.unknowns, 3)))
		if !p.isReleasing {
			e.bits(p.mark.messages != w.heard.Messages, p.mark.confirmed == 0, p.mark.confirmed != w.heard.Confirmed)
		}
	}
	if pacing.Quiet > 0 {
		e.time(p.at, Instant(pacing.Quiet))
		e.time(w.heard.Upto, Instant(pacing.MaxPoll))
		e.bits(p.heard.Upto == w.heard.Upto)
	}
	toGo := func(to uint64) int8 { return int8(to - min(to, w.heard.Messages)) }
	e.put(toGo(p.deferTo), toGo(w.deferTo))
	if past := Instant(pacing.Defer + 4*pacing.DeferEach); p.deferTo > p.heard.Messages || w.deferTo > w.noticed {
		e.put(int8(min(w.heard.Messages-w.noticed, 2)), int8(min(w.heard.Messages-p.heard.Messages, 2)))
		e.time(p.deferEnd, 0)
		e.time(w.deferEnd, 0)
		e.time(p.freedAt, past)
		e.time(w.noticedAt, past)
	}
	// the knowledge outside Probe
	e.put(w.known, w.spare)
	e.time(w.begun, Instant(pacing.Pace))
	if w.known != knowsNothing {
		e.time(w.knownAt, Instant(max(pacing.MaxPoll, pacing.Quiet)))
		e.time(w.lease, 0)
		e.put(min(w.unknowns, 3))
		e.bits(w.news, w.knownHeard)
	}
	var here uint8
	for n := range w.sc.calls {
		if w.inLine(int8(n)) {
			here |= 1 << n
		}
	}
	came := func(upTo uint64) (mask uint8) {
		for n := range w.sc.calls {
			if w.inLine(int8(n)) && w.callers[n].number <= upTo {
				mask |= 1 << n
			}
		}
		return mask
	}
	for n := range w.sc.calls {
		i, c, q := int8(n), &w.calls[n], &w.callers[n]
		e.put(int8(c.phase))
		if c.phase == having || c.phase == reentering {
			e.put(c.hold)
		}
		if !w.inLine(i) {
			continue
		}
		e.bits(c.asleep, c.token, c.waited, q.isProbing, q.isFresh, q.mayProbe, q.isRefused, q.foundOpen)
		e.in(w.line.Instruction(q))
		e.put(int8(c.before&here), int8(came(q.number)), c.outcome)
		if c.asleep && !c.token {
			e.time(c.until, 0)
		}
		if c.phase == flying {
			e.put(int8(c.probedAsked&here), int8(came(q.probedUpTo)))
			e.bits(c.executed, c.yes, c.passes)
			if c.executed {
				e.put(c.left, int8(c.ttl))
			}
			counts, known := c.mark.number >= p.mark.number, c.epoch == w.epoch && c.order >= w.latest
			e.bits(counts, known)
			if counts || known {
				rank := int8(0)
				for d := range w.sc.calls {
					if o := &w.calls[d]; o.phase == flying && o.order < c.order {
						rank++
					}
				}
				e.put(rank)
				e.bits(c.news, c.heard, c.mark.messages != w.heard.Messages, c.mark.confirmed != w.heard.Confirmed, c.mark.confirmed == 0)
			}
		}
	}
	for n := range w.holds {
		if h := &w.holds[n]; h.at != noHold || h.redis {
			e.put(int8(n), int8(h.at), h.count, h.to, h.as)
			e.bits(h.redis, h.executed, h.ok, h.runOver, h.over, h.told)
		}
	}
	// the order in line, and of the callers that an owner lets read
	for c := l.first; c != nil; c = c.next {
		e.put(w.id(c))
	}
	e.put(-2)
	if w.sc.kind == ReadWrite {
		for n := range w.sc.calls {
			if q := &w.callers[n]; q.list != nil && q.group != nil && q.list == &q.group.inLine[1] && q.listPrev == nil {
				for c := q; c != nil; c = c.listNext {
					e.put(w.id(c))
				}
			}
		}
		e.put(-3)
		for n := range w.sc.calls {
			for h := w.callers[n].newGroup.holds; h != nil && w.callers[n].newGroup.members > 0; h = h.next {
				e.put(h.h, int8(h.state))
			}
		}
	}
	return e.b
}

// result is what an exploration has found.
type result struct {
	states, steps int
	fixed         bool // every reachable state was visited
	depth         int
	story         []string // the shortest story to a wrong state
	wrong         string
}

func (r result) String() string {
	if r.wrong == "" {
		return fmt.Sprintf("%d states, %d steps, depth %d, all: %v", r.states, r.steps, r.depth, r.fixed)
	}
	return fmt.Sprintf("after %d states: %s\n  %s", r.states, r.wrong, strings.Join(r.story, "\n  "))
}

// explore visits every state that can be reached, breadth first, until one is
// wrong or limit states were visited.
func explore(sc *scenario, limit int) (r result) {
	type origin struct {
		from int32
		by   event
	}
	seed1, seed2 := maphash.MakeSeed(), maphash.MakeSeed()
	seen := make(map[[2]uint64]struct{}, min(limit, 1<<20))
	var origins []origin
	var spare []*world
	var buf []byte
	visit := func(w *world, o origin) bool {
		buf = w.encode(buf[:0])
		key := [2]uint64{maphash.Bytes(seed1, buf), maphash.Bytes(seed2, buf)}
		if _, ok := seen[key]; ok {
			return false
		}
		seen[key] = struct{}{}
		origins = append(origins, o)
		return true
	}
	tell := func(i int32, last event) (story []string) {
		story = append(story, last.String())
		for ; i > 0; i = origins[i].from {
			story = append(story, origins[i].by.String())
		}
		slices.Reverse(story)
		return story
	}
	type place struct {
		w *world
		i int32
	}
	first := newWorld(sc)
	visit(first, origin{})
	level := []place{{first, 0}}
	var events []event
	next := &world{}
	for len(level) > 0 {
		var below []place
		for _, at := range level {
			events = at.w.events(events[:0])
			for _, ev := range events {
				next.copyFrom(at.w)
				next.apply(ev)
				r.steps++
				if next.fault != "" {
					r.states, r.wrong, r.story = len(origins), next.fault, tell(at.i, ev)
					return r
				}
				if visit(next, origin{at.i, ev}) {
					below = append(below, place{next, int32(len(origins) - 1)})
					if n := len(spare); n > 0 {
						next, spare = spare[n-1], spare[:n-1]
					} else {
						next = &world{}
					}
				}
			}
			spare = append(spare, at.w)
			if len(origins) >= limit {
				r.states = len(origins)
				return r
			}
		}
		level = below
		r.depth++
	}
	r.states, r.fixed = len(origins), true
	return r
}
