package twin

import (
	"math/bits"
	"strconv"
	"strings"
)

// check looks at what must be true in every state.
func (w *world) check() {
	var holders, writers int
	for i := range w.sc.does {
		c, holding, writing := &w.callers[i], false, false
		for n := range c.held {
			h := &c.holds[n]
			if h.kind == ofPermit || h.kind == plain || w.seqs[h.seq].forced {
				continue
			}
			holding = true
			writing = writing || h.kind != reading
		}
		if holding {
			holders++
		}
		if writing {
			writers++
		}
	}
	if writers > 0 && holders > 1 {
		w.wrong("%d callers hold the lock, and one of them alone", holders)
	}
	w.checkCounts()
	w.checkOrphans()
	w.checkSums()
}

// checkCounts: the count in Redis is what its holder has, unless a request of that hold
// is under way or was not answered.
func (w *world) checkCounts() {
	if w.sc.kind != "mutex" {
		return
	}
	e := w.srv.at(object, w.clock())
	for i := range w.sc.does {
		c := &w.callers[i]
		h := c.oldest()
		if h == nil || h.stray || c.phase == flying || e == nil {
			continue
		}
		if n := e.find(w.fieldName(h.seq)); n >= 0 && e.pairs[n].value != strconv.Itoa(int(h.count)) {
			w.wrong("caller %d has the lock %d times, and Redis says %s", i, h.count, e.pairs[n].value)
		}
	}
}

// isThere reports whether a field is in the lock's hash.
func (w *world) isThere(seq int8) bool {
	e := w.srv.at(object, w.clock())
	return w.seqs[seq].used && e != nil && e.kind == hash && e.find(w.fieldName(seq)) >= 0
}

// responsible reports whether somebody releases a field sooner or later.
func (w *world) responsible(seq int8) bool {
	for i := range w.sc.does {
		c := &w.callers[i]
		for n := range c.held {
			if c.holds[n].seq == seq {
				return true
			}
		}
	}
	for _, m := range w.msgs {
		if m.live && (m.seq == seq && m.do != doForce && m.do != doRenew || m.do == doHandOver && m.toSeq == seq) {
			return true
		}
	}
	for _, d := range w.duties {
		if d.seq == seq {
			return true
		}
	}
	return false
}

// checkOrphans: what nobody holds and nobody will release ends soon.
func (w *world) checkOrphans() {
	e := w.srv.at(object, w.clock())
	if taken := w.srv.at(takenOf, w.clock()); taken != nil {
		for _, p := range taken.pairs {
			if int64(p.score) > w.clock()+ioTimeout && !w.responsible(seqOf("  "+p.name[9:12])) {
				w.wrong("a permit that nobody has is taken for %d ms more", int64(p.score)-w.clock())
			}
		}
		return
	}
	if e == nil || e.kind != hash {
		return
	}
	for _, p := range e.pairs {
		if p.name == "mode" {
			continue
		}
		end, seq := e.end, seqOf(p.name)
		if w.sc.kind == "rw" && !strings.HasSuffix(p.name, ":write") {
			t := w.srv.at(timeoutName[seq], w.clock())
			if t == nil {
				continue
			}
			end = t.end
		}
		if end > w.clock()+ioTimeout && !w.seqs[seq].longer && !w.responsible(seq) {
			w.wrong("a lock that nobody has is locked for %d ms more", end-w.clock())
		}
	}
}

// checkSums: what is free and what is held are as much as there was, once nothing
// is under way that somebody waits for.
func (w *world) checkSums() {
	if w.sc.count == 0 {
		return
	}
	held := int64(0)
	for i := range w.sc.does {
		c := &w.callers[i]
		if c.phase == flying || c.seq != none {
			return
		}
		for n := range c.held {
			held += flag(c.holds[n].kind == plain)
		}
	}
	for _, m := range w.msgs {
		if m.live {
			return
		}
	}
	if len(w.duties) > 0 {
		return
	}
	switch w.sc.kind {
	case "latch":
		if left, want := w.counter(), w.sc.count-int64(bits.OnesCount16(w.counted)); left != want {
			w.wrong("the latch has %d to go and not %d", left, want)
		}
	case "semaphore":
		if free := w.counter(); free+held != w.sc.count {
			w.wrong("of %d permits %d are free and %d held", w.sc.count, free, held)
		}
	case "permits":
		taken := int64(0)
		if e := w.srv.at(takenOf, w.clock()); e != nil {
			taken = int64(len(e.pairs))
		}
		if free := w.counter(); free+taken != w.sc.count {
			w.wrong("of %d permits %d are free and %d taken", w.sc.count, free, taken)
		}
	}
}
