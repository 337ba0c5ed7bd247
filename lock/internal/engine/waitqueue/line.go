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
	NoWait bool // it does not wait: it probes once, or is refused
	// User belongs to the user of the package. Line does not read it.
	User any

	number      uint64 // by arrival; 0: it has not joined
	probedUpTo  uint64 // the number of the last caller that had joined when its probe began
	isProbing   bool   // it asks Redis now
	isFresh     bool   // it did not have to wait when it came, and was not refused yet; in QueueInRedis only the latter
	mayProbe    bool   // with Try: nobody waited when its turn to probe came
	isRefused   bool   // with Try: it gets nothing
	foundOpen   bool   // Latch
	instruction Instruction[H]

	prev, next *Caller[O, H] // in line, or among those that do not wait

	group              *ownerGroup[O, H] // of its owner; nil in Permits and Latch
	list               *list[O, H]       // the list of its group that it is in; nil: none
	listPrev, listNext *Caller[O, H]
	newGroup           ownerGroup[O, H] // becomes group if no other caller or hold of its owner is there
	hold               ownHold[O, H]
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
	kind   Kind       // immutable
	limits *RunLimits // immutable

	closed      bool
	joinCount   uint64 // how many have joined; the number of the last one
	callerCount int    // how many have not left

	first, last   *Caller[O, H] // the callers in line, by arrival
	noWaitCallers *Caller[O, H] // the callers that do not wait
	inLine        [2]int        // how many are in line, by mode
	waiting       [2]int        // how many of these are not fresh, by mode

	groups ownerGroups[O, H]

	holdCount int      // own holds
	blocking  int      // how many of these are not being released
	run       RunState // that led to the present hold

	step       Step[O, H]       // buffers
	wakeBuffer [2]*Caller[O, H] // step.Wake begins with it: a Line of one caller allocates nothing

	testRule func(*Line[O, H], *Caller[O, H], Instruction[H]) Instruction[H] // another rule; nil except in tests
}

// NewLine returns an empty Line. limits must not change while the Line is used.
func NewLine[O, H comparable](k Kind, limits *RunLimits) Line[O, H] {
	return Line[O, H]{kind: k, limits: limits}
}

func modeOf(shared bool) int {
	if shared {
		return 1
	}
	return 0
}

// Instruction returns what c must do now.
func (l *Line[O, H]) Instruction(c *Caller[O, H]) Instruction[H] { return c.instruction }

// First returns the first caller in line, or nil.
func (l *Line[O, H]) First() *Caller[O, H] { return l.first }

// Len returns how many callers are in line.
func (l *Line[O, H]) Len() int { return l.inLine[0] + l.inLine[1] }

// Waiting returns how many callers in line had to wait for others, or were refused.
func (l *Line[O, H]) Waiting() int { return l.waiting[0] + l.waiting[1] }

// Idle reports whether the Line may be dropped. That is so if every caller has left and
// no hold is leaving. Other holds can be given to the next Line by AddHold, and a run by
// SuspendRun and RestoreRun.
func (l *Line[O, H]) Idle() bool { return l.callerCount == 0 && l.blocking == l.holdCount }

// Join adds c. Its instruction then says whether it probes at once.
func (l *Line[O, H]) Join(c *Caller[O, H]) Step[O, H] {
	l.beginStep()
	l.joinCount++
	c.number = l.joinCount
	l.callerCount++
	m := modeOf(c.Shared)
	if l.kind.HasOwners() {
		c.group = l.groups.addCaller(c)
	}
	if c.NoWait {
		l.addNoWaitCaller(c)
		switch {
		case c.group != nil:
			c.group.besideLine[m].push(c)
			l.admitBesideLine(c.group)
		case l.mustWait(c):
			c.refuse()
		default:
			c.mayProbe = true
		}
		l.update(c)
		return l.step
	}
	switch l.kind {
	case Exclusive:
		c.isFresh = l.first == nil && l.blocking == 0
	case ReadWrite, ReadersAlone:
		c.isFresh = l.first == nil || c.Shared && l.inLine[0] == 0
	case QueueInRedis:
		c.isFresh = true
	case Permits:
		c.isFresh = l.waiting[0]+l.waiting[1] == 0
	}
	l.appendToLine(c)
	if !c.isFresh {
		l.waiting[m]++
	}
	if g := c.group; g != nil {
		if c.isFresh && (c.Shared || l.kind == QueueInRedis) {
			g.besideLine[m].push(c)
		} else {
			g.inLine[m].push(c)
		}
	}
	l.update(c)
	return l.step
}

