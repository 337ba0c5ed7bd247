package waitqueue

// Kind says what the object of a Line is.
type Kind uint8

const (
	Exclusive    Kind = iota // one owner at a time, which may re-enter: Mutex, FencedMutex
	ReadWrite                // one owner, or many that share: RWMutex
	ReadersAlone             // ReadWrite for readers that do not wait for writers, which have a Line of their own
	Permits                  // counted; callers have no owners
	Latch                    // open to all or to none; callers have no owners
	QueueInRedis             // Exclusive, but Redis has the order: each caller has a place there and a Probe of its own: FairMutex

	Kinds = iota
)

// HasOwners reports whether callers have owners, so that they may re-enter.
func (k Kind) HasOwners() bool { return k != Permits && k != Latch }

// hasReaders reports whether callers may share the object.
func (k Kind) hasReaders() bool { return k == ReadWrite || k == ReadersAlone }

// IsExclusive reports whether one owner has the object at a time.
func (k Kind) IsExclusive() bool { return k == Exclusive || k == QueueInRedis }

// Do is what a caller must do.
type Do uint8

const (
	DoWait    Do = iota // until it is woken
	DoProbe             // ask Redis: the first in line when Probe says so, others at once; in QueueInRedis when the caller's own Probe says so
	DoReenter           // re-enter its owner's Hold
	DoTake              // call Take: Hold was handed to it
	DoRefuse            // return: the caller does not wait, and others wait or its owner was refused meanwhile
	DoReturn            // return: the latch is open (Latch)
	DoGiveUp            // return: the Line is closed or, with a Hold, the owner has that hold and cannot get another
)

// Instruction says what a caller must do now.
type Instruction[H comparable] struct {
	Do   Do
	Hold H // of DoReenter, DoTake and DoGiveUp
}

