package waitqueue

import (
	"fmt"
	"unsafe"
)

// The world of an exploration: callers of one client with their goroutines, its
// Line and its Probe, another client, and a small model of Redis. Each event is
// one step of one of them. Nothing but "the next due time is reached" takes time.

const (
	maxCalls = 4
	maxHolds = 2*maxCalls + 1 // a hold that a probe brings, and one that is handed over, for each call
)

// scenario is a world to explore.
type scenario struct {
	name    string
	kind    Kind
	run     RunLimits
	pacing  Pacing
	calls   []call0
	memory  bool // holds are handed over without Redis
	permits int8 // how many are free at the beginning
	others  bool // another client takes and releases
	yields  bool // each hand-over ends a run, as it does while strangers or clients without messages wait
	renews  bool // the other client renews
	taken   bool // another client holds the object at the beginning
	lease   Instant
	budget  budget
	bent    func(*line, *caller, Instruction[int8]) Instruction[int8]
	noTwin  bool
	states  int // the least number of states that must be visited
}

type call0 struct {
	owner       int8
	shared, try bool
	needs       int8
}

// budget is how often each rare event may happen in one story.
type budget struct{ unknown, late, lost, deaf, silent, close int8 }

type phase uint8

const (
	idle phase = iota
	queued
	flying
	reentering
	having
	over
)

type callState struct {
	phase         phase
	asleep, token bool
	until         Instant
	seen          Instruction[int8] // its instruction when it went to sleep
	executed, yes bool              // its request was carried out, and granted
	ttl           Instant           // of the refusal; -1: none
	left          int8
	mark          Mark
	news          bool  // a message or confirmation came since its probe began
	heard         bool  // the subscription worked when its probe began
	epoch         int32 // of its probe
	order         int32 // the number of its probe among all probes
	hold          int8
	waited        bool
	passes        bool  // its owner writes, and it probes to read too
	before        uint8 // the callers that it must not pass
	probedAsked   uint8 // the callers that had joined when its probe began
	outcome       int8  // 1: it has the object
}

type holdAt uint8

const (
	noHold holdAt = iota
	inUse
	inHand  // handed to a call that has not taken it; others may have re-entered it
	nobodys // to be passed on, if no other call has re-entered it
	releasing
	handing
	handedBad // a hand-over that found nothing
)

type worldHold struct {
	at       holdAt
	count    int8
	owner    int8
	shared   bool
	redis    bool // Redis has it
	executed bool
	ok       bool
	to, as   int8
	runOver  bool
	over     bool // handing: another client has its turn first, if one waits
	told     bool // the script has told another client, which waits
}

type world struct {
	sc      *scenario
	line    Line[int8, int8]
	probe   Probe
	callers [maxCalls]Caller[int8, int8]
	calls   [maxCalls]callState
	holds   [maxHolds]worldHold
	twin    twin
	now     Instant
	left    budget

	other    int8 // how another client holds the object: not, alone, or shared
	otherEnd Instant
	free     int8    // free permits; of a latch: 1 if it is open
	taken    int8    // permits of the other client
	ghosts   [2]int8 // holds of late and unanswered requests, until they are released
	late     [2]int8 // abandoned requests that will still be carried out

	subscribed bool // the client has asked for a subscription
	heard      Heard
	up         bool // the subscription is confirmed and works
	messages   int8 // how many are under way

	// What this client can know, kept apart from Probe.
	known      int8 // see below
	knownAt    Instant
	lease      Instant
	unknowns   int8
	knownHeard bool // the channel was heard when that probe began
	news       bool
	newsAt     Instant
	epoch      int32
	order      int32
	latest     int32 // the order of the answer that is known
	begun      Instant
	spare      int8
	deferTo    uint64
	deferEnd   Instant
	noticed    uint64 // messages
	noticedAt  Instant
	runs       int8
	fault      string
}

const (
	knowsNothing int8 = iota
	knowsRefused
	knowsUnknown
	knowsReleasing
	knowsTaken
)

