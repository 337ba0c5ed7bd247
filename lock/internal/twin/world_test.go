package twin

import (
	"fmt"
	"slices"
	"strconv"
)

// The world of an exploration: callers of two clients, the requests that they and
// their janitors have under way, and a server. Each event is one step of one of them.
// Only "time passes" takes time: it goes to the next moment at which anything is due.
// Times are in ms; small numbers stand for those of the product.

const (
	ioTimeout = 1 // a request that is not answered by then is unknown
	lease     = 4
	lastCopy  = 3 // a request of a semaphore or latch is carried out by then, since its first sending
	resultTTL = lastCopy + 2
	setJump   = 2
	handOver  = 1 // for so long after a script was sent that Redis said yes to, holds are handed over in memory

	// Of so many tokens a ms is made, and so many are reserved for one waiter: two blocks
	// are ahead of the time when it goes on by the least step.
	tokenUnit  = 5242
	tokenBlock = tokenUnit

	maxCallers = 3
	maxSeqs    = 16
	none       = int8(-1)
)

// verb is what a caller does, and what a request is about.
type verb uint8

const (
	doLock       verb = iota // renewed until it is unlocked
	doLockFor                // for a lease
	doRelock                 // one more count
	doRelockOnce             // which is given up if it is not answered
	doUnlock                 // one count, or all of it
	doGuard                  // runs a command
	doExtend
	doProlong // by more than a renewal does
	doForce
	doRead
	doWrite
	doTake // of a semaphore
	doGive
	doDown // counts a latch down
	doPermit
	// of requests alone
	doHandOver
	doUndo
	doRelease
	doRenew
	verbs
)

var verbTexts = [verbs]string{
	"lock", "lock for a while", "re-entry", "re-entry, once", "unlock", "guard", "extension", "longer extension", "force", "read lock", "write lock",
	"take", "give", "count down", "permit", "hand-over", "undo", "release", "renewal",
}

// rules are what can be switched off.
type rules struct {
	noLimit       bool // requests never expire, and "not there" is final
	oneRelease    bool // they do, and "not there" is final all the same
	retryQueues   bool // a re-entry that was not answered is tried as a new acquisition
	notOpen       bool // the next request of a hold is sent whatever became of the last
	staleTime     bool // a new connection does not ask for the time
	lossIsNothing bool // a hold that is lost is forgotten
	passOpen      bool // a hold is handed over in memory whatever became of its requests
	passAndOwe    bool // its field is released all the same
	passUnminted  bool // a token is given that is not reserved
	tellLeaver    bool // a loss is told to who had the lock when the renewal was sent
	flaw          flaw // of the scripts
}

// scenario is what is explored.
type scenario struct {
	name    string
	kind    string   // of the object
	clients []int8   // of each caller
	does    [][]verb // by caller
	jump    int64    // how far the server's clock is set, in ms
	backAny bool     // back while requests are late, too
	most    []budget // each is explored
	budget  budget
	fixed   bool  // writers are not renewed
	memory  bool  // holds are handed over in memory
	tokens  bool  // they are minted
	behind  int64 // the clock of client 1 is behind that of client 0, as tokens go
	run     int8  // after so many hand-overs those of other clients have their turn; 0: never
	count   int64 // of the semaphore or the latch
	rules   rules
	states  int // at least
}

// budget is how often what is rare happens in one story.
type budget struct {
	faults int8 // requests that are given up
	leaves int8 // callers that leave
	jumps  int8 // of the server's clock
	renews int8 // renewals that take their time
	silent int8 // renewals that are not answered, until the hold is lost
	losses int8 // of the counter of tokens
	copies int8 // requests that arrive, are answered, and arrive once more
}

type holdKind uint8

const (
	alone holdKind = iota
	reading
	writing
	ofPermit
	plain // a permit of a semaphore, which nobody can lose
)

// hold is what a caller believes to have.
type hold struct {
	kind   holdKind
	seq    int8
	count  int8
	guards int8
	trust  int64 // until when, by the client's clock; 0: it is renewed, and was just now
	silent bool  // its renewals are not answered
	unsure bool  // a request that may have prolonged it was not answered
	open   int64 // by this time of the server's clock its unanswered request is over
	until  int64 // until when it may be handed over in memory; 0: never
	run    int8  // the hand-overs that led to it, if they are counted
	stray  bool  // a request of it was not answered
	longer bool  // a longer lease was asked for
	token  int64
	more   int8 // for so many who have it after that tokens are reserved
}

