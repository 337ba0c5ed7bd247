package locktable

import (
	"hash/maphash"
	"iter"
)

// holdTable has the hold of each name of a shard. shard.mu guards it. The zero holdTable
// with a seed is empty. Places are found only from a tag, by linear probing. So the table
// grows and closes gaps without reading the holds.
//
// A map[string]H would need 53 bytes per lock at a million locks. This table needs 16. The
// name is in the hold itself. A tag of 32 bits of the name's hash makes it nearly always
// enough to read only the right hold. A full table grows by a half, where a map doubles. No
// shard's table takes long to grow.
type holdTable[H Hold] struct {
	seed  maphash.Seed
	tags  []uint32 // 0: the place is free; else the lower bits of the hash, whose upper bits choose the shard
	holds []H
	n     int
}

const minPlaces = 8

func (t *holdTable[H]) find(name string) (tag uint32, place int, found bool) {
	tag = max(uint32(maphash.String(t.seed, name)), 1)
	if len(t.tags) == 0 {
		return tag, 0, false
	}
	for place = t.first(tag); t.tags[place] != 0; place = t.after(place) {
		if t.tags[place] == tag && t.holds[place].Name() == name {
			return tag, place, true
		}
	}
	return tag, place, false
}

// get returns the hold of a name, if there is one.
func (t *holdTable[H]) get(name string) (h H, found bool) {
	_, place, found := t.find(name)
	if found {
		h = t.holds[place]
	}
	return h, found
}

// set makes h the hold of its name, and returns the one before, if there was one.
func (t *holdTable[H]) set(h H) (before H, replaced bool) {
	tag, place, found := t.find(h.Name())
	if found {
		before, t.holds[place] = t.holds[place], h
		return before, true
	}
	if t.n >= len(t.tags)-len(t.tags)/8 {
		t.resize(max(minPlaces, len(t.tags)+len(t.tags)/2))
		place = t.free(tag)
	}
	t.tags[place], t.holds[place] = tag, h
	t.n++
	return before, false
}

// remove takes h out if it is the hold of its name, and reports whether it was.
func (t *holdTable[H]) remove(h H) bool {
	_, place, found := t.find(h.Name())
	if !found || t.holds[place] != h {
		return false
	}
	t.clear(place)
	t.n--
	if len(t.tags) > minPlaces && t.n < len(t.tags)/4 {
		t.resize(max(minPlaces, len(t.tags)/2))
	}
	return true
}

// all are the holds in no order.
func (t *holdTable[H]) all() iter.Seq[H] {
	return func(yield func(H) bool) {
		var none H
		for _, h := range t.holds {
			if h != none && !yield(h) {
				return
			}
		}
	}
}

// first is where the search for a tag begins.
func (t *holdTable[H]) first(tag uint32) int { return int(uint64(tag) * uint64(len(t.tags)) >> 32) }

func (t *holdTable[H]) after(place int) int {
	if place++; place < len(t.tags) {
		return place
	}
	return 0
}

// free is the free place for a tag; there always is one.
func (t *holdTable[H]) free(tag uint32) int {
	place := t.first(tag)
	for t.tags[place] != 0 {
		place = t.after(place)
	}
	return place
}

// clear empties a place, and moves holds that would not be found behind the gap.
func (t *holdTable[H]) clear(gap int) {
	for place := t.after(gap); t.tags[place] != 0; place = t.after(place) {
		// Only a hold whose search begins behind the gap and not behind its place stays there.
		first := t.first(t.tags[place])
		stays := gap < first && first <= place
		if gap > place {
			stays = gap < first || first <= place
		}
		if !stays {
			t.tags[gap], t.holds[gap] = t.tags[place], t.holds[place]
			gap = place
		}
	}
	var none H
	t.tags[gap], t.holds[gap] = 0, none
}

func (t *holdTable[H]) resize(places int) {
	old := *t
	t.tags, t.holds = make([]uint32, places), make([]H, places)
	for i, tag := range old.tags {
		if tag != 0 {
			place := t.free(tag)
			t.tags[place], t.holds[place] = tag, old.holds[i]
		}
	}
}