func newWorld(sc *scenario) *world {
	w := &world{sc: sc, left: sc.budget, free: sc.permits}
	w.line = NewLine[int8, int8](sc.kind, &sc.run)
	w.probe = NewProbe(&sc.pacing)
	w.line.testRule = sc.bent
	w.twin = twin{kind: sc.kind, limits: sc.run, off: sc.noTwin}
	w.begun = -100
	if sc.taken {
		w.other, w.otherEnd = 1, forever
	}
	return w
}

// copyFrom makes w a copy of s. Pointers into s become pointers to the same places in w.
func (w *world) copyFrom(s *world) {
	buffers, callers, holds := w.line.step, w.twin.callers, w.twin.holds
	*w = *s
	w.line.step, w.twin.callers, w.twin.holds = buffers, callers, holds
	w.twin.copyFrom(&s.twin)
	var odd [4][2]*ownHold[int8, int8]
	n := 0
	hold := func(h *ownHold[int8, int8]) *ownHold[int8, int8] {
		if m, ok := moved(w, s, h); ok {
			return m
		}
		for _, o := range odd[:n] {
			if o[0] == h {
				return o[1]
			}
		}
		m := &ownHold[int8, int8]{}
		*m = *h
		odd[n] = [2]*ownHold[int8, int8]{h, m}
		n++
		return m
	}
	move(w, s, &w.line.first)
	move(w, s, &w.line.last)
	move(w, s, &w.line.noWaitCallers)
	move(w, s, &w.line.groups.first)
	for i := range w.sc.calls {
		c := &w.callers[i]
		move(w, s, &c.prev)
		move(w, s, &c.next)
		move(w, s, &c.group)
		move(w, s, &c.list)
		move(w, s, &c.listPrev)
		move(w, s, &c.listNext)
		g := &c.newGroup
		move(w, s, &g.unlisted)
		move(w, s, &g.prev)
		move(w, s, &g.next)
		for _, lists := range []*[2]list[int8, int8]{&g.inLine, &g.besideLine, &g.refused} {
			for m := range lists {
				move(w, s, &lists[m].first)
				move(w, s, &lists[m].last)
			}
		}
		g.holds, g.lastReenterable[0], g.lastReenterable[1] = hold(g.holds), hold(g.lastReenterable[0]), hold(g.lastReenterable[1])
		h := &c.hold
		move(w, s, &h.group)
		move(w, s, &h.caller)
		h.next = hold(h.next)
	}
	for i := 0; i < n; i++ { // it may grow
		h := odd[i][1]
		move(w, s, &h.group)
		move(w, s, &h.caller)
		h.next = hold(h.next)
	}
}

func moved[T any](w, s *world, p *T) (*T, bool) {
	if p == nil {
		return nil, true
	}
	off := uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(&s.callers))
	if off >= unsafe.Sizeof(s.callers) {
		return p, false
	}
	return (*T)(unsafe.Add(unsafe.Pointer(&w.callers), off)), true
}

func move[T any](w, s *world, p **T) {
	m, ok := moved(w, s, *p)
	if !ok {
		panic("waitqueue: a pointer out of the world")
	}
	*p = m
}

func (w *world) id(c *caller) int8 {
	for i := range w.callers {
		if &w.callers[i] == c {
			return int8(i)
		}
	}
	return -1
}

// eventKind names an event; the texts are the words of a story.
type eventKind uint8

const (
	evCall eventKind = iota
	evAct
	evExecute
	evAnswer
	evFail
	evFailLate
	evLeave
	evLeaveLate
	evReentered
	evReenterUnknown
	evUnlock
	evPass
	evHoldExecute
	evHoldTold
	evHoldAnswer
	evHoldUnknown
	evLost
	evLate
	evJanitor
	evOtherTakes
	evOtherReads
	evOtherReleases
	evOtherRenews
	evConfirm
	evMessage
	evSilent
	evDeaf
	evPing
	evClose
	evTime
)