type phase uint8

const (
	ready phase = iota
	waiting
	flying
	over
)

type caller struct {
	phase phase
	woken bool // a refused caller asks again
	pc    int8
	seq   int8 // of its request, none at first
	lates int8
	first int64 // its request was sent first
	holds [3]hold
	held  int8
}

// msg is a request under way.
type msg struct {
	do       verb
	kind     holdKind
	live     bool // somebody waits for the answer
	caller   int8 // none: the janitor
	client   int8
	seq      int8
	to       int8 // of a hand-over: the caller and its field
	toSeq    int8
	n        int8   // a count, or the number of a guard
	set      uint16 // fields: that are owed, or that are to go
	own      int8   // own write hold of a reader
	long     bool   // an extension by more than a renewal does
	over     bool   // a hand-over at the end of a run
	more     int8   // for so many a token is reserved
	notAfter int64
	stamp    int64 // sent, by the client's clock
}

// duty is what a janitor has to do.
type duty struct {
	do       verb // doRelease or doUndo
	kind     holdKind
	client   int8
	seq      int8
	sent     bool // and not answered yet
	again    bool // "not there" was no final answer: once more after notAfter
	notAfter int64
	until    int64 // by the client's clock
}

// field is what is true of a hold's field, or of a result, whoever knows it.
type field struct {
	used   bool
	caller int8
	writes bool
	forced bool
	longer bool // the server's clock was set back while it was there: it stays as much longer
	guard  int8 // the last that was run
	begun  int8 // the guards up to this one are of those who had it before
}

type world struct {
	sc      *scenario
	srv     *server
	now     int64 // of the clients
	off     int64 // the server's clock is ahead of it
	est     [2]int64
	callers [maxCallers]caller
	msgs    []msg
	duties  []duty
	seqs    [maxSeqs]field
	left    budget
	counted uint16 // count-downs that were carried out
	token   int64  // the highest that a caller has got
	said    string // what came of the last request that arrived
	fault   string
}

const (
	object    = "k"
	counterOf = "t"
	writersOf = "{k}:wheellock_writers"
	takenOf   = "{k}:timeout"
	guardedBy = "g"
)

var (
	fieldNames  = names("h:", "")
	writeNames  = names("h:", ":write")
	timeoutName = names("{k}:h:", ":rwlock_timeout:1")
	resultNames = names("r:", "")
	permitNames = names("bytes-of-", "")
)

func names(before, after string) (out [maxSeqs]string) {
	for i := range out {
		n := strconv.Itoa(i)
		if before == "bytes-of-" {
			n = fmt.Sprintf("%03d", i)
		}
		out[i] = before + n + after
	}
	return out
}

func newWorld(sc *scenario) *world {
	w := &world{sc: sc, srv: &server{}, now: 100, left: sc.budget}
	x := &exec{s: w.srv, now: w.now}
	if sc.count != 0 {
		x.set(object, text64(sc.count), 0)
	}
	if sc.tokens {
		x.set(counterOf, text64(w.now*tokenUnit), 0)
	}
	for i := range w.callers {
		w.callers[i].seq = none
		if i >= len(sc.does) {
			w.callers[i].phase = over
		}
	}
	return w
}

// copyFrom makes w what s is.
func (w *world) copyFrom(s *world) {
	msgs, duties := w.msgs, w.duties
	*w = *s
	w.msgs = append(msgs[:0], s.msgs...)
	w.duties = append(duties[:0], s.duties...)
}

