package twin

import (
	"slices"
	"strconv"
)

// The rules that callers and janitors keep; each can be switched off, see rules.

// fresh is a number that nobody uses.
func (w *world) fresh(by int8, writes bool) int8 {
	for i := range w.seqs {
		if !w.seqs[i].used {
			w.seqs[i] = field{used: true, caller: by, writes: writes}
			return int8(i)
		}
	}
	panic("twin: too many fields")
}

// owed are the fields that a client names to its attempts.
func (w *world) owed(client int8) (set uint16) {
	for _, d := range w.duties {
		if d.client == client && d.do == doRelease {
			set |= 1 << d.seq
		}
	}
	return set
}

// next ends a step.
func (w *world) next(i int8) {
	c := &w.callers[i]
	c.phase, c.woken, c.seq, c.first, c.lates = ready, false, none, 0, 0
	if c.pc++; int(c.pc) == len(w.sc.does[i]) {
		c.phase = over
	}
}

// loses ends a caller whose hold is lost: it does nothing more with it.
func (w *world) loses(i, seq int8) {
	c := &w.callers[i]
	if w.sc.memory && w.holder(seq) != i {
		w.wrong("caller %d is told that a lock is lost that it has not", i)
	}
	for n := range c.held {
		h := &c.holds[n]
		if h.seq != seq {
			continue
		}
		// What another hold keeps, and what a late request may prolong, is released.
		if outlives := h.kind == reading || h.kind == writing; (outlives || h.unsure || w.prolongs(i, seq)) && !w.sc.rules.lossIsNothing {
			w.owe(duty{do: doRelease, kind: h.kind, client: w.sc.clients[i], seq: seq})
		}
	}
	c.drop(seq)
	if c.held == 0 {
		w.ends(i)
	}
}

// ends ends a caller, which waits for no answer any more.
func (w *world) ends(i int8) {
	c := &w.callers[i]
	for n := range w.msgs {
		if m := &w.msgs[n]; m.caller == i && m.live && m.do != doRenew {
			m.live = false
			w.unknown(*m)
		}
	}
	c.phase, c.pc = over, int8(len(w.sc.does[i]))
}

// prolongs reports whether a request is under way that may prolong a hold.
func (w *world) prolongs(i, seq int8) bool {
	return slices.ContainsFunc(w.msgs, func(m msg) bool {
		return m.live && m.caller == i && m.seq == seq && (m.do == doRelock || m.do == doExtend || m.do == doUnlock)
	})
}

func (w *world) owe(d duty) {
	d.until = w.now + lease + 2*ioTimeout + 1
	w.duties = append(w.duties, d)
}

// stampOf is until when a request that is sent now may be carried out.
func (w *world) stampOf(client int8, first int64) int64 {
	if w.sc.rules.noLimit {
		return 0
	}
	at := w.guess(client) + ioTimeout
	if first != 0 { // whatever is sent again, no copy runs later
		at = min(at, first+w.est[client]+lastCopy)
	}
	return at
}

// post sends a request of a caller.
func (w *world) post(i int8, m msg) {
	c := &w.callers[i]
	c.phase = flying
	m.live, m.caller, m.client, m.stamp = true, i, w.sc.clients[i], w.now
	if m.do != doRelease {
		m.notAfter = w.stampOf(m.client, c.first)
	}
	w.msgs = append(w.msgs, m)
}