var eventTexts = [...]string{
	"caller %d calls", "caller %d reads its instruction", "Redis carries out the probe of caller %d",
	"caller %d gets its answer", "caller %d gets no answer", "caller %d gets no answer, and its request comes later",
	"caller %d leaves", "caller %d leaves, and its request comes later", "caller %d re-enters", "caller %d gets no answer to its re-entry",
	"caller %d unlocks", "hold %d is passed on", "Redis carries out the end of hold %d", "Redis ends hold %d and tells another client", "the end of hold %d is answered",
	"the end of hold %d is not answered", "hold %d is lost", "a late request is carried out (mode %d)", "the janitor gives back (mode %d)",
	"another client takes", "another client reads", "another client releases", "another client renews", "the subscription is confirmed",
	"a message comes", "a message is lost", "the subscription breaks", "a ping is answered", "the client closes", "time passes",
}

type event struct {
	kind eventKind
	i    int8
}

func (e event) String() string {
	if text := eventTexts[e.kind]; e.kind <= evJanitor {
		return fmt.Sprintf(text, e.i)
	} else {
		return text
	}
}

// events appends the events that may come next to out.
func (w *world) events(out []event) []event {
	add := func(k eventKind, i int8) { out = append(out, event{k, i}) }
	holds := w.sc.kind == Exclusive || w.sc.kind == ReadWrite
	for n := range w.sc.calls {
		i, c := int8(n), &w.calls[n]
		switch c.phase {
		case idle:
			add(evCall, i)
		case queued:
			if !c.asleep || c.token || c.until <= w.now {
				add(evAct, i)
			}
		case flying:
			if !c.executed {
				add(evExecute, i)
			} else {
				add(evAnswer, i)
			}
			if w.left.unknown > 0 {
				add(evFail, i)
				if !c.executed && w.left.late > 0 && holds {
					add(evFailLate, i)
				}
			}
			if !c.executed && w.left.late > 0 && holds {
				add(evLeaveLate, i)
			}
		case reentering:
			add(evReentered, i)
			if w.left.unknown > 0 {
				add(evReenterUnknown, i)
			}
		case having:
			add(evUnlock, i)
		}
		if c.phase == queued || c.phase == flying || c.phase == reentering {
			add(evLeave, i)
		}
	}
	for n := range w.holds {
		h, i := &w.holds[n], int8(n)
		switch h.at {
		case nobodys:
			add(evPass, i)
		case releasing, handing:
			if !h.executed {
				add(evHoldExecute, i)
				if h.over && w.sc.others {
					add(evHoldTold, i)
				}
			} else {
				add(evHoldAnswer, i)
			}
			if w.left.unknown > 0 {
				add(evHoldUnknown, i)
			}
		}
		if w.left.lost > 0 && (h.at == inUse || h.at == inHand || h.at == nobodys) && holds {
			add(evLost, i)
		}
	}
	for m := range int8(2) {
		if w.late[m] > 0 {
			add(evLate, m)
		}
		if w.ghosts[m] > 0 {
			add(evJanitor, m)
		}
	}
	if w.sc.others {
		switch w.sc.kind {
		case Exclusive, ReadWrite:
			if w.allowed(-1, false) {
				add(evOtherTakes, 0)
			}
			if w.sc.kind == ReadWrite && w.allowed(-1, true) && w.other == 0 {
				add(evOtherReads, 0)
			}
			if w.other != 0 {
				add(evOtherReleases, 0)
				if w.sc.renews && w.otherEnd < w.now+w.sc.lease {
					add(evOtherRenews, 0)
				}
			}
		case Permits:
			if w.free > 0 {
				add(evOtherTakes, 0)
			}
			if w.taken > 0 {
				add(evOtherReleases, 0)
			}
		case Latch:
			if w.free == 0 {
				add(evOtherReleases, 0)
			} else {
				add(evOtherTakes, 0)
			}
		}
	}
	if w.subscribed && !w.up {
		add(evConfirm, 0)
	}
	if w.messages > 0 {
		add(evMessage, 0)
		if w.left.silent > 0 {
			add(evSilent, 0)
		}
	}
	if w.up && w.left.deaf > 0 {
		add(evDeaf, 0)
	}
	if w.sc.pacing.Quiet > 0 && w.up && w.messages == 0 && w.heard.Upto < w.now {
		add(evPing, 0)
	}
	if w.left.close > 0 {
		add(evClose, 0)
	}
	if w.nextDue() > w.now {
		add(evTime, 0)
	}
	return out
}

