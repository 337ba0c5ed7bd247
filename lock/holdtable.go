package lock

import (
	"hash/maphash"
	"iter"
)

// holdTable has the hold of each name. It is guarded by Client.mu and its zero
// value, with a seed, is empty.
//
// A map[string]*hold would do the same with 53 bytes a lock at a million locks,
// and this does with 16: a hold has its name itself, 32 bits of the name's hash
// spare the look at it for all but the one that is meant, and a part grows by a
// half when it is full, where a map doubles.
type holdTable struct {
	seed  maphash.Seed
	parts [1 << partBits]holdPart // by the hash's upper bits, so that none takes long to grow
	n     int
}

// holdPart is a hash table with linear probing. Places are found from a tag alone,
// so it grows and closes gaps without a look at the holds.
type holdPart struct {
	tags  []uint32 // 0: the place is free; else the hash's lower bits
	holds []*hold
	n     int
}

const (
	partBits = 6
	minPart  = 8 // places
)

func (t *holdTable) find(name string) (p *holdPart, tag uint32, place int, found bool) {
	hash := maphash.String(t.seed, name)
	p, tag = &t.parts[hash>>(64-partBits)], max(uint32(hash), 1)
	if len(p.tags) == 0 {
		return p, tag, 0, false
	}
	for place = p.first(tag); p.tags[place] != 0; place = p.after(place) {
		if p.tags[place] == tag && p.holds[place].name == name {
			return p, tag, place, true
		}
	}
	return p, tag, place, false
}

// get returns the hold of a name, or nil.
func (t *holdTable) get(name string) *hold {
	if p, _, place, found := t.find(name); found {
		return p.holds[place]
	}
	return nil
}

// set makes h the hold of its name.
func (t *holdTable) set(h *hold) {
	p, tag, place, found := t.find(h.name)
	if found {
		p.holds[place] = h
		return
	}
	if p.n >= len(p.tags)-len(p.tags)/8 {
		p.resize(max(minPart, len(p.tags)+len(p.tags)/2))
		place = p.free(tag)
	}
	p.tags[place], p.holds[place] = tag, h
	p.n++
	t.n++
}

// remove takes h out if it is the hold of its name, and reports whether it was.
func (t *holdTable) remove(h *hold) bool {
	p, _, place, found := t.find(h.name)
	if !found || p.holds[place] != h {
		return false
	}
	p.clear(place)
	p.n--
	t.n--
	if len(p.tags) > minPart && p.n < len(p.tags)/4 {
		p.resize(max(minPart, len(p.tags)/2))
	}
	return true
}

// all are the holds in no order.
func (t *holdTable) all() iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		for i := range t.parts {
			for _, h := range t.parts[i].holds {
				if h != nil && !yield(h) {
					return
				}
			}
		}
	}
}

// first is where the search for a tag begins.
func (p *holdPart) first(tag uint32) int { return int(uint64(tag) * uint64(len(p.tags)) >> 32) }

func (p *holdPart) after(place int) int {
	if place++; place < len(p.tags) {
		return place
	}
	return 0
}

// free is the free place for a tag; there always is one.
func (p *holdPart) free(tag uint32) int {
	place := p.first(tag)
	for p.tags[place] != 0 {
		place = p.after(place)
	}
	return place
}

// clear empties a place, and moves up what would not be found behind the gap.
func (p *holdPart) clear(gap int) {
	for place := p.after(gap); p.tags[place] != 0; place = p.after(place) {
		// Only what begins its search between the two stays where it is.
		first := p.first(p.tags[place])
		stays := gap < first && first <= place
		if gap > place {
			stays = gap < first || first <= place
		}
		if !stays {
			p.tags[gap], p.holds[gap] = p.tags[place], p.holds[place]
			gap = place
		}
	}
	p.tags[gap], p.holds[gap] = 0, nil
}

func (p *holdPart) resize(places int) {
	old := *p
	p.tags, p.holds = make([]uint32, places), make([]*hold, places)
	for i, tag := range old.tags {
		if tag != 0 {
			place := p.free(tag)
			p.tags[place], p.holds[place] = tag, old.holds[i]
		}
	}
}
