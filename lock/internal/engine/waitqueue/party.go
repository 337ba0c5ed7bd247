package waitqueue

// holdState is the state of an own hold.
type holdState uint8

const (
	held    holdState = iota // a caller has it, or must pass it on
	granted                  // handed over and not taken yet; to held, also if its caller leaves
	leaving                  // it is being released or handed over, and cannot be re-entered; then it is removed
)

// holding is one own hold.
type holding[O, H comparable] struct {
	h      H
	shared bool
	over   bool // of leaving: its run is over, so a script ends it that lets other clients have their turn
	state  holdState
	party  *party[O, H]
	next   *holding[O, H] // of the party; the oldest first
	caller *Caller[O, H]  // of granted: the caller that must take it
}

// grantee is the caller that the hold was handed to and that has not taken it.
func (n *holding[O, H]) grantee() *Caller[O, H] {
	if n.state == granted {
		return n.caller
	}
	return nil
}

// hold makes n the hold h of p.
func (l *Line[O, H]) hold(p *party[O, H], n *holding[O, H], h H, shared bool, s holdState) {
	*n = holding[O, H]{h: h, shared: shared, state: s, party: p}
	at := &p.holds
	for *at != nil {
		at = &(*at).next
	}
	*at = n
	p.members++
	l.holds++
	l.blocking++
}

// unhold forgets n.
func (l *Line[O, H]) unhold(n *holding[O, H]) {
	p := n.party
	at := &p.holds
	for *at != n {
		at = &(*at).next
	}
	*at, n.next, n.party = n.next, nil, nil
	l.holds--
	if n.state != leaving {
		l.blocking--
	}
	l.parties.leave(p)
}

// party is one owner with its callers and holds, as long as there are any. Each
// caller except unlisted is in one of its lists.
type party[O, H comparable] struct {
	owner    O
	members  int           // callers and holds
	probes   int           // how many of its callers ask Redis; at most one except in QueueInRedis
	unlisted *Caller[O, H] // the caller that asks Redis and is in no list
	holds    *holding[O, H]
	told     [2]*holding[O, H] // the result of entered when its callers were last looked at, by mode

	// Lists by mode: callers in line; callers that may probe beside the line and have
	// not begun; callers that do not wait and have been refused.
	line, aside, over [2]list[O, H]

	prev, next *party[O, H]
}

// entered returns the hold that the owner's callers of a mode re-enter, or nil.
func (p *party[O, H]) entered(shared bool) *holding[O, H] {
	for n := p.holds; n != nil; n = n.next {
		if n.shared == shared && n.state != leaving {
			return n
		}
	}
	return nil
}

// list is a list of a party's callers, by arrival.
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

// fewParties is the number of parties up to which they are searched one by one. Most
// Lines are short, and a map takes more memory than the rest of a Line.
const fewParties = 8

// parties finds the party of an owner.
type parties[O, H comparable] struct {
	first *party[O, H]
	n     int
	index map[O]*party[O, H] // nil until there are more than fewParties
}

func (s *parties[O, H]) find(o O) *party[O, H] {
	if s.index != nil {
		return s.index[o]
	}
	p := s.first
	for p != nil && p.owner != o {
		p = p.next
	}
	return p
}

// found returns the party of an owner. If there is none, fresh becomes the party.
func (s *parties[O, H]) found(o O, fresh *party[O, H]) *party[O, H] {
	if p := s.find(o); p != nil {
		return p
	}
	*fresh = party[O, H]{owner: o, next: s.first}
	if s.first != nil {
		s.first.prev = fresh
	}
	s.first = fresh
	if s.n++; s.index != nil {
		s.index[o] = fresh
	} else if s.n > fewParties {
		s.index = make(map[O]*party[O, H], 2*s.n)
		for p := s.first; p != nil; p = p.next {
			s.index[p.owner] = p
		}
	}
	return fresh
}

func (s *parties[O, H]) join(c *Caller[O, H]) *party[O, H] {
	p := s.found(c.Owner, &c.founded)
	p.members++
	return p
}

// leave takes one from p's members. Without members p is removed.
func (s *parties[O, H]) leave(p *party[O, H]) {
	if p.members--; p.members > 0 {
		return
	}
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		s.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
	s.n--
	if s.index != nil {
		delete(s.index, p.owner)
	}
	if s.n == 0 {
		s.index = nil
	}
}

// hold finds an owner's hold.
func (s *parties[O, H]) hold(o O, h H) *holding[O, H] {
	p := s.find(o)
	if p == nil {
		return nil
	}
	n := p.holds
	for n != nil && n.h != h {
		n = n.next
	}
	return n
}
