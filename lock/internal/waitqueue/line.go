package waitqueue

// Kind says what the object of a Line is.
type Kind uint8

const (
	Exclusive Kind = iota // one owner at a time, which may re-enter: Mutex, FencedMutex
	ReadWrite             // one owner, or many that share
	Permits               // counted; callers have no owners
	Latch                 // open to all or to none; callers have no owners
	Places                // Exclusive, but Redis has the order: each caller has a place there and a Probe of its own: FairMutex
	Votes                 // taken from several members, which vote; the Line knows no holds, but whose owners have a member: RedLock
)

// owned reports whether callers have owners, which may re-enter.
func (k Kind) owned() bool { return k != Permits && k != Latch }

// Do is what a caller is to do.
type Do uint8

const (
	DoWait    Do = iota // until it is woken
	DoProbe             // ask Redis, when Probe says so or, if not the first in line, at once; in Places when the caller's own Probe says so
	DoReenter           // re-enter its owner's Hold
	DoTake              // call Take: Hold was handed to it
	DoRefuse            // return: it does not wait, and others wait, or its owner was refused meanwhile
	DoReturn            // return: it has what it waited for (Latch)
	DoGiveUp            // return: the Line is closed or, with a Hold, its owner has that one and cannot get another
)

// Instruction says what a caller is to do now.
type Instruction[H comparable] struct {
	Do   Do
	Hold H // of DoReenter, DoTake and DoGiveUp
}

// Caller is one call that wants the object, from Join to Leave, Took or Take. It
// is used once. The fields are set before Join and not changed afterwards.
type Caller[O, H comparable] struct {
	Owner  O    // unless it is of Permits or a Latch
	Shared bool // ReadWrite: a reader
	Try    bool // it does not wait: it probes once, or is refused
	// User is whoever the caller is to the user. Line does not look at it.
	User any

	number  uint64 // by arrival; 0: it has not joined
	asked   uint64 // the number of the last that had joined when its probe began
	probing bool   // it asks Redis now
	fresh   bool   // it had to wait for nobody when it came, and was not refused yet; of Places: it was not refused yet
	may     bool   // with Try: nobody waited when its turn to probe came
	refused bool   // with Try: it gets nothing
	served  bool   // Latch
	granted bool   // own was handed to it, and it has not taken it
	told    Instruction[H]

	prev, next *Caller[O, H] // in line, or among those that do not wait

	party              *party[O, H] // of its owner; nil in Permits and Latch
	list               *list[O, H]  // of its party, that it is in; nil: none
	listPrev, listNext *Caller[O, H]
	founded            party[O, H] // its party, if it is the first of its owner
	own                holding[O, H]
}

// Step is what an event brought. The slices are valid until the next event.
type Step[O, H comparable] struct {
	// Wake are those whose instruction has changed or, in the case of the first
	// in line, may be due sooner.
	Wake []*Caller[O, H]
	// PassOn are holds that those for whom they are do not take. The user ends each
	// as Unlock does: if it is the last, by Leaving, and others of the owner may have
	// re-entered it.
	PassOn []H
}

// Line is the callers of one client for one object, in order, and the client's
// own holds of it. Its methods are the events; each is O(1), and one step for
// every caller whose instruction changes. Make one with NewLine. It is not safe
// for concurrent use, and must not be copied.
type Line[O, H comparable] struct {
	kind   Kind // immutable
	limits *Run // immutable

	closed  bool
	joined  uint64 // how many have joined; the number of the last one
	callers int    // that have not left

	first, last *Caller[O, H] // the callers in line, by arrival
	tries       *Caller[O, H] // the callers that do not wait
	standing    [2]int        // in line, by mode
	waiting     [2]int        // of them, those that are not fresh

	parties parties[O, H]

	holds    int // own ones
	blocking int // of them, those that nobody is releasing
	run      int // hand-overs that led to the present hold
	runStart Instant
	brief    bool // all had a turn in a run before it had taken Run.Brief; the last time that all had

	step  Step[O, H]       // buffers
	few   [2]*Caller[O, H] // step.Wake begins with it: a Line of one caller allocates nothing
	looks uint64           // how often an instruction was worked out, for tests

	bent func(*Line[O, H], *Caller[O, H], Instruction[H]) Instruction[H] // another rule; nil but in tests
}