// begin sends what a caller does next.
func (w *world) begin(i int8) {
	c := &w.callers[i]
	client := w.sc.clients[i]
	do := w.sc.does[i][c.pc]
	c.woken = false
	acquire := func(writes bool) int8 {
		if c.seq == none {
			c.seq = w.fresh(i, writes)
		}
		return c.seq
	}
	switch h := c.oldest(); do {
	case doLock, doLockFor:
		w.post(i, msg{do: do, kind: alone, seq: acquire(false), set: w.owed(client), more: w.ahead(i, i)})
	case doRead:
		own := none
		if h := c.of(writing); h != nil {
			own = h.seq
		}
		w.post(i, msg{do: do, kind: reading, seq: acquire(false), set: w.owed(client), own: own})
	case doWrite:
		w.post(i, msg{do: do, kind: writing, seq: acquire(true), set: w.owed(client)})
	case doPermit:
		w.post(i, msg{do: do, kind: ofPermit, seq: acquire(false), set: w.owed(client)})
	case doRelock, doRelockOnce:
		if c.seq != none { // as a new acquisition
			w.post(i, msg{do: doRead, kind: reading, seq: c.seq, set: w.owed(client), own: none})
			break
		}
		w.post(i, msg{do: doRelock, kind: h.kind, seq: h.seq, n: h.count + 1})
	case doExtend, doProlong:
		h.longer = h.longer || do == doProlong
		w.post(i, msg{do: doExtend, kind: h.kind, seq: h.seq, n: h.count, long: do == doProlong})
	case doGuard:
		h.guards++
		w.post(i, msg{do: doGuard, kind: h.kind, seq: h.seq, n: h.guards})
	case doUnlock:
		w.unlock(i)
	case doForce:
		m := msg{do: doForce}
		if e := w.srv.at(object, w.clock()); e != nil { // it has read them just now
			for _, p := range e.pairs {
				m.set |= 1 << seqOf(p.name)
			}
		}
		if m.set == 0 {
			w.next(i)
			return
		}
		w.post(i, m)
	case doTake, doGive, doDown:
		if c.seq == none {
			c.seq, c.first = w.fresh(i, false), w.now
		}
		w.post(i, msg{do: do, kind: plain, seq: c.seq, n: 4*i + c.pc})
		if do == doGive {
			c.held = max(c.held-1, 0) // whatever becomes of it, it is the caller's no more
		}
	}
}

// unlock gives a count back, or all of a hold, to a caller of this client that waits
// if there is one.
func (w *world) unlock(i int8) {
	c := &w.callers[i]
	if c.held == 0 { // it was lost, and the caller has heard of it
		w.next(i)
		return
	}
	h := *c.oldest()
	if h.count > 1 {
		w.post(i, msg{do: doUnlock, kind: h.kind, seq: h.seq, n: h.count - 1})
		return
	}
	c.drop(h.seq) // it relies on it no more
	for o := range w.sc.does {
		if w.sc.clients[o] != w.sc.clients[i] || w.callers[o].phase != waiting || h.kind != alone || w.sc.does[o][w.callers[o].pc] != doLock {
			continue
		}
		m := msg{do: doHandOver, kind: alone, seq: h.seq, to: int8(o)}
		if w.sc.run > 0 {
			m.over, m.n = h.run >= w.sc.run, (h.run+1)%(w.sc.run+1)
		}
		if !m.over && w.mayPass(&h) {
			w.handOn(i, h, m)
			return
		}
		m.toSeq, m.more = w.fresh(int8(o), false), w.ahead(i, int8(o))
		w.post(i, m)
		return
	}
	w.post(i, msg{do: doRelease, kind: h.kind, seq: h.seq})
}

// ahead is how many of the client may have the lock after a caller.
func (w *world) ahead(i, next int8) (n int8) {
	for o := range w.sc.does {
		c := &w.callers[o]
		waits := (c.phase == waiting || c.phase == flying) && w.sc.does[o][c.pc] == doLock
		if int8(o) != i && int8(o) != next && w.sc.clients[o] == w.sc.clients[i] && waits && w.sc.tokens {
			n++
		}
	}
	return n
}

// mayPass reports whether a hold may be handed over in memory.
func (w *world) mayPass(h *hold) bool {
	renewed := h.trust == 0 || h.silent
	if w.sc.tokens && h.more == 0 && !w.sc.rules.passUnminted {
		return false
	}
	return w.sc.memory && renewed && h.until >= w.now && !h.longer && (!h.stray || w.sc.rules.passOpen)
}

// handOn gives a hold to another caller of the client in memory. What is known of its
// renewals stays.
func (w *world) handOn(i int8, h hold, m msg) {
	w.seqs[h.seq].begun = h.guards
	w.said = "in memory, to caller " + strconv.Itoa(int(m.to))
	w.gets(m.to, hold{
		kind: alone, seq: h.seq, count: 1, guards: h.guards, until: h.until, run: m.n,
		trust: h.trust, silent: h.silent, unsure: h.silent, token: h.token + tokenBlock, more: h.more - 1,
	})
	if w.sc.rules.passAndOwe {
		w.owe(duty{do: doRelease, kind: alone, client: w.sc.clients[i], seq: h.seq})
	}
	w.next(i)
}