// Caller is one call that wants the object, from Join to Leave, Took or Take. It
// is used once. The fields are set before Join and not changed afterwards.
type Caller[O, H comparable] struct {
	Owner  O    // not used by Permits and Latch
	Shared bool // ReadWrite: a reader
	Try    bool // it does not wait: it probes once, or is refused
	// User belongs to the user of the package. Line does not read it.
	User any

	number  uint64 // by arrival; 0: it has not joined
	asked   uint64 // the number of the last caller that had joined when its probe began
	probing bool   // it asks Redis now
	fresh   bool   // it did not have to wait when it came, and was not refused yet; in QueueInRedis only the latter
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

// Step is the result of an event. The slices are valid until the next event.
type Step[O, H comparable] struct {
	// Wake has the callers whose instruction has changed. It has the first in line also
	// if its probe may be due sooner.
	Wake []*Caller[O, H]
	// PassOn has holds whose callers do not take them. The user ends each as Unlock does,
	// with Leaving at the last one, because other callers of the owner may have
	// re-entered the hold.
	PassOn []H
}

// Line has the callers of one client for one object, in order, and the client's
// own holds of the object. Its methods are events. An event costs O(1), and one step
// for every caller whose instruction changes. Make a Line with NewLine. It is not safe
// for concurrent use, and must not be copied.
type Line[O, H comparable] struct {
	kind   Kind // immutable
	limits *Run // immutable

	closed  bool
	joined  uint64 // how many have joined; the number of the last one
	callers int    // how many have not left

	first, last *Caller[O, H] // the callers in line, by arrival
	tries       *Caller[O, H] // the callers that do not wait
	standing    [2]int        // how many are in line, by mode
	waiting     [2]int        // how many of these are not fresh, by mode

	parties parties[O, H]

	holds    int // own holds
	blocking int // how many of these are not being released
	run      int // hand-overs that led to the present hold
	runStart Instant
	brief    bool // when last all callers had had a turn in a run, the run had not taken Run.Brief

	step  Step[O, H]       // buffers
	few   [2]*Caller[O, H] // step.Wake begins with it: a Line of one caller allocates nothing
	looks uint64           // how often an instruction was computed, for tests

	bent func(*Line[O, H], *Caller[O, H], Instruction[H]) Instruction[H] // another rule; nil except in tests
}

// NewLine returns an empty Line. limits must not change while the Line is used.
func NewLine[O, H comparable](k Kind, limits *Run) Line[O, H] {
	return Line[O, H]{kind: k, limits: limits}
}

func mode(shared bool) int {
	if shared {
		return 1
	}
	return 0
}

// Instruction returns what c must do now.
func (l *Line[O, H]) Instruction(c *Caller[O, H]) Instruction[H] { return c.told }

// First returns the first caller in line, or nil.
func (l *Line[O, H]) First() *Caller[O, H] { return l.first }

// Len returns how many callers are in line.
func (l *Line[O, H]) Len() int { return l.standing[0] + l.standing[1] }

// Waiting returns how many callers in line had to wait for others, or were refused.
func (l *Line[O, H]) Waiting() int { return l.waiting[0] + l.waiting[1] }

// Idle reports whether the Line may be dropped. That is so if every caller has left and
// no hold is leaving. Other holds can be given to the next Line by Held, and a run by
// Pause and Resume.
func (l *Line[O, H]) Idle() bool { return l.callers == 0 && l.blocking == l.holds }

// Join adds c. Its instruction then says whether it probes at once.
func (l *Line[O, H]) Join(c *Caller[O, H]) Step[O, H] {
	l.begin()
	l.joined++
	c.number = l.joined
	l.callers++
	m := mode(c.Shared)
	if l.kind.HasOwners() {
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
	case Exclusive:
		c.fresh = l.first == nil && l.blocking == 0
	case ReadWrite, ReadersAlone:
		c.fresh = l.first == nil || c.Shared && l.standing[0] == 0
	case QueueInRedis:
		c.fresh = true
	case Permits:
		c.fresh = l.waiting[0]+l.waiting[1] == 0
	}
	l.push(c)
	if !c.fresh {
		l.waiting[m]++
	}
	if p := c.party; p != nil {
		if c.fresh && (c.Shared || l.kind == QueueInRedis) {
			p.aside[m].push(c)
		} else {
			p.line[m].push(c)
		}
	}
	l.look(c)
	return l.step
}

// Began records that c probes now, as its instruction says.
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

// Refused records that c's probe was answered and c did not get the object. c waits
// on, or reads its instruction once more and leaves.
func (l *Line[O, H]) Refused(c *Caller[O, H]) Step[O, H] { return l.ended(c, true) }

// Unanswered records that the outcome of c's probe is not known. It is like Refused,
// but does not count for other callers.
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

// settle makes c a caller that waits.
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

// refuse records that c, which does not wait, can get nothing from Redis.
func (c *Caller[O, H]) refuse() {
	c.refused = true
	if p := c.party; p != nil {
		if c.list != nil {
			c.list.remove(c)
		}
		p.over[mode(c.Shared)].push(c)
	}
}

// sweep gives the answer of c's probe to other callers of its owner. These are the
// callers that had joined when the probe began and wait for its answer.
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

// Opened records that c's probe found the Latch open. That is the answer for all
// callers that had joined when the probe began.
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

// Took records that c's probe took the hold h. c leaves. If the Line is closed, h is
// in Step.PassOn, and c has nothing.
func (l *Line[O, H]) Took(c *Caller[O, H], h H) Step[O, H] {
	l.begin()
	l.landed(c)
	p, n := c.party, &c.own
	if n.party != nil {
		n = &holding[O, H]{} // c.own is another hold, which was handed to c
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

// Held adds a hold that was taken before the Line was made, or in another Line.
func (l *Line[O, H]) Held(o O, shared bool, h H) Step[O, H] {
	l.begin()
	p := l.parties.found(o, &party[O, H]{})
	l.hold(p, &holding[O, H]{}, h, shared, held)
	l.after(p)
	return l.step
}

// Take records that c takes the hold that was handed to it. c leaves.
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

// Leave records that c no longer wants the object. It costs the same however many wait (P36).
// Its time is over, or it has
// re-entered a hold, or it returns as its instruction says. Leave may be called in
// every state, and twice.
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

// exit takes c out of the line and of all lists. It returns the hold that was handed
// to c and that c did not take.
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

// Gone records that the hold h of that owner has ended. It was released or lost, or
// its release is pending. The first in line is woken.
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
	if f := l.first; f != nil && f.told.Do == DoProbe && l.kind != QueueInRedis {
		l.step.Wake = append(l.step.Wake, f) // it may be in Wake twice
	}
	return l.step
}

// Close makes all callers give up, including later ones. Holds that were handed to
// callers are in Step.PassOn.
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

// begin empties the buffers. It drops a buffer that Close has made long.
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

// remove takes c out of the line, or out of the callers that do not wait.
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