// NewLine returns an empty Line. limits is not changed as long as it is used.
func NewLine[O, H comparable](k Kind, limits *Run) Line[O, H] {
	return Line[O, H]{kind: k, limits: limits}
}

func mode(shared bool) int {
	if shared {
		return 1
	}
	return 0
}

// Instruction says what c is to do now.
func (l *Line[O, H]) Instruction(c *Caller[O, H]) Instruction[H] { return c.told }

// First is the first caller in line, or nil.
func (l *Line[O, H]) First() *Caller[O, H] { return l.first }

// Len is how many callers stand in line.
func (l *Line[O, H]) Len() int { return l.standing[0] + l.standing[1] }

// Waiting is how many of them had to wait for others, or were refused.
func (l *Line[O, H]) Waiting() int { return l.waiting[0] + l.waiting[1] }

// Idle reports whether the Line may be dropped: nobody has joined that has not
// left, and no hold must be remembered. One must that is leaving; Held brings others
// back, and Resume the run of which Pause tells.
func (l *Line[O, H]) Idle() bool { return l.callers == 0 && l.blocking == l.holds }

// Join adds c. The same step tells whether it probes at once.
func (l *Line[O, H]) Join(c *Caller[O, H]) Step[O, H] {
	l.begin()
	l.joined++
	c.number = l.joined
	l.callers++
	m := mode(c.Shared)
	if l.kind.owned() {
		c.party = l.parties.join(c)
	}
	if c.Try {
		l.pushTry(c)
		switch {
		case c.party != nil:
			c.party.aside[m].push(c)
			l.advance(c.party)
		case l.mustWait(c):
			c.refuse()
		default:
			c.may = true
		}
		l.look(c)
		return l.step
	}
	switch l.kind {
	case Exclusive, Votes:
		c.fresh = l.first == nil && l.blocking == 0
	case ReadWrite:
		c.fresh = l.first == nil || c.Shared && l.standing[0] == 0
	case Places:
		c.fresh = true
	case Permits:
		c.fresh = l.waiting[0]+l.waiting[1] == 0
	}
	l.push(c)
	if !c.fresh {
		l.waiting[m]++
	}
	if p := c.party; p != nil {
		if c.fresh && (c.Shared || l.kind == Places) {
			p.aside[m].push(c)
		} else {
			p.line[m].push(c)
		}
	}
	l.look(c)
	return l.step
}

// Owns notes whether that owner has a member of the object, which is one of Votes. If it
// does, the first of its callers probes wherever it stands, because those before it may wait
// for that member. It is forgotten when the owner has no callers. Nothing is noted while a probe
// of that owner is under way, because what a probe has taken it may give back.
func (l *Line[O, H]) Owns(o O, owns bool) Step[O, H] {
	l.begin()
	if p := l.parties.find(o); p != nil && p.probes == 0 && p.owns != owns {
		p.owns = owns
		l.lookFirsts(p)
	}
	return l.step
}

// Began notes that c, which was told to, probes now.
func (l *Line[O, H]) Began(c *Caller[O, H]) Step[O, H] {
	l.begin()
	c.probing, c.asked = true, l.joined
	if p := c.party; p != nil {
		p.probes++
		if c.list != nil && c.list != &p.line[mode(c.Shared)] {
			c.list.remove(c)
		}
		if c.list == nil {
			p.unlisted = c
		}
		l.advance(p)
		l.lookFirsts(p)
	}
	l.look(c)
	return l.step
}

