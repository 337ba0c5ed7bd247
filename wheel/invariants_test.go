package wheel

import "fmt"

// Check reports the first broken invariant of the ring, which holds n timers.
func (r *Ring) Check(n int) error {
	used := 0
	for slot := range r.buckets {
		b := &r.buckets[slot]
		if occupied := r.occupied[slot>>6]>>(slot&63)&1 == 1; occupied != (b.head != 0) {
			return fmt.Errorf("slot %d: occupied is %v", slot, occupied)
		}
		if b.head == 0 && b.min != never {
			return fmt.Errorf("slot %d: empty, but min is %d", slot, b.min)
		}
		for number := b.head; number != 0; number = r.chunks.all[number].next {
			used++
			h := r.chunks.all[number]
			if int(h.slot) != slot || h.n == 0 || number != b.head && h.n != chunkEntries {
				return fmt.Errorf("slot %d: a chunk of slot %d with %d entries", slot, h.slot, h.n)
			}
			for i, e := range h.chunk.entries {
				switch {
				case i >= int(h.n):
					if e != (entry{}) {
						return fmt.Errorf("slot %d: entry %d behind the last is not cleared", slot, i)
					}
					continue
				case e.timer.place != placeIn(number, int32(i)):
					return fmt.Errorf("slot %d: timer of entry %d points elsewhere", slot, i)
				case e.when < b.min && r.walkAt == 0:
					return fmt.Errorf("slot %d: min is %d, an entry's is %d", slot, b.min, e.when)
				case e.when != never && int64(slot) < r.firstFar && r.tickOf(e.when)&r.mask != int64(slot),
					int64(slot) >= r.firstFar && r.firstFar+r.tickOf(e.when)>>r.farShift&(farBuckets-1) != int64(slot):
					return fmt.Errorf("slot %d: an entry of %d", slot, e.when)
				}
				n--
			}
		}
	}
	for i, e := range r.inbox {
		if e.timer.place != place(i) || e.when != never && e.when <= (r.firstOpenTick-1)*r.tickLength {
			return fmt.Errorf("inbox: entry %d of %d points elsewhere, or is of a tick that was collected", i, e.when)
		}
		n--
	}
	for _, e := range r.inbox[len(r.inbox):cap(r.inbox)] {
		if e != (entry{}) {
			return fmt.Errorf("inbox: an entry behind the last is not cleared")
		}
	}
	if n != 0 {
		return fmt.Errorf("%d timers too few", n)
	}
	spare := 0
	for number := r.chunks.free; number != 0; number = r.chunks.all[number].next {
		spare++
		if h := r.chunks.all[number]; *h.chunk != (chunk{}) || h.n != 0 {
			return fmt.Errorf("a spare chunk is not cleared")
		}
	}
	made := 0
	for _, h := range r.chunks.all {
		if h.chunk != nil {
			made++
		} else if h != (header{}) {
			return fmt.Errorf("a chunk that was let go is not cleared")
		}
	}
	if made != spare+used || len(r.chunks.all) > 0 && made+len(r.chunks.vacant)+firstChunk != len(r.chunks.all) {
		return fmt.Errorf("%d chunks made, %d used, %d spare, %d vacant of %d", made, used, spare, len(r.chunks.vacant), len(r.chunks.all))
	}
	if spare != int(r.chunks.spare) || used != int(r.chunks.used) || spare > used+spareChunks {
		return fmt.Errorf("%d chunks spare, %d used; counted %d, %d", spare, used, r.chunks.spare, r.chunks.used)
	}
	return nil
}