// holder is who has the hold of that field, none if nobody has.
func (w *world) holder(seq int8) int8 {
	for i := range w.sc.does {
		c := &w.callers[i]
		for n := range c.held {
			if c.holds[n].seq == seq {
				return int8(i)
			}
		}
	}
	return none
}

// renewed is the answer to a renewal: a loss is told to who has the lock now.
func (w *world) renewed(m msg, reply any) {
	if len(reply.([]any)) == 0 {
		return
	}
	to := w.holder(m.seq)
	switch {
	case to == none: // it was unlocked meanwhile
	case w.sc.rules.tellLeaver:
		w.loses(m.caller, m.seq)
	default:
		w.loses(to, m.seq)
	}
}

// leave ends a caller that waits, or waits for an answer.
func (w *world) leave(i int8) {
	c := &w.callers[i]
	w.ends(i)
	for n := c.held - 1; n >= 0; n-- { // what it has it unlocks, and nobody waits for that
		h := c.holds[n]
		w.owe(duty{do: doRelease, kind: h.kind, client: w.sc.clients[i], seq: h.seq})
		c.drop(h.seq)
	}
}

// unknown is what a client does about a request that may be carried out yet.
func (w *world) unknown(m msg) {
	switch m.do {
	case doLock, doLockFor, doRead, doWrite, doPermit:
		w.owe(duty{do: doRelease, kind: m.kind, client: m.client, seq: m.seq, notAfter: m.notAfter})
	case doHandOver:
		w.owe(duty{do: doRelease, kind: alone, client: m.client, seq: m.toSeq, notAfter: m.notAfter})
		w.owe(duty{do: doRelease, kind: alone, client: m.client, seq: m.seq})
	case doRelease:
		w.owe(duty{do: doRelease, kind: m.kind, client: m.client, seq: m.seq})
	case doTake:
		w.owe(duty{do: doUndo, kind: plain, client: m.client, seq: m.seq})
	}
}

// giveUp closes the connection of a request: it is unknown, and what is sent next
// goes over a new one, which has asked for the time.
func (w *world) giveUp(m msg) {
	if !w.sc.rules.staleTime {
		w.est[m.client] = w.off
	}
	ghost := m
	ghost.live = false
	w.msgs = append(w.msgs, ghost)
	if m.do == doRenew { // the watchdog has others
		return
	}
	if m.caller == none {
		if d := w.dutyOf(m); d != nil {
			d.sent = false
		}
		return
	}
	c := &w.callers[m.caller]
	c.phase = ready
	switch m.do {
	case doLock, doLockFor, doRead, doWrite, doPermit:
		w.unknown(m)
		c.seq = none
	case doHandOver, doRelease:
		w.unknown(m)
		w.next(m.caller)
	case doForce:
		w.next(m.caller)
	case doTake, doGive, doDown: // again, with the same result
	case doRelock, doUnlock:
		w.openUntil(m)
		switch {
		case w.sc.does[m.caller][c.pc] == doRelockOnce:
			w.next(m.caller)
		case m.do == doRelock && w.sc.rules.retryQueues:
			c.seq = w.fresh(m.caller, false)
		}
	case doGuard, doExtend: // the caller hears that it is not known
		w.openUntil(m)
		w.next(m.caller)
	}
}

// lease is how long a lease a request asks for.
func (m *msg) lease() int64 {
	if m.long {
		return 2 * lease
	}
	return lease
}

func (w *world) openUntil(m msg) {
	for n := range w.callers[m.caller].holds {
		if h := &w.callers[m.caller].holds[n]; h.seq == m.seq && int8(n) < w.callers[m.caller].held {
			h.open = max(h.open, m.notAfter)
			h.stray = true
			h.unsure = h.unsure || m.do != doGuard
		}
	}
}

func (w *world) dutyOf(m msg) *duty {
	i := slices.IndexFunc(w.duties, func(d duty) bool { return d.sent && d.client == m.client && d.seq == m.seq && d.do == m.do })
	if i < 0 {
		return nil
	}
	return &w.duties[i]
}

// send sends what a janitor owes.
func (w *world) send(d *duty) {
	d.sent = true
	m := msg{do: d.do, kind: d.kind, live: true, caller: none, client: d.client, seq: d.seq, stamp: w.now}
	if d.do != doRelease {
		m.notAfter = w.stampOf(d.client, 0)
	}
	w.msgs = append(w.msgs, m)
}