func (w *world) wrong(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

func (w *world) clock() int64            { return w.now + w.off }
func (w *world) guess(client int8) int64 { return w.now + w.est[client] }

func (w *world) fieldName(seq int8) string {
	if w.seqs[seq].writes {
		return writeNames[seq]
	}
	return fieldNames[seq]
}

// of is the caller's hold of that kind.
func (c *caller) of(k holdKind) *hold {
	for i := range c.held {
		if h := &c.holds[i]; h.kind == k {
			return h
		}
	}
	return nil
}

// oldest is the hold that is unlocked first, and that requests are about.
func (c *caller) oldest() *hold {
	if c.held == 0 {
		return nil
	}
	return &c.holds[0]
}

func (c *caller) drop(seq int8) {
	for i := range c.held {
		if c.holds[i].seq == seq {
			copy(c.holds[i:], c.holds[i+1:c.held])
			c.held--
			c.holds[c.held] = hold{}
			return
		}
	}
}

// event is one step.
type event struct {
	do   happening
	i    int8
	m    msg
	text verb
}

type happening uint8

const (
	begins happening = iota
	arrives
	doubles
	givesUp
	renews
	silences
	leaves
	passes
	forgets
	forward
	back
)

func (e event) String() string {
	what := fmt.Sprintf("caller %d's %s", e.m.caller, verbTexts[e.m.do])
	if e.m.caller == none {
		what = fmt.Sprintf("the %s of client %d's janitor", verbTexts[e.m.do], e.m.client)
	}
	if e.m.do == doGuard {
		what += fmt.Sprintf(" %d", e.m.n)
	}
	switch e.do {
	case begins:
		return fmt.Sprintf("caller %d sends its %s", e.i, verbTexts[e.text])
	case arrives:
		if !e.m.live {
			return what + ", for which nobody waits any more, arrives late"
		}
		return what + " is answered"
	case doubles:
		return what + " is answered, and a copy of it is under way"
	case givesUp:
		return what + " is not answered and is given up; it is still under way"
	case renews:
		return fmt.Sprintf("a renewal of caller %d is sent", e.i)
	case silences:
		return fmt.Sprintf("the renewals of caller %d are not answered; the last is still under way", e.i)
	case leaves:
		return fmt.Sprintf("caller %d leaves", e.i)
	case forward:
		return "the server's clock is set forward"
	case back:
		return "the server's clock is set back"
	}
	text := fmt.Sprintf("%d ms pass", e.i)
	if e.do == forgets {
		text += ", and the counter of tokens is lost"
	}
	return text
}

// mayBegin reports whether a caller may send what it does next: while one of a
// hold's requests is open only a full release is.
func (w *world) mayBegin(i int8) bool {
	c := &w.callers[i]
	if c.phase == waiting {
		return c.woken
	}
	if c.phase != ready {
		return false
	}
	h := c.oldest()
	if h == nil || h.open == 0 || w.sc.rules.notOpen {
		return true
	}
	switch w.sc.does[i][c.pc] {
	case doRelock, doRelockOnce, doGuard, doExtend, doProlong:
	case doUnlock:
		if h.count <= 1 {
			return true
		}
	default:
		return true
	}
	return w.guess(w.sc.clients[i]) > h.open
}

// due is when a duty's script is sent, by the client's clock; 0: at once.
func (d *duty) due(w *world) int64 {
	if d.again {
		return d.notAfter + 1 - w.est[d.client]
	}
	return 0
}

func (w *world) events(out []event) []event {
	overdue := false
	for i := range w.sc.does {
		i, c := int8(i), &w.callers[i]
		if w.mayBegin(i) {
			out = append(out, event{do: begins, i: i, text: w.sc.does[i][c.pc]})
			overdue = overdue || c.first != 0 // it is sent again soon
		}
		if h := c.oldest(); w.left.silent > 0 && h != nil && h.trust == 0 && h.kind == alone {
			out = append(out, event{do: silences, i: i})
		}
		if h := c.oldest(); w.left.renews > 0 && h != nil && h.trust == 0 {
			out = append(out, event{do: renews, i: i})
		}
		if w.left.leaves > 0 && (c.phase == waiting || c.phase == flying) {
			switch w.sc.does[i][c.pc] {
			case doLock, doLockFor, doRead, doWrite, doTake, doPermit:
				out = append(out, event{do: leaves, i: i})
			}
		}
	}
	late := false
	for _, m := range w.msgs {
		out = append(out, event{do: arrives, m: m})
		if m.live {
			if w.left.copies > 0 {
				out = append(out, event{do: doubles, m: m})
			}
			overdue = overdue || w.now >= m.stamp+ioTimeout
			if w.left.faults > 0 {
				out = append(out, event{do: givesUp, m: m})
			}
		} else {
			late = true
		}
	}
	if !overdue && w.nextDue() != 0 {
		pass := event{do: passes, i: int8(w.nextDue() - w.now)}
		out = append(out, pass)
		if w.left.losses > 0 && w.exists(counterOf) {
			pass.do = forgets
			out = append(out, pass)
		}
	}
	if w.left.jumps > 0 {
		// A clock that is set forward ends leases before their time, which nothing
		// can mend; and back, what was late is in time again.
		if w.srv.at(object, w.clock()) == nil || w.srv.at(object, w.clock()).end == 0 {
			out = append(out, event{do: forward})
		}
		if !late || w.sc.backAny {
			out = append(out, event{do: back})
		}
	}
	return out
}

// nextDue is the next moment at which something is due, 0 if nothing is.
func (w *world) nextDue() (at int64) {
	due := func(t int64) {
		if t > w.now && (at == 0 || t < at) {
			at = t
		}
	}
	for _, m := range w.msgs {
		if m.live {
			due(m.stamp + ioTimeout)
		}
		if m.notAfter != 0 {
			due(m.notAfter + 1 - w.off)
		}
	}
	for n := range w.duties {
		due(w.duties[n].due(w))
		due(w.duties[n].until)
	}
	for i := range w.sc.does {
		c := &w.callers[i]
		for n := range c.held {
			due(c.holds[n].trust)
			if c.holds[n].trust == 0 && c.holds[n].kind != plain {
				due(w.now + lease - 1) // renewed in time
			}
			if c.holds[n].open != 0 {
				due(c.holds[n].open + 1 - w.est[w.sc.clients[i]])
			}
		}
	}
	if w.announces() {
		due(w.now + lease - 1)
	}
	for n := range w.srv.entries {
		e := &w.srv.entries[n]
		if e.end != 0 {
			due(e.end + 1 - w.off)
		}
		if e.kind == zset {
			for _, p := range e.pairs {
				due(int64(p.score))
			}
		}
	}
	return at
}

func (w *world) apply(e event) {
	w.said = ""
	switch e.do {
	case begins:
		w.begin(e.i)
	case arrives:
		w.take(e.m)
		w.arrive(e.m)
	case doubles:
		w.left.copies--
		w.take(e.m)
		w.arrive(e.m)
		e.m.live = false
		w.msgs = append(w.msgs, e.m)
	case givesUp:
		w.left.faults--
		w.take(e.m)
		w.giveUp(e.m)
	case renews:
		w.left.renews--
		m := w.renewal(e.i)
		m.live = true
		w.msgs = append(w.msgs, m)
	case silences:
		w.left.silent--
		w.silence(e.i)
	case leaves:
		w.left.leaves--
		w.leave(e.i)
	case passes:
		w.pass()
	case forgets:
		w.left.losses--
		x := &exec{s: w.srv.clone(w.clock()), now: w.clock()}
		x.del(counterOf)
		w.srv = x.s
		w.pass()
	case forward:
		w.left.jumps--
		w.off += w.sc.jump
		w.expired()
	case back:
		w.left.jumps--
		w.off -= w.sc.jump
		for seq := range w.seqs {
			w.seqs[seq].longer = w.seqs[seq].longer || w.isThere(int8(seq))
		}
	}
	for n := range w.duties {
		if d := &w.duties[n]; !d.sent && d.due(w) <= w.now {
			w.send(d)
		}
	}
	w.tidy()
	if w.fault == "" {
		w.check()
	}
}

// take takes a request off the way.
func (w *world) take(m msg) {
	i := slices.Index(w.msgs, m)
	w.msgs = slices.Delete(w.msgs, i, i+1)
}

// pass lets time pass until something is due. Before that the watchdogs renew.
func (w *world) pass() {
	to := w.nextDue()
	for i := range w.sc.does {
		c := &w.callers[i]
		for n := c.held - 1; n >= 0; n-- {
			if h := c.holds[n]; h.trust == 0 && h.kind != plain && !w.renew(h) {
				w.loses(int8(i), h.seq)
			}
		}
	}
	for i := range w.sc.does {
		w.renewSilent(int8(i))
	}
	if w.announces() {
		x := &exec{s: w.srv.clone(w.clock()), now: w.clock()}
		x.atLeast(writersOf, lease)
		w.srv = x.s
	}
	w.now = to
	w.expired()
	for i := range w.sc.does {
		c := &w.callers[i]
		for n := c.held - 1; n >= 0; n-- {
			h := &c.holds[n]
			if h.open != 0 && w.guess(w.sc.clients[i]) > h.open {
				h.open = 0
			}
			if h.trust != 0 && h.trust <= w.now {
				w.loses(int8(i), h.seq)
			}
		}
	}
	w.duties = slices.DeleteFunc(w.duties, func(d duty) bool { return d.until <= w.now && d.do == doRelease })
}

// silence keeps a caller's hold, which was renewed just now, from hearing an answer to
// a renewal any more. The client goes on sending them until the hold is lost.
func (w *world) silence(i int8) {
	h := w.callers[i].oldest()
	if !w.renew(*h) {
		w.loses(i, h.seq)
		return
	}
	h.trust, h.silent, h.unsure = w.now+lease, true, true
	w.renewSilent(i)
}

// renewSilent sends such a renewal, if none is under way.
func (w *world) renewSilent(i int8) {
	h := w.callers[i].oldest()
	if h == nil || !h.silent || slices.ContainsFunc(w.msgs, func(m msg) bool { return m.do == doRenew && m.seq == h.seq }) {
		return
	}
	w.msgs = append(w.msgs, w.renewal(i))
}

// renewal is the request that renews a caller's hold.
func (w *world) renewal(i int8) msg {
	m := msg{do: doRenew, kind: alone, caller: i, client: w.sc.clients[i], seq: w.callers[i].oldest().seq, stamp: w.now}
	m.notAfter = w.stampOf(m.client, 0)
	return m
}

// announces reports whether a writer waits, which says so again in time.
func (w *world) announces() bool {
	for i := range w.sc.does {
		if c := &w.callers[i]; c.phase == waiting && w.sc.does[i][c.pc] == doWrite && w.exists(writersOf) {
			return true
		}
	}
	return false
}

// expired wakes those that wait if a key is over: they ask by themselves then.
func (w *world) expired() {
	if slices.ContainsFunc(w.srv.entries, func(e entry) bool {
		if e.kind == zset && int64(e.pairs[0].score) <= w.now {
			return true
		}
		return e.end != 0 && w.clock() > e.end
	}) {
		w.srv = w.srv.clone(w.clock())
		w.wake()
	}
}

func (w *world) wake() {
	for i := range w.callers {
		if c := &w.callers[i]; c.phase == waiting {
			c.woken = true
		}
	}
}

// seqOf is the number in a field's name.
func seqOf(name string) int8 {
	n := int8(0)
	for i := 2; i < len(name) && name[i] >= '0' && name[i] <= '9'; i++ {
		n = 10*n + int8(name[i]-'0')
	}
	return n
}

// tidy forgets requests that come too late for anything, and frees the numbers that
// nobody uses.
func (w *world) tidy() {
	if !w.sc.backAny {
		w.msgs = slices.DeleteFunc(w.msgs, func(m msg) bool { return !m.live && m.notAfter != 0 && w.clock() > m.notAfter })
	}
	var used [maxSeqs]bool
	use := func(seq int8) {
		if seq >= 0 {
			used[seq] = true
		}
	}
	for _, m := range w.msgs {
		use(m.seq)
		if m.do == doHandOver {
			use(m.toSeq)
		}
		if m.do == doRead {
			use(m.own)
		}
		for s := range int8(maxSeqs) {
			if m.set&(1<<s) != 0 {
				use(s)
			}
		}
	}
	for _, d := range w.duties {
		use(d.seq)
	}
	for i := range w.callers {
		use(w.callers[i].seq)
		for n := range w.callers[i].held {
			use(w.callers[i].holds[n].seq)
		}
	}
	for n := range w.srv.entries {
		switch e := &w.srv.entries[n]; {
		case e.key == object && e.kind == hash, e.key == takenOf:
			for _, p := range e.pairs {
				if e.kind == zset {
					use(seqOf("  " + p.name[9:12]))
				} else if p.name != "mode" {
					use(seqOf(p.name))
				}
			}
		case e.key[0] == 'r':
			use(seqOf(e.key))
		case len(e.key) > 4 && e.key[:4] == "{k}:" && e.kind == text:
			use(seqOf(e.key[4:]))
		}
	}
	for s := range w.seqs {
		if !used[s] {
			w.seqs[s] = field{}
		}
	}
}
