package twin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
)

// code writes a state so that two worlds have the same if, and only if, the same
// can come of them: times count from now, and what is past is past.
type code struct {
	b     []byte
	parts []int // where those of a set begin
	ids   [maxSeqs]int8
	met   int8
}

func (e *code) put(vs ...int8) {
	for _, v := range vs {
		e.b = append(e.b, byte(v))
	}
}

// time is one of a clock that says now; 0 is never.
func (e *code) time(t, now int64) {
	if t == 0 {
		e.put(-128)
		return
	}
	e.put(int8(max(t-now, -1)))
}

// age is how long ago something was; 0 is never.
func (e *code) age(t, now int64) {
	if t == 0 {
		e.put(-1)
		return
	}
	e.put(int8(min(now-t, 100)))
}

func truth(b bool) int8 { return int8(flag(b)) }

// id writes the number of a field as the place at which it is first met, so that it
// makes no difference which numbers were free.
func (e *code) id(seq int8) {
	if seq < 0 {
		e.put(none)
		return
	}
	if e.ids[seq] == 0 {
		e.met++
		e.ids[seq] = e.met
	}
	e.put(e.ids[seq])
}

// token is one of which is written how far it is ahead of the time, to which the server's
// clock may yet be set back.
func (e *code) token(t int64, w *world) {
	if w.sc.tokens {
		base := (w.clock() - int64(w.left.jumps)*w.sc.jump) * tokenUnit
		e.b = binary.LittleEndian.AppendUint16(e.b, uint16(max(t-base+1, 0)))
	}
}

// part begins a part of a set.
func (e *code) part() { e.parts = append(e.parts, len(e.b)) }

// sorted ends a set, whose parts come in any order.
func (e *code) sorted() {
	n := len(e.parts)
	if n == 0 {
		e.put(0)
		return
	}
	all := bytes.Clone(e.b[e.parts[0]:])
	parts := make([][]byte, n)
	for i, at := range e.parts {
		to := len(e.b)
		if i+1 < n {
			to = e.parts[i+1]
		}
		parts[i] = all[at-e.parts[0] : to-e.parts[0]]
	}
	slices.SortFunc(parts, bytes.Compare)
	e.b = e.b[:e.parts[0]]
	e.put(int8(n))
	for _, p := range parts {
		e.b = append(append(e.b, byte(len(p))), p...)
	}
	e.parts = e.parts[:0]
}

// encode appends the state of w to e.
func (w *world) encode(e *code) {
	clock := w.clock()
	e.put(w.left.faults, w.left.leaves, w.left.jumps, w.left.renews, w.left.silent, w.left.losses, w.left.copies, int8(w.off-w.est[0]), int8(w.off-w.est[1]))
	e.b = binary.LittleEndian.AppendUint16(e.b, w.counted)
	e.token(w.token, w)
	for i := range w.sc.does {
		c := &w.callers[i]
		e.put(int8(c.phase), truth(c.woken), c.pc, c.lates, c.held)
		e.id(c.seq)
		e.age(c.first, w.now)
		for n := range c.held {
			h := &c.holds[n]
			e.put(int8(h.kind), h.count, h.guards, truth(h.unsure)|truth(h.silent)<<1)
			e.id(h.seq)
			e.time(h.trust, w.now)
			e.time(h.open, clock)
			if w.sc.memory && h.kind == alone {
				e.put(int8(max(h.until-w.now, -1)), h.run, truth(h.stray)|truth(h.longer)<<1, h.more)
				if h.more > 0 {
					e.token(h.token, w)
				}
			}
		}
	}
	for i := range w.duties {
		d := &w.duties[i]
		e.part()
		e.put(int8(d.do), int8(d.kind), d.client, truth(d.sent), truth(d.again))
		e.id(d.seq)
		e.time(d.notAfter, clock)
		e.time(d.until, w.now)
	}
	e.sorted()
	for i := range w.msgs {
		m := &w.msgs[i]
		e.part()
		e.put(int8(m.do), int8(m.kind), truth(m.live)|truth(m.long)<<1|truth(m.over)<<2, m.caller, m.client, m.n, m.more)
		e.time(m.notAfter, clock)
		if m.live || m.do == doPermit || w.sc.tokens {
			e.age(m.stamp, w.now)
		}
		if m.do != doForce {
			e.id(m.seq)
		}
		if m.do == doHandOver {
			e.put(m.to)
			e.id(m.toSeq)
		}
		if m.do == doRead {
			e.id(m.own)
		}
		for s := range int8(maxSeqs) {
			if m.set&(1<<s) != 0 {
				e.id(s)
			}
		}
	}
	e.sorted()
	for i := range w.srv.entries {
		x := &w.srv.entries[i]
		if x.end != 0 && clock > x.end {
			continue
		}
		e.server(x, w)
	}
	for s, f := range w.seqs {
		if f.used {
			e.part()
			e.id(int8(s))
			e.put(f.caller, truth(f.writes)|truth(f.forced)<<1|truth(f.longer)<<2, f.guard, f.begun)
		}
	}
	e.sorted()
}