// late is the answer to a request that came after its time: it was not carried out,
// and is sent again with a better time.
func (w *world) late(m msg) {
	if !m.live {
		return
	}
	w.est[m.client] = w.off
	first := int64(0)
	if m.caller != none && m.do != doRenew {
		c := &w.callers[m.caller]
		if c.lates++; c.lates > 2 {
			c.phase, c.lates = ready, 0
			return
		}
		first = c.first
	}
	m.notAfter = w.stampOf(m.client, first)
	w.msgs = append(w.msgs, m)
}

// answered goes on with an answer.
func (w *world) answered(m msg, reply any) {
	n := first(reply)
	if m.do == doRenew {
		w.renewed(m, reply)
		return
	}
	if m.caller == none {
		w.paid(m, n)
		return
	}
	c := &w.callers[m.caller]
	h := c.of(m.kind)
	switch m.do {
	case doLock, doLockFor, doRead, doWrite, doPermit:
		if n == 0 {
			c.phase, c.lates = waiting, 0
			if e := w.srv.at(takenOf, w.clock()); m.kind == ofPermit && e != nil {
				c.woken = int64(e.pairs[0].score) <= w.now // it has heard when the first ends
			}
			return
		}
		got := hold{kind: m.kind, seq: m.seq, count: 1, trust: m.stamp + lease}
		if m.do == doLock || m.do == doRead || m.do == doWrite && !w.sc.fixed {
			got.trust = 0
		}
		if m.do == doLock {
			got.until = m.stamp + handOver
			got.token, got.more = minted(reply)
		}
		w.gets(m.caller, got)
	case doRelock, doUnlock:
		if n == 0 {
			w.loses(m.caller, m.seq)
			return
		}
		h.count = m.n
		w.next(m.caller)
	case doExtend:
		if n == 0 {
			w.loses(m.caller, m.seq)
			return
		}
		if h.trust != 0 {
			h.trust = max(h.trust, m.stamp+m.lease())
		}
		w.next(m.caller)
	case doGuard:
		if n == 0 {
			w.loses(m.caller, m.seq)
			return
		}
		w.next(m.caller)
	case doRelease, doForce, doGive, doDown:
		w.next(m.caller)
	case doHandOver:
		switch to := &w.callers[m.to]; {
		case n == 0:
			w.wake()
		case n == 2: // released
		case to.phase == waiting:
			got := hold{kind: alone, seq: m.toSeq, count: 1, until: m.stamp + handOver, run: m.n}
			got.token, got.more = minted(reply)
			w.gets(m.to, got)
		default: // it has left, or asks by itself
			w.owe(duty{do: doRelease, kind: alone, client: m.client, seq: m.toSeq})
		}
		w.next(m.caller)
	case doTake:
		if n == 0 {
			c.phase, c.seq, c.first, c.lates = waiting, none, 0, 0
			return
		}
		w.gets(m.caller, hold{kind: plain, seq: none, count: 1})
	}
}

// minted are the token of an answer, and for how many more there is one.
func minted(reply any) (token int64, more int8) {
	values, _ := reply.([]any)
	if len(values) > 1 {
		token = values[1].(int64)
	}
	if len(values) > 2 {
		more = int8(values[2].(int64) / tokenBlock)
	}
	return token, more
}

// gets gives a caller what it wanted.
func (w *world) gets(i int8, h hold) {
	c := &w.callers[i]
	c.holds[c.held] = h
	c.held++
	if w.sc.tokens && !w.seqs[h.seq].forced {
		if h.token <= w.token {
			w.wrong("a token does not rise, it is %d below the last", w.token-h.token)
		}
		w.token = h.token
	}
	w.next(i)
}

// paid is the answer to a janitor. What was found is released. What was not may
// come until its request's time is over.
func (w *world) paid(m msg, n int64) {
	d := w.dutyOf(m)
	if d == nil {
		return // given up meanwhile
	}
	if m.do == doRelease && n < 0 && w.clock() <= d.notAfter && !w.sc.rules.oneRelease {
		d.sent, d.again = false, true
		return
	}
	for i := range w.duties {
		if &w.duties[i] == d {
			w.duties = append(w.duties[:i], w.duties[i+1:]...)
			return
		}
	}
}
