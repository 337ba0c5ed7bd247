package waitqueue

// ownHoldState is the state of an own hold.
type ownHoldState uint8

const (
	held    ownHoldState = iota // a caller has it, or must pass it on
	granted                     // handed over and not taken yet; becomes held, also if its caller leaves
	leaving                     // it is being released or handed over, and cannot be re-entered; then it is removed
)

// ownHold is one own hold.
type ownHold[O, H comparable] struct {
	h       H
	shared  bool
	endsRun bool // of leaving: its run is over, so it is ended by a script that lets other clients go first
	state   ownHoldState
	group   *ownerGroup[O, H]
	next    *ownHold[O, H] // of the group; the oldest first
	caller  *Caller[O, H]  // of granted: the caller that must take it
}

// grantee is the caller that the hold was handed to and that has not taken it.
func (n *ownHold[O, H]) grantee() *Caller[O, H] {
	if n.state == granted {
		return n.caller
	}
	return nil
}

// isGranted reports whether a hold was handed to c, and c has not taken it.
func (c *Caller[O, H]) isGranted() bool { return c.hold.state == granted }

// addHold makes n the hold h of g.
func (l *Line[O, H]) addHold(g *ownerGroup[O, H], n *ownHold[O, H], h H, shared bool, s ownHoldState) {
	*n = ownHold[O, H]{h: h, shared: shared, state: s, group: g}
	at := &g.holds
	for *at != nil {
		at = &(*at).next
	}
	*at = n
	g.members++
	l.holdCount++
	l.blocking++
}

// removeHold forgets n.
func (l *Line[O, H]) removeHold(n *ownHold[O, H]) {
	g := n.group
	at := &g.holds
	for *at != n {
		at = &(*at).next
	}
	*at, n.next, n.group = n.next, nil, nil
	l.holdCount--
	if n.state != leaving {
		l.blocking--
	}
	l.groups.removeMember(g)
}

// ownerGroup is one owner with its callers and holds, as long as there are any. Each
// caller except unlisted is in one of its lists.
type ownerGroup[O, H comparable] struct {
	owner           O
	members         int           // callers and holds
	probes          int           // how many of its callers ask Redis; at most one except in QueueInRedis
	unlisted        *Caller[O, H] // the caller that asks Redis and is in no list
	holds           *ownHold[O, H]
	lastReenterable [2]*ownHold[O, H] // what reenterable returned when its callers were last updated, by mode

	// Lists by mode: callers in line; callers that may probe beside the line and have
	// not begun; callers that do not wait and have been refused.
	inLine, besideLine, refused [2]list[O, H]

	prev, next *ownerGroup[O, H]
}

// reenterable returns the hold that the owner's callers of a mode re-enter, or nil.
func (g *ownerGroup[O, H]) reenterable(shared bool) *ownHold[O, H] {
	for n := g.holds; n != nil; n = n.next {
		if n.shared == shared && n.state != leaving {
			return n
		}
	}
	return nil
}

// list is a list of an owner's callers, by arrival.
type list[O, H comparable] struct{ first, last *Caller[O, H] }

func (l *list[O, H]) push(c *Caller[O, H]) {
	c.list, c.listPrev, c.listNext = l, l.last, nil
	if l.last != nil {
		l.last.listNext = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *list[O, H]) remove(c *Caller[O, H]) {
	if c.listPrev != nil {
		c.listPrev.listNext = c.listNext
	} else {
		l.first = c.listNext
	}
	if c.listNext != nil {
		c.listNext.listPrev = c.listPrev
	} else {
		l.last = c.listPrev
	}
	c.list, c.listPrev, c.listNext = nil, nil, nil
}

// fewGroups is the number of groups up to which they are searched one by one. Most
// Lines are short, and a map takes more memory than the rest of a Line.
const fewGroups = 8

// ownerGroups finds the group of an owner.
type ownerGroups[O, H comparable] struct {
	first *ownerGroup[O, H]
	n     int
	index map[O]*ownerGroup[O, H] // nil until there are more than fewGroups
}

func (s *ownerGroups[O, H]) find(o O) *ownerGroup[O, H] {
	if s.index != nil {
		return s.index[o]
	}
	g := s.first
	for g != nil && g.owner != o {
		g = g.next
	}
	return g
}

// findOrAdd returns the group of an owner. If there is none, fresh becomes the group.
func (s *ownerGroups[O, H]) findOrAdd(o O, fresh *ownerGroup[O, H]) *ownerGroup[O, H] {
	if g := s.find(o); g != nil {
		return g
	}
	*fresh = ownerGroup[O, H]{owner: o, next: s.first}
	if s.first != nil {
		s.first.prev = fresh
	}
	s.first = fresh
	if s.n++; s.index != nil {
		s.index[o] = fresh
	} else if s.n > fewGroups {
		s.index = make(map[O]*ownerGroup[O, H], 2*s.n)
		for g := s.first; g != nil; g = g.next {
			s.index[g.owner] = g
		}
	}
	return fresh
}

func (s *ownerGroups[O, H]) addCaller(c *Caller[O, H]) *ownerGroup[O, H] {
	g := s.findOrAdd(c.Owner, &c.newGroup)
	g.members++
	return g
}

// removeMember takes one off g's members, and removes g if it has no members then.
func (s *ownerGroups[O, H]) removeMember(g *ownerGroup[O, H]) {
	if g.members--; g.members > 0 {
		return
	}
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		s.first = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	s.n--
	if s.index != nil {
		delete(s.index, g.owner)
	}
	if s.n == 0 {
		s.index = nil
	}
}

// findHold finds an owner's hold.
func (s *ownerGroups[O, H]) findHold(o O, h H) *ownHold[O, H] {
	g := s.find(o)
	if g == nil {
		return nil
	}
	n := g.holds
	for n != nil && n.h != h {
		n = n.next
	}
	return n
}