// nextDue is the next time at which something happens by itself; 0 if nothing
// does.
func (w *world) nextDue() (due Instant) {
	soonest := func(t Instant) {
		if t > w.now && t != forever && (due == 0 || t < due) {
			due = t
		}
	}
	for i := range w.sc.calls {
		if c := &w.calls[i]; c.phase == queued && c.asleep && !c.token {
			soonest(c.until)
		}
	}
	if w.other != 0 {
		soonest(w.otherEnd)
	}
	return due
}

// allowed reports whether Redis gives the object to an owner; -1 is another
// client.
func (w *world) allowed(owner int8, shared bool) bool {
	if w.ghosts[0] > 0 || w.ghosts[1] > 0 && !shared || w.other == 1 || w.other == 2 && !shared {
		return false
	}
	for _, h := range w.holds {
		if beside := shared && (h.shared || h.owner == owner); h.redis && !beside {
			return false
		}
	}
	return true
}

func (w *world) publish() {
	if w.up && w.messages < 2 {
		w.messages++
	}
}

func (w *world) wake(c *caller) {
	if c != nil {
		if i := w.id(c); w.calls[i].asleep {
			w.calls[i].token = true
		}
	}
}

// step carries out a Step of the Line.
func (w *world) step(s step) {
	for _, c := range s.Wake {
		w.wake(c)
	}
	for _, h := range s.PassOn {
		w.holds[h].at = nobodys
	}
}