// server writes a key.
func (e *code) server(x *entry, w *world) {
	e.time(x.end, w.clock())
	switch {
	case x.key == counterOf:
		n, _ := strconv.ParseInt(x.text, 10, 64)
		e.b = append(e.b, 't')
		e.token(n, w)
		return
	case x.key[0] == 'r':
		e.put('r')
		e.id(seqOf(x.key))
	case x.kind == text && len(x.key) > 4:
		e.put('t')
		e.id(seqOf(x.key[4:]))
	default:
		e.b = append(append(e.b, x.key...), 0)
	}
	e.b = append(append(e.b, x.text...), 0)
	for _, p := range x.pairs {
		e.part()
		switch {
		case x.kind == zset:
			e.time(int64(p.score), w.now)
			e.id(seqOf("  " + p.name[9:12]))
		case p.name == "mode", x.key == writersOf:
			e.b = append(append(e.b, p.name...), p.value...)
		default:
			e.id(seqOf(p.name))
			e.b = append(e.b, p.value...)
		}
	}
	e.sorted()
}

// result is what an exploration has found.
type result struct {
	states, steps int
	fixed         bool // every reachable state was visited
	depth         int
	story         []string // to the first state that must not be; the shortest
	wrong         string
}

func (r result) String() string {
	if r.wrong == "" {
		return fmt.Sprintf("%d states, %d steps, depth %d, all: %v", r.states, r.steps, r.depth, r.fixed)
	}
	return fmt.Sprintf("after %d states: %s\n  %s", r.states, r.wrong, strings.Join(r.story, "\n  "))
}

// done reports whether everybody is served and nothing is owed.
func (w *world) done() bool {
	for i := range w.sc.does {
		if w.callers[i].phase != over {
			return false
		}
	}
	return len(w.duties) == 0 && !slices.ContainsFunc(w.msgs, func(m msg) bool { return m.live })
}

// still reports whether all that are not done wait to be woken.
func (w *world) still() bool {
	for i := range w.sc.does {
		if c := &w.callers[i]; c.phase == ready || c.phase == flying || c.woken {
			return false
		}
	}
	return !w.done() && len(w.msgs) == 0 && len(w.duties) == 0
}

type edge struct{ from, to int32 }

type origin struct {
	from int32
	by   event
}

// explore visits every state that can be reached, breadth first, until one is
// wrong or there have been limit. If it has seen all, it looks for those from which
// nothing leads to the end: somebody waits there for ever.
func explore(sc *scenario, limit int) (r result) {
	seed1, seed2 := maphash.MakeSeed(), maphash.MakeSeed()
	seen := make(map[[2]uint64]int32, min(limit, 1<<16))
	var origins []origin
	var edges []edge
	var ends, still []int32
	var spare []*world
	var e code
	visit := func(w *world, o origin) (int32, bool) {
		e = code{b: e.b[:0], parts: e.parts[:0]}
		w.encode(&e)
		key := [2]uint64{maphash.Bytes(seed1, e.b), maphash.Bytes(seed2, e.b)}
		if i, ok := seen[key]; ok {
			return i, false
		}
		i := int32(len(origins))
		seen[key] = i
		origins = append(origins, o)
		if w.done() {
			ends = append(ends, i)
		} else if w.still() {
			still = append(still, i)
		}
		return i, true
	}
	// tell lives through a story once more, and writes it down.
	tell := func(i int32, last ...event) (story []string) {
		for ; i > 0; i = origins[i].from {
			last = append(last, origins[i].by)
		}
		slices.Reverse(last)
		w := newWorld(sc)
		for _, e := range last {
			w.apply(e)
			line := e.String()
			if w.said != "" {
				line += ": " + w.said
			}
			story = append(story, line)
		}
		return story
	}
	type place struct {
		w *world
		i int32
	}
	w := newWorld(sc)
	visit(w, origin{})
	level := []place{{w, 0}}
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
				i, fresh := visit(next, origin{at.i, ev})
				edges = append(edges, edge{at.i, i})
				if fresh {
					below = append(below, place{next, i})
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
	if i := stuck(len(origins), edges, ends, still); i >= 0 {
		r.wrong, r.story = "somebody waits for ever", tell(i)
	}
	return r
}

// stuck is the first state from which no end can be reached, -1 if there is none:
// the first in which all is still, if there is one, because that says best who waits
// for whom.
func stuck(states int, edges []edge, ends, still []int32) int32 {
	before := make([]int32, states+1) // where the edges to a state begin
	for _, e := range edges {
		before[e.to+1]++
	}
	for i := range states {
		before[i+1] += before[i]
	}
	from, at := make([]int32, len(edges)), slices.Clone(before)
	for _, e := range edges {
		from[at[e.to]] = e.from
		at[e.to]++
	}
	good := make([]bool, states)
	todo := slices.Clone(ends)
	for _, i := range todo {
		good[i] = true
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, f := range from[before[i]:before[i+1]] {
			if !good[f] {
				good[f] = true
				todo = append(todo, f)
			}
		}
	}
	for _, i := range still {
		if !good[i] {
			return i
		}
	}
	return int32(slices.Index(good, false))
}