// Began records that c probes now, as its instruction says.
func (l *Line[O, H]) Began(c *Caller[O, H]) Step[O, H] {
	l.beginStep()
	c.isProbing, c.probedUpTo = true, l.joinCount
	if g := c.group; g != nil {
		g.probes++
		if c.list != nil && c.list != &g.inLine[modeOf(c.Shared)] {
			c.list.remove(c)
		}
		if c.list == nil {
			g.unlisted = c
		}
		l.admitBesideLine(g)
		l.updateFirsts(g)
	}
	l.update(c)
	return l.step
}

// Refused records that c's probe was answered and c did not get the object. c waits
// on, or reads its instruction once more and leaves.
func (l *Line[O, H]) Refused(c *Caller[O, H]) Step[O, H] { return l.probeFailed(c, true) }

// Unanswered records that the outcome of c's probe is not known. It is like Refused,
// but does not count for other callers.
func (l *Line[O, H]) Unanswered(c *Caller[O, H]) Step[O, H] { return l.probeFailed(c, false) }

func (l *Line[O, H]) probeFailed(c *Caller[O, H], definite bool) Step[O, H] {
	l.beginStep()
	g := l.endProbe(c)
	if c.NoWait {
		c.refuse()
	} else {
		l.startWaiting(c)
	}
	if g != nil {
		if definite {
			l.shareRefusal(g, c)
		}
		l.admitBesideLine(g)
		l.updateFirsts(g)
	}
	l.update(c)
	l.update(l.first)
	return l.step
}

// endProbe ends c's probe.
func (l *Line[O, H]) endProbe(c *Caller[O, H]) *ownerGroup[O, H] {
	if g := c.group; g != nil && c.isProbing {
		g.probes--
		if g.unlisted == c {
			g.unlisted = nil
		}
	}
	c.isProbing = false
	return c.group
}

// startWaiting makes c a caller that waits.
func (l *Line[O, H]) startWaiting(c *Caller[O, H]) {
	if !c.isFresh {
		return
	}
	m := modeOf(c.Shared)
	c.isFresh = false
	l.waiting[m]++
	if g := c.group; g != nil && c.list != &g.inLine[m] {
		if c.list != nil {
			c.list.remove(c)
		}
		g.inLine[m].push(c)
	}
}

// refuse records that c, which does not wait, can get nothing from Redis.
func (c *Caller[O, H]) refuse() {
	c.isRefused = true
	if g := c.group; g != nil {
		if c.list != nil {
			c.list.remove(c)
		}
		g.refused[modeOf(c.Shared)].push(c)
	}
}

// shareRefusal gives the answer of c's probe to other callers of its owner. These are the
// callers that had joined when the probe began and wait for its answer.
func (l *Line[O, H]) shareRefusal(g *ownerGroup[O, H], c *Caller[O, H]) {
	aside := &g.besideLine[modeOf(c.Shared)]
	for x := aside.first; x != nil && x.number <= c.probedUpTo; x = aside.first {
		if x.NoWait {
			x.refuse()
		} else {
			l.startWaiting(x)
		}
		l.update(x)
	}
}

// Opened records that c's probe found the Latch open. That is the answer for all
// callers that had joined when the probe began.
func (l *Line[O, H]) Opened(c *Caller[O, H]) Step[O, H] {
	l.beginStep()
	c.isProbing = false
	for x := l.first; x != nil && x.number <= c.probedUpTo; x = l.first {
		l.removeFromLine(x)
		x.foundOpen = true
		l.update(x)
	}
	l.update(l.first)
	return l.step
}

// Took records that c's probe took the hold h. c leaves. If the Line is closed, h is
// in Step.PassOn, and c has nothing.
func (l *Line[O, H]) Took(c *Caller[O, H], h H) Step[O, H] {
	l.beginStep()
	l.endProbe(c)
	g, n := c.group, &c.hold
	if n.group != nil {
		n = &ownHold[O, H]{} // c.hold is another hold, which was handed to c
	}
	if l.closed {
		l.step.PassOn = append(l.step.PassOn, h)
	}
	l.addHold(g, n, h, c.Shared, held)
	l.removeCaller(c)
	l.run.length = 0
	l.updateConcerned(g)
	return l.step
}

// AddHold adds a hold that was taken before the Line was made, or in another Line.
func (l *Line[O, H]) AddHold(o O, shared bool, h H) Step[O, H] {
	l.beginStep()
	g := l.groups.findOrAdd(o, &ownerGroup[O, H]{})
	l.addHold(g, &ownHold[O, H]{}, h, shared, held)
	l.updateConcerned(g)
	return l.step
}