// Refused notes that c's probe was answered: it did not get what it wants. c
// waits on, or reads its instruction once more and leaves.
func (l *Line[O, H]) Refused(c *Caller[O, H]) Step[O, H] { return l.ended(c, true) }

// Unanswered notes that the outcome of c's probe is not known. It is Refused but
// that it says nothing to others.
func (l *Line[O, H]) Unanswered(c *Caller[O, H]) Step[O, H] { return l.ended(c, false) }

func (l *Line[O, H]) ended(c *Caller[O, H], definite bool) Step[O, H] {
	l.begin()
	p := l.landed(c)
	if c.Try {
		c.refuse()
	} else {
		l.settle(c)
	}
	if p != nil {
		if definite {
			l.sweep(p, c)
		}
		l.advance(p)
		l.lookFirsts(p)
	}
	l.look(c)
	l.look(l.first)
	return l.step
}

// landed ends c's probe.
func (l *Line[O, H]) landed(c *Caller[O, H]) *party[O, H] {
	if p := c.party; p != nil && c.probing {
		p.probes--
		if p.unlisted == c {
			p.unlisted = nil
		}
	}
	c.probing = false
	return c.party
}

// settle makes c one that waits.
func (l *Line[O, H]) settle(c *Caller[O, H]) {
	if !c.fresh {
		return
	}
	m := mode(c.Shared)
	c.fresh = false
	l.waiting[m]++
	if p := c.party; p != nil && c.list != &p.line[m] {
		if c.list != nil {
			c.list.remove(c)
		}
		p.line[m].push(c)
	}
}

// refuse ends what c, which does not wait, may hope for from Redis.
func (c *Caller[O, H]) refuse() {
	c.refused = true
	if p := c.party; p != nil {
		if c.list != nil {
			c.list.remove(c)
		}
		p.over[mode(c.Shared)].push(c)
	}
}

// sweep tells those of c's owner that had joined when c's probe began, and wait
// for its answer, that it was theirs.
func (l *Line[O, H]) sweep(p *party[O, H], c *Caller[O, H]) {
	aside := &p.aside[mode(c.Shared)]
	for x := aside.first; x != nil && x.number <= c.asked; x = aside.first {
		if x.Try {
			x.refuse()
		} else {
			l.settle(x)
		}
		l.look(x)
	}
}

// Opened notes that c's probe found the Latch open, which is the answer for all
// callers that had joined when it began.
func (l *Line[O, H]) Opened(c *Caller[O, H]) Step[O, H] {
	l.begin()
	c.probing = false
	for x := l.first; x != nil && x.number <= c.asked; x = l.first {
		l.remove(x)
		x.served = true
		l.look(x)
	}
	l.look(l.first)
	return l.step
}

// Took notes that c's probe brought the hold h. c leaves. If the Line is closed h
// is passed on, and c has nothing.
func (l *Line[O, H]) Took(c *Caller[O, H], h H) Step[O, H] {
	l.begin()
	l.landed(c)
	p, n := c.party, &c.own
	if n.party != nil {
		n = &holding[O, H]{} // own is another, which was handed to c
	}
	if l.closed {
		l.step.PassOn = append(l.step.PassOn, h)
	}
	l.hold(p, n, h, c.Shared, held)
	if orphan, had := l.exit(c); had {
		l.step.PassOn = append(l.step.PassOn, orphan)
	}
	l.run = 0
	l.after(p)
	return l.step
}

// Held tells of a hold that was taken before the Line was made, or in another one.
func (l *Line[O, H]) Held(o O, shared bool, h H) Step[O, H] {
	l.begin()
	p := l.parties.found(o, &party[O, H]{})
	l.hold(p, &holding[O, H]{}, h, shared, held)
	l.after(p)
	return l.step
}

// Take notes that c takes the hold that was handed to it. c leaves.
func (l *Line[O, H]) Take(c *Caller[O, H]) Step[O, H] {
	l.begin()
	l.landed(c)
	c.granted = false
	c.own.state = held
	p := c.party
	l.exit(c)
	l.after(p)
	return l.step
}