func (w *world) wrong(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

func (w *world) owner(i int8) int8 { return w.sc.calls[i].owner }

func (w *world) inLine(i int8) bool {
	p := w.calls[i].phase
	return p == queued || p == flying || p == reentering
}

// conflict reports whether c must wait for d, which came before.
func (w *world) conflict(c, d int8) bool {
	return w.sc.kind != ReadWrite || !w.sc.calls[c].shared || !w.sc.calls[d].shared
}

func (w *world) hasHold(owner int8, shared bool) bool {
	for _, h := range w.holds {
		if h.entered() && h.owner == owner && h.shared == shared {
			return true
		}
	}
	return false
}

// entered reports whether a call has the hold, is about to take it, or passes it on.
func (h *worldHold) entered() bool { return h.at == inUse || h.at == inHand || h.at == nobodys }

// apply carries out one event.
func (w *world) apply(e event) {
	i := e.i
	switch e.kind {
	case evCall:
		w.call(i)
	case evAct:
		w.act(i)
	case evExecute:
		w.execute(i)
	case evAnswer:
		w.answer(i)
	case evFail, evFailLate:
		w.left.unknown--
		w.abandon(i, e.kind == evFailLate)
		w.unanswered(i)
	case evLeave, evLeaveLate:
		if w.calls[i].phase == flying {
			w.abandon(i, e.kind == evLeaveLate)
		}
		w.leave(i)
	case evReentered:
		w.reentered(i)
	case evReenterUnknown:
		w.left.unknown--
		w.calls[i].phase, w.calls[i].asleep = queued, false
	case evUnlock:
		w.unlock(i)
	case evPass:
		w.holds[i].at = inUse
		w.unlockHold(i)
	case evHoldExecute:
		w.executeEnd(i, false)
	case evHoldTold:
		w.executeEnd(i, true)
	case evHoldAnswer:
		w.answerEnd(i)
	case evHoldUnknown:
		w.left.unknown--
		w.loseEnd(i)
	case evLost:
		w.left.lost--
		w.lose(i)
	case evLate:
		w.late[i]--
		if w.allowed(-2, i == 1) {
			w.ghosts[i]++
		}
	case evJanitor:
		w.ghosts[i]--
		w.publish()
	case evOtherTakes:
		w.other, w.otherEnd = 1, w.now+w.sc.lease
		if w.sc.kind >= Permits {
			w.other, w.otherEnd = 0, 0
			w.free--
			w.taken++
		}
	case evOtherReads:
		w.other, w.otherEnd = 2, w.now+w.sc.lease
	case evOtherReleases:
		w.other = 0
		if w.sc.kind >= Permits {
			w.free++
			w.taken--
		}
		w.publish()
	case evOtherRenews:
		w.otherEnd = w.now + w.sc.lease
	case evConfirm:
		w.up = true
		w.heard.Confirmed++
		w.hear()
	case evMessage:
		w.messages--
		w.heard.Messages++
		w.hear()
	case evSilent:
		w.left.silent--
		w.messages--
	case evDeaf:
		w.left.deaf--
		w.up, w.messages = false, 0
	case evPing:
		w.heard.Upto = w.now
	case evClose:
		w.left.close--
		w.twin.close()
		w.step(w.line.Close())
	case evTime:
		w.now = w.nextDue()
		if w.other != 0 && w.otherEnd <= w.now {
			w.other = 0
		}
	}
	w.check()
}

// hear delivers a message or a confirmation.
func (w *world) hear() {
	w.news, w.newsAt = true, w.now
	for i := range w.calls {
		w.calls[i].news = true
	}
	w.wake(w.line.First())
}

func (w *world) call(i int8) {
	c, a := &w.calls[i], w.sc.calls[i]
	w.callers[i] = caller{Owner: a.owner, Shared: a.shared, NoWait: a.try}
	for d := range w.sc.calls {
		d := int8(d)
		if !w.inLine(d) || w.sc.calls[d].try || !w.conflict(i, d) {
			continue
		}
		if w.calls[d].waited || w.sc.kind <= ReadWrite && !a.try {
			c.before |= 1 << d
		}
	}
	c.phase = queued
	w.twin.join(i, a.owner, a.shared, a.try)
	w.step(w.line.Join(&w.callers[i]))
	if in := w.line.Instruction(&w.callers[i]); in.Do == DoWait && !a.try && !w.ownerProbes(i) {
		c.waited = true
	}
}

func (w *world) ownerProbes(i int8) bool {
	for d := range w.sc.calls {
		if int8(d) != i && w.calls[d].phase == flying && w.owner(int8(d)) == w.owner(i) && w.sc.kind <= ReadWrite {
			return true
		}
	}
	return false
}

// act does what a caller's goroutine does when it is awake.
func (w *world) act(i int8) {
	c, q := &w.calls[i], &w.callers[i]
	c.asleep, c.token, c.until = false, false, 0
	in := w.line.Instruction(q)
	switch in.Do {
	case DoWait:
		c.asleep, c.until, c.seen = true, forever, in
	case DoProbe:
		w.notice()
		if q == w.line.First() {
			if due := w.probe.Due(max(int64(w.sc.calls[i].needs), 1)); due > w.now {
				c.asleep, c.until, c.seen = true, due, in
				return
			}
			w.begun = w.now
			c.mark = w.probe.Began(w.now)
		} else {
			c.mark = w.probe.BeganBeside()
		}
		for d := range w.sc.calls {
			if c.before&(1<<d) != 0 && w.inLine(int8(d)) && w.sc.calls[i].try && !w.hasHold(w.owner(i), false) {
				w.wrong("caller %d, which does not wait, passes caller %d", i, d)
			}
		}
		c.passes = w.sc.kind == ReadWrite && w.hasHold(w.owner(i), false)
		w.order++
		c.phase, c.executed, c.news, c.epoch, c.order = flying, false, false, w.epoch, w.order
		c.probedAsked, c.heard = 0, w.up
		for d := range w.sc.calls {
			if w.inLine(int8(d)) {
				c.probedAsked |= 1 << d
			}
		}
		w.twin.began(i)
		w.step(w.line.Began(q))
	case DoReenter:
		c.phase, c.hold = reentering, in.Hold
	case DoTake:
		w.served(i)
		w.holds[in.Hold].at = inUse
		c.phase, c.hold = having, in.Hold
		w.twin.take(i)
		w.step(w.line.Take(q))
	case DoRefuse, DoGiveUp, DoReturn:
		c.phase = over
		if in.Do == DoReturn {
			c.outcome = 1
		}
		w.twin.leave(i)
		w.step(w.line.Leave(q))
	}
}

// notice tells Probe the number of messages, and notes when, because a goroutine may be slow.
func (w *world) notice() {
	if w.heard.Messages != w.noticed {
		w.noticed, w.noticedAt = w.heard.Messages, w.now
	}
	w.probe.Hear(w.now, w.heard)
}

// served says that i gets the object, not by re-entry.
func (w *world) served(i int8) {
	for d := range w.sc.calls {
		d := int8(d)
		if w.calls[i].before&(1<<d) == 0 || !w.inLine(d) || w.calls[d].outcome == 1 || w.calls[i].passes {
			continue
		}
		if w.owner(d) == w.owner(i) && w.sc.kind <= ReadWrite {
			continue // it re-enters
		}
		w.wrong("caller %d is served before caller %d, which came first", i, d)
	}
}

func (w *world) execute(i int8) {
	c, a := &w.calls[i], w.sc.calls[i]
	c.executed, c.ttl = true, -1
	switch w.sc.kind {
	case Permits:
		if c.yes = w.free >= a.needs; c.yes {
			w.free -= a.needs
		}
		c.left = w.free
	case Latch:
		c.yes = w.free > 0
	default:
		if c.yes = w.allowed(a.owner, a.shared); c.yes {
			w.holds[i+1] = worldHold{owner: a.owner, shared: a.shared, redis: true}
		} else if w.other != 0 && w.otherEnd != forever {
			c.ttl = w.otherEnd - w.now
		}
	}
}

// know notes what an answer says about the object, unless a newer answer is known.
func (w *world) know(i int8, what int8) bool {
	c := &w.calls[i]
	if c.epoch != w.epoch || c.order < w.latest {
		return false
	}
	w.latest, w.known, w.knownAt, w.news, w.lease, w.knownHeard = c.order, what, w.now, c.news, 0, c.heard
	if what != knowsUnknown {
		w.unknowns = 0
	}
	if q := w.line.First(); q != &w.callers[i] {
		w.wake(q) // it may be due sooner
	}
	return true
}

// freed replaces the knowledge about the lock by what.
func (w *world) freed(what int8) {
	w.epoch++
	w.known, w.knownAt, w.lease, w.unknowns = what, w.now, 0, 0
}

func (w *world) answer(i int8) {
	c, q, a := &w.calls[i], &w.callers[i], w.sc.calls[i]
	if c.yes {
		w.served(i)
		left := int64(0)
		switch {
		case w.sc.kind == Permits:
			left = int64(c.left)
		case a.shared, w.sc.kind == Latch:
			left = 1
		}
		if w.sc.kind != Exclusive {
			w.probe.Took(w.now, c.mark, left)
			if w.know(i, knowsTaken) {
				w.spare = int8(left)
			}
		}
		switch w.sc.kind {
		case Permits:
			c.phase, c.hold = having, 0
			w.twin.leave(i)
			w.step(w.line.Leave(q))
		case Latch:
			asked := c.probedAsked
			w.twin.opened(i)
			w.step(w.line.Opened(q))
			c.phase, c.asleep = queued, false
			for d := range w.sc.calls {
				in := w.line.Instruction(&w.callers[d])
				if d := int8(d); w.inLine(d) && (in.Do == DoReturn) != (asked&(1<<d) != 0 || w.calls[d].outcome == 1) && d != i && !w.line.closed {
					if in.Do == DoReturn {
						w.wrong("caller %d is served by a probe that began before it came", d)
					} else {
						w.wrong("caller %d is not served by the probe of caller %d", d, i)
					}
				}
				if in.Do == DoReturn {
					w.calls[d].outcome = 1
				}
			}
		default:
			h := &w.holds[i+1]
			h.at, h.count = inUse, 1
			c.phase, c.hold = having, i+1
			w.runs = 0
			if w.line.closed {
				c.phase = over
			}
			w.twin.took(i, i+1)
			w.step(w.line.Took(q, i+1))
		}
		return
	}
	w.subscribed = true
	ans := Answer{TTL: -1}
	if w.sc.kind == Permits {
		ans.Left = int64(c.left)
	} else if c.ttl >= 0 {
		ans.TTL = nanos(c.ttl)
	}
	w.probe.Refused(w.now, c.mark, ans)
	if w.know(i, knowsRefused) {
		w.spare = c.left
		if c.ttl >= 0 {
			w.lease = w.now + max(c.ttl, Instant(w.sc.pacing.Pace))
		}
	}
	w.twin.ended(i, true)
	c.phase, c.asleep, c.waited = queued, false, !a.try
	w.refusals(func() { w.step(w.line.Refused(q)) }, i, true)
}

func (w *world) unanswered(i int8) {
	c, q := &w.calls[i], &w.callers[i]
	w.probe.Unanswered(w.now, c.mark, 0)
	if w.know(i, knowsUnknown) {
		w.unknowns++
	}
	w.twin.ended(i, false)
	c.phase, c.asleep, c.waited = queued, false, !w.sc.calls[i].try
	w.refusals(func() { w.step(w.line.Unanswered(q)) }, i, false)
}

// refusals checks the callers that do not wait. If an answer refuses one, the answer is
// its own, or another caller waits.
func (w *world) refusals(event func(), i int8, definite bool) {
	var before [maxCalls]bool
	for d := range w.sc.calls {
		before[d] = w.callers[d].isRefused
	}
	event()
	for d := range w.sc.calls {
		d := int8(d)
		if before[d] || !w.callers[d].isRefused || d == i || !w.inLine(d) {
			continue
		}
		mine := definite && w.calls[i].probedAsked&(1<<d) != 0 && w.owner(d) == w.owner(i)
		for x := range w.sc.calls {
			mine = mine || w.inLine(int8(x)) && !w.sc.calls[x].try && w.conflict(d, int8(x)) && !w.callers[x].isFresh
		}
		if !mine {
			w.wrong("caller %d is refused by a probe that began before it came, and nobody waits", d)
		}
	}
}

// abandon is the end of a request for which no caller waits any more.
func (w *world) abandon(i int8, comesLate bool) {
	c, a := &w.calls[i], w.sc.calls[i]
	m := modeOf(a.shared)
	switch {
	case comesLate:
		w.left.late--
		w.late[m]++
	case !c.executed || !c.yes:
	case w.sc.kind == Permits:
		w.free += a.needs // the caller of Line releases them
		w.publish()
	case w.sc.kind != Latch:
		w.holds[i+1] = worldHold{}
		w.ghosts[m]++
	}
}

func (w *world) leave(i int8) {
	w.calls[i] = callState{phase: over}
	w.twin.leave(i)
	w.step(w.line.Leave(&w.callers[i]))
}

func (w *world) reentered(i int8) {
	c := &w.calls[i]
	if h := &w.holds[c.hold]; h.entered() {
		h.count++
		c.phase = having
		w.twin.leave(i)
		w.step(w.line.Leave(&w.callers[i]))
		return
	}
	c.phase, c.asleep = queued, false // the hold is gone
}

func (w *world) unlock(i int8) {
	hold, needs := w.calls[i].hold, w.sc.calls[i].needs
	w.calls[i] = callState{phase: over}
	if w.sc.kind == Permits {
		w.free += needs
		w.publish()
		w.freed(knowsNothing)
		w.probe.Freed()
		w.wake(w.line.First())
		return
	}
	w.unlockHold(hold)
}

func (w *world) unlockHold(n int8) {
	h := &w.holds[n]
	if !h.entered() {
		return // lost
	}
	if h.count--; h.count == 0 {
		w.end(n)
	}
}

// end ends a hold without a holder.
func (w *world) end(n int8) {
	h := &w.holds[n]
	h.executed, h.runOver = false, w.line.RunLength() > 0
	was := w.line.RunLength()
	successor, overToo := w.twin.leaving(n, w.now, w.sc.yields)
	next, over, s := w.line.Leaving(h.owner, n, w.now, w.sc.yields)
	w.step(s)
	if w.sc.kind == Exclusive {
		w.probe.Releasing(w.now)
		w.freed(knowsReleasing)
	}
	if next == nil {
		h.at = releasing
		return
	}
	to := w.id(next)
	if !w.sc.noTwin && (to != successor || over != overToo) {
		w.wrong("hold %d is handed to %d (run over: %t), not %d (%t)", n, to, over, successor, overToo)
	}
	if was >= w.sc.run.Length && !over {
		w.wrong("the run is %d long and goes on", was)
	}
	h.at, h.to, h.as, h.over = handing, to, maxCalls+1+to, over
	if w.sc.memory && !over {
		w.holds[h.as] = worldHold{owner: w.owner(to), redis: h.redis}
		h.redis = false
		w.handed(n)
	}
}

func (w *world) handed(n int8) {
	h := w.holds[n]
	w.holds[n] = worldHold{}
	w.holds[h.as].at, w.holds[h.as].count = inHand, 1
	w.twin.handed(n, h.to, w.owner(h.to), h.as, w.now)
	w.step(w.line.Handed(h.owner, n, &w.callers[h.to], h.as, w.now))
}

// executeEnd is the script of a release or a hand-over. The hand-over that ends a run
// tells another client if one waits, and becomes a release then.
func (w *world) executeEnd(n int8, told bool) {
	h := &w.holds[n]
	h.executed, h.ok, h.told = true, h.redis, told
	if !h.redis {
		return
	}
	h.redis = false
	if h.at == handing && !told {
		w.holds[h.as] = worldHold{owner: w.owner(h.to), redis: true}
	}
	if h.at == releasing || h.over {
		w.publish()
	}
}

func (w *world) answerEnd(n int8) {
	h := w.holds[n]
	if h.at == handing && h.ok && !h.told {
		w.handed(n)
		return
	}
	w.gone(n, h.ok && (h.at == releasing && h.runOver || h.told))
}

// gone is the end of an own hold.
func (w *world) gone(n int8, runOver bool) {
	h := w.holds[n]
	w.holds[n] = worldHold{}
	w.twin.gone(n)
	w.probe.Freed()
	w.freed(knowsNothing)
	if runOver && w.sc.others {
		w.notice()
		w.probe.RunEnded(w.now, w.heard.Messages+1, 0, false)
		w.deferTo, w.deferEnd, w.noticedAt = w.heard.Messages+1, w.now+Instant(w.sc.pacing.MaxPoll), w.now
	}
	w.step(w.line.HoldEnded(h.owner, n))
}

// loseEnd is a release or a hand-over with an unknown outcome. The holds that it may have
// left are owed.
func (w *world) loseEnd(n int8) {
	h := &w.holds[n]
	if h.at == handing && h.executed && h.ok && !h.told {
		w.holds[h.as] = worldHold{}
		w.ghosts[0]++
	}
	if h.redis {
		h.redis = false
		w.ghosts[modeOf(h.shared)]++
	}
	w.gone(n, false)
}

func (w *world) lose(n int8) {
	h := w.holds[n]
	if h.redis {
		w.ghosts[modeOf(h.shared)]++
	}
	w.gone(n, false)
}