// Take records that c takes the hold that was handed to it. c leaves.
func (l *Line[O, H]) Take(c *Caller[O, H]) Step[O, H] {
	l.beginStep()
	l.endProbe(c)
	c.hold.state = held
	g := c.group
	l.removeCaller(c)
	l.updateConcerned(g)
	return l.step
}

// Leave records that c no longer wants the object, because its time is over, it has
// re-entered a hold, or it returns as its instruction says. Leave may be called in
// every state, and twice. It costs the same however many callers wait (P36).
func (l *Line[O, H]) Leave(c *Caller[O, H]) Step[O, H] {
	l.beginStep()
	if c.number == 0 {
		return l.step
	}
	l.endProbe(c)
	g := c.group
	l.removeCaller(c)
	l.updateConcerned(g)
	return l.step
}

// removeCaller takes c out of the line and of all lists. A hold that was handed to c, and that c did
// not take, is then in Step.PassOn.
func (l *Line[O, H]) removeCaller(c *Caller[O, H]) {
	if c.number == 0 {
		return
	}
	if c.isGranted() {
		l.passOn(c)
	}
	l.removeFromLine(c)
	c.number = 0
	l.callerCount--
	if g := c.group; g != nil {
		if c.list != nil {
			c.list.remove(c)
		}
		l.groups.removeMember(g)
	}
	c.instruction = Instruction[H]{}
}

// passOn passes on the hold that was handed to c.
func (l *Line[O, H]) passOn(c *Caller[O, H]) {
	c.hold.state = held
	l.step.PassOn = append(l.step.PassOn, c.hold.h)
}

// Has reports whether h is an own hold of that owner.
func (l *Line[O, H]) Has(o O, h H) bool { return l.groups.findHold(o, h) != nil }

// HoldEnded records that the hold h of that owner has ended. It was released or lost, or
// its release is pending. The first in line is woken if it probes, except in QueueInRedis.
func (l *Line[O, H]) HoldEnded(o O, h H) Step[O, H] {
	l.beginStep()
	if n := l.groups.findHold(o, h); n != nil {
		c, g := n.grantee(), n.group
		l.removeHold(n)
		if c != nil {
			n.state = held
			l.update(c)
		}
		if l.holdCount == 0 {
			l.run.length = 0
		}
		l.updateConcerned(g)
	}
	if f := l.first; f != nil && f.instruction.Do == DoProbe && l.kind != QueueInRedis {
		l.step.Wake = append(l.step.Wake, f) // it may be in Wake twice
	}
	return l.step
}

// Close makes all callers give up, including later ones. Holds that were handed to
// callers are in Step.PassOn.
func (l *Line[O, H]) Close() Step[O, H] {
	l.beginStep()
	l.closed = true
	for _, list := range []*Caller[O, H]{l.first, l.noWaitCallers} {
		for c := list; c != nil; c = c.next {
			if c.isGranted() {
				l.passOn(c)
			}
			l.update(c)
		}
	}
	return l.step
}

// beginStep empties the buffers. It drops a buffer that Close has made long.
func (l *Line[O, H]) beginStep() {
	if cap(l.step.Wake) > 64 {
		l.step.Wake = nil
	}
	if l.step.Wake == nil {
		l.step.Wake = l.wakeBuffer[:]
	}
	l.step.Wake, l.step.PassOn = l.step.Wake[:0], l.step.PassOn[:0]
}

// appendToLine puts c at the end of the line.
func (l *Line[O, H]) appendToLine(c *Caller[O, H]) {
	l.inLine[modeOf(c.Shared)]++
	c.prev = l.last
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *Line[O, H]) addNoWaitCaller(c *Caller[O, H]) {
	if c.next = l.noWaitCallers; c.next != nil {
		c.next.prev = c
	}
	l.noWaitCallers = c
}

// removeFromLine takes c out of the line, or out of the callers that do not wait.
func (l *Line[O, H]) removeFromLine(c *Caller[O, H]) {
	if c.foundOpen {
		return
	}
	if !c.NoWait {
		m := modeOf(c.Shared)
		l.inLine[m]--
		if !c.isFresh {
			l.waiting[m]--
		}
	}
	switch {
	case c.prev != nil:
		c.prev.next = c.next
	case c.NoWait:
		l.noWaitCallers = c.next
	default:
		l.first = c.next
	}
	switch {
	case c.next != nil:
		c.next.prev = c.prev
	case !c.NoWait:
		l.last = c.prev
	}
	c.prev, c.next = nil, nil
}