// Leave notes that c wants nothing any more, wherever it stands: its time is
// over, or it has re-entered, or returns what it was told. It may be called
// twice.
func (l *Line[O, H]) Leave(c *Caller[O, H]) Step[O, H] {
	l.begin()
	if c.number == 0 {
		return l.step
	}
	l.landed(c)
	p := c.party
	if orphan, had := l.exit(c); had {
		l.step.PassOn = append(l.step.PassOn, orphan)
	}
	l.after(p)
	return l.step
}

// exit takes c out of everything. It returns the hold that was handed to it and
// that it did not take, which is nobody's then.
func (l *Line[O, H]) exit(c *Caller[O, H]) (orphan H, had bool) {
	if c.number == 0 {
		return orphan, false
	}
	if c.granted {
		c.granted, c.own.state = false, held
		orphan, had = c.own.h, true
	}
	l.remove(c)
	c.number = 0
	l.callers--
	if p := c.party; p != nil {
		if c.list != nil {
			c.list.remove(c)
		}
		l.parties.leave(p)
	}
	c.told = Instruction[H]{}
	return orphan, had
}

// Has reports whether h is an own hold of that owner.
func (l *Line[O, H]) Has(o O, h H) bool { return l.parties.hold(o, h) != nil }

// Gone notes that the hold h of that owner has ended: it was released or lost,
// or its release is owed. The first in line is woken.
func (l *Line[O, H]) Gone(o O, h H) Step[O, H] {
	l.begin()
	if n := l.parties.hold(o, h); n != nil {
		c, p := n.grantee(), n.party
		l.unhold(n)
		if c != nil {
			c.granted = false
			l.look(c)
		}
		if l.holds == 0 {
			l.run = 0
		}
		l.after(p)
	}
	if f := l.first; f != nil && f.told.Do == DoProbe && l.kind != Places {
		l.step.Wake = append(l.step.Wake, f) // once more, if it was told just now
	}
	return l.step
}

// Close makes all callers give up, those too that come later. What was handed to
// one of them is passed on.
func (l *Line[O, H]) Close() Step[O, H] {
	l.begin()
	l.closed = true
	for _, list := range []*Caller[O, H]{l.first, l.tries} {
		for c := list; c != nil; c = c.next {
			if c.granted {
				c.granted, c.own.state = false, held
				l.step.PassOn = append(l.step.PassOn, c.own.h)
			}
			l.look(c)
		}
	}
	return l.step
}

// Closed reports whether Close was called.
func (l *Line[O, H]) Closed() bool { return l.closed }

// begin empties the buffers. What a Close has made long is not kept.
func (l *Line[O, H]) begin() {
	if cap(l.step.Wake) > 64 {
		l.step.Wake = nil
	}
	if l.step.Wake == nil {
		l.step.Wake = l.few[:]
	}
	l.step.Wake, l.step.PassOn = l.step.Wake[:0], l.step.PassOn[:0]
}

// push puts c at the end of the line.
func (l *Line[O, H]) push(c *Caller[O, H]) {
	l.standing[mode(c.Shared)]++
	c.prev = l.last
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *Line[O, H]) pushTry(c *Caller[O, H]) {
	if c.next = l.tries; c.next != nil {
		c.next.prev = c
	}
	l.tries = c
}

// remove takes c out of the line, or of those that do not wait.
func (l *Line[O, H]) remove(c *Caller[O, H]) {
	if c.served {
		return
	}
	if !c.Try {
		m := mode(c.Shared)
		l.standing[m]--
		if !c.fresh {
			l.waiting[m]--
		}
	}
	switch {
	case c.prev != nil:
		c.prev.next = c.next
	case c.Try:
		l.tries = c.next
	default:
		l.first = c.next
	}
	switch {
	case c.next != nil:
		c.next.prev = c.prev
	case !c.Try:
		l.last = c.prev
	}
	c.prev, c.next = nil, nil
}
