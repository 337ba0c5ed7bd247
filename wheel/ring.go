package wheel

import (
	"math"
	"math/bits"
)

const (
	// never is the deadline of a timer that never fires, and the tick at which nothing is due.
	never = math.MaxInt64
	// latest is the last deadline that can come. The ticks just beyond it are still in the range of an int64.
	latest = never - 2*int64(maxTick)
)

// ring is the core of the wheel: buckets of timers in a circle, with no clock, lock or goroutine.
// Time comes in as ticks. Tick k is the instant k*tick, and a timer belongs to the first tick that
// is not before its deadline. All methods need the lock of the ring's shard.
type ring struct {
	inbox         []entry  // timers that have not been put into their buckets yet, at most inboxEntries; made on first use
	buckets       []bucket // made on first use
	tickLength    int64    // length of a tick in ns; immutable
	mask          int64    // number of buckets - 1; immutable
	firstFar      int64    // number of the first far bucket; the last 64 buckets are for timers beyond one revolution; set by makeBuckets
	farShift      uint8    // a far bucket is for 1<<farShift ticks; set by makeBuckets
	occupied      []uint64 // a bit for each bucket that is not empty; the last word is for the far buckets
	lows          []int64  // for each word of occupied, a lower bound of the min of its 64 buckets; tightenLow makes it exact
	chunks        chunks
	firstOpenTick int64  // the earliest tick at which timers may be filed; collect raises it, nothing lowers it
	visitedTo     int64  // ticks up to here have been visited, or are being visited while walkAt is set; only rises
	prefetched    int64  // its value means nothing; continueWalk writes it so that the compiler keeps the loads
	walkAt        uint32 // the chunk at which the walk through its bucket must continue, 0 if there is no walk
}

// bucket holds the timers of one slot, including timers of later revolutions. A far bucket holds the timers of
// many ticks.
type bucket struct {
	head uint32 // number of its first chunk, 0 if it is empty
	// min is a lower bound of its entries' when, never if there is none. During a walk it covers
	// only the entries that were walked over or added since the walk began.
	min int64
}

// inboxEntries is how many timers wait to be put into their buckets. Most timers are stopped or moved before long. A
// timer that is stopped in the inbox touches no bucket, whose memory is not in the cache when there are very many timers.
// The other timers go to their buckets all at once, which lets their cache misses overlap.
const inboxEntries = 64

// farBuckets is how many far buckets there are. farPerRevolution of them cover one revolution. Timers that are far away
// are kept in the order in which they are armed, in few buckets, so the ends of the buckets stay in the cache. Most of
// these timers are stopped or moved before they come near. When the first timer of a far bucket is due, the timers that
// follow within nearTicks go to the buckets of their ticks. The others wait until the first of them is due. So no far
// bucket delays the driver by all of its timers at once, and none makes it wake up.
const (
	farBuckets       = 64
	farPerRevolution = 2
)

// nearTicks is how far ahead of its tick a far bucket is emptied.
func (r *ring) nearTicks() int64 { return max((r.mask+1)/32, 1) }

func (r *ring) makeBuckets() {
	r.inbox = make([]entry, 0, inboxEntries)
	words := (r.mask + 64) / 64
	r.firstFar = words * 64
	r.farShift = uint8(bits.Len64(uint64(max((r.mask+1)/farPerRevolution, 1))) - 1)
	r.buckets = make([]bucket, r.firstFar+farBuckets)
	r.occupied = make([]uint64, words+1)
	r.lows = make([]int64, len(r.occupied))
	for i := range r.buckets {
		r.buckets[i].min = never
	}
	for i := range r.lows {
		r.lows[i] = never
	}
}

// tickOf rounds up: it returns the first tick that is not before ns.
func (r *ring) tickOf(ns int64) int64 {
	return int64((uint64(ns) + uint64(r.tickLength) - 1) / uint64(r.tickLength))
}

// slotOf returns the number of the bucket for when.
func (r *ring) slotOf(when int64) int64 {
	tick := r.tickOf(when)
	if tick-r.firstOpenTick <= r.mask {
		return tick & r.mask
	}
	return r.firstFar + tick>>r.farShift&(farBuckets-1)
}

// roundWithin returns, in ns, the tick from deadline to latest whose number has the most trailing zero bits. It returns deadline
// if there is no tick in between.
func (r *ring) roundWithin(deadline, latest int64) int64 {
	first, last := r.tickOf(deadline), latest/r.tickLength
	if deadline == never || first >= last {
		return deadline
	}
	if first == 0 {
		return 0
	}
	// Above the highest bit in which last differs from first-1, the numbers of all these ticks have the same bits.
	bit := bits.Len64(uint64(last)^uint64(first-1)) - 1
	return last >> bit << bit * r.tickLength
}

// add files t under deadline, but not before firstOpenTick, and not before a tick that this ring has already collected. firstOpenTick
// may be older than that collect. add returns the instant under which t is filed. The tick of that
// instant is the timer's tick.
func (r *ring) add(t *Timer, deadline, firstOpenTick int64) (when int64) {
	t.deadline.set(deadline)
	return r.file(t, deadline, firstOpenTick)
}

// file is add for a timer whose deadline is already written. A movable deadline may be later by now. The driver finds that
// out when it visits the timer.
func (r *ring) file(t *Timer, deadline, firstOpenTick int64) (when int64) {
	when = deadline
	if passed := (max(firstOpenTick, r.firstOpenTick) - 1) * r.tickLength; deadline <= passed {
		// Filed later than its deadline, the timer must not look due to the pass that is under way.
		when = passed + 1
	}
	if len(r.inbox) == cap(r.inbox) {
		if r.buckets == nil {
			r.makeBuckets()
		}
		r.emptyInbox()
	}
	t.place = place(len(r.inbox))
	r.inbox = append(r.inbox, entry{when, t})
	return when
}

// emptyInbox puts the timers of the inbox into their buckets. The loop touches no memory twice that is likely to be a
// cache miss, and does not wait for a cache miss.
func (r *ring) emptyInbox() {
	for _, e := range r.inbox {
		t := e.timer
		if at := t.deadline.at(); at > e.when { // postponed since
			e.when = at
		}
		slot := r.slotOf(e.when)
		b := &r.buckets[slot]
		if b.head == 0 || r.chunks.all[b.head].n == chunkEntries {
			b.head = r.chunks.get(int32(slot), b.head)
			r.occupied[slot>>6] |= 1 << (slot & 63)
		}
		h := &r.chunks.all[b.head]
		h.chunk.entries[h.n] = e
		t.place = placeIn(b.head, h.n)
		h.n++
		if e.when < b.min {
			b.min = e.when
			if low := &r.lows[slot>>6]; e.when < *low {
				*low = e.when
			}
		}
	}
	clear(r.inbox)
	r.inbox = r.inbox[:0]
}

// entry returns the entry of a pending timer, or nil if t is a copy. It is entry i of the chunk with that number, or of the
// inbox if number is 0.
func (r *ring) entry(t *Timer) (e *entry, number uint32, i int32) {
	if t.place < inboxEntries {
		if i = int32(t.place); int(i) < len(r.inbox) {
			e = &r.inbox[i]
		}
	} else if number = uint32(t.place >> placeBits); int(number) < len(r.chunks.all) {
		if c := r.chunks.all[number].chunk; c != nil {
			i = int32(t.place & (1<<placeBits - 1))
			e = &c.entries[i]
		}
	}
	if e == nil || e.timer != t {
		return nil, 0, 0
	}
	return e, number, i
}

// remove takes t out of the ring. It reports false if t is a copy.
func (r *ring) remove(t *Timer) bool {
	e, number, i := r.entry(t)
	if e == nil {
		return false
	}
	r.removeEntry(e, number, i)
	return true
}

// removeEntry takes out an entry.
func (r *ring) removeEntry(e *entry, number uint32, i int32) {
	if number != 0 {
		r.removeFromChunk(number, i)
		return
	}
	last := len(r.inbox) - 1
	if int(i) != last {
		*e = r.inbox[last]
		e.timer.place = place(i)
	}
	r.inbox[last] = entry{}
	r.inbox = r.inbox[:last]
}

// removeFromChunk takes out entry i of a chunk. The last entry of the bucket's first chunk fills the gap, so all
// other chunks stay full. A walk goes through the first chunk before any other. So no entry that the
// walk has not seen moves behind the walk.
func (r *ring) removeFromChunk(number uint32, i int32) {
	h := &r.chunks.all[number]
	b := &r.buckets[h.slot]
	head := &r.chunks.all[b.head]
	head.n--
	last := &head.chunk.entries[head.n]
	if b.head != number || head.n != i {
		h.chunk.entries[i] = *last
		last.timer.place = placeIn(number, i)
	}
	*last = entry{}
	if head.n == 0 {
		r.dropFirstChunk(b)
	}
}

// dropFirstChunk takes the first chunk, which is empty, out of b.
func (r *ring) dropFirstChunk(b *bucket) {
	number := b.head
	head := &r.chunks.all[number]
	b.head = head.next
	if r.walkAt == number {
		r.walkAt = b.head
	}
	if b.head == 0 {
		b.min = never
		r.occupied[head.slot>>6] &^= 1 << (head.slot & 63)
	}
	r.chunks.put(number)
}

// moveDeadline sets the deadline of a pending timer. If the deadline is not before the entry's instant, moveDeadline only writes
// the deadline. The entry then keeps its place, and the timer is filed anew when the driver visits it. moveDeadline returns
// the result of add if it filed the timer anew, else never. It returns false if t is a copy.
func (r *ring) moveDeadline(t *Timer, deadline, firstOpenTick int64) (when int64, ok bool) {
	if deadline < t.deadline.at() {
		e, number, i := r.entry(t)
		if e == nil {
			return never, false
		}
		if deadline < e.when {
			r.removeEntry(e, number, i)
			return r.add(t, deadline, firstOpenTick), true
		}
	}
	if t.migrated { // see Timer.postpone
		t.deadline.set(deadline)
	} else {
		t.deadline.setMovable(deadline)
	}
	return never, true
}

// walkBudget limits how many chunks one collect walks, and so how long the lock is held (P41). A chunk of a far bucket counts as
// farCost chunks, because its timers are filed anew.
const (
	walkBudget = 256
	farCost    = 8
)

// collect takes the timers due at or before tick out of the ring and puts them into buf, until buf is full. It files
// timers anew that were postponed. It returns how many timers it took, and whether tick is finished. If tick is not
// finished, collect must be called again. A tick before the last collected tick counts as the last collected tick.
func (r *ring) collect(tick int64, buf []*Timer) (n int, finished bool) {
	tick = max(tick, r.firstOpenTick-1)
	r.firstOpenTick = tick + 1
	if r.buckets == nil {
		r.visitedTo = tick
		return 0, true
	}
	r.emptyInbox()
	for budget := walkBudget; r.walkAt != 0 || r.seekDueBucket(tick); {
		if n == len(buf) || budget <= 0 {
			return n, false
		}
		taken := r.continueWalk(tick, buf[n:], &budget)
		n += r.keepDue(tick, buf[n:n+taken])
	}
	r.visitedTo = tick
	return n, true
}

// seekDueBucket looks for the next bucket with a timer due at or before tick and begins its walk. However far
// tick is ahead, seekDueBucket visits each bucket at most once. The far buckets come first.
func (r *ring) seekDueBucket(tick int64) bool {
	limit := tick * r.tickLength
	if far := r.firstFar >> 6; r.lows[far] <= limit {
		for word := r.occupied[far]; word != 0; word &= word - 1 {
			if b := &r.buckets[r.firstFar+int64(bits.TrailingZeros64(word))]; b.min <= limit {
				b.min = never
				r.walkAt = b.head
				return true
			}
		}
		r.tightenLow(far)
	}
	for k := max(r.visitedTo+1, tick-r.mask); k <= tick; k++ {
		slot := k & r.mask
		word := r.occupied[slot>>6] >> (slot & 63)
		if word == 0 {
			// To the next word, or round to slot 0.
			k += min(64-slot&63, r.mask+1-slot) - 1
			continue
		}
		if skip := int64(bits.TrailingZeros64(word)); skip > 0 {
			k += skip - 1
			continue
		}
		if b := &r.buckets[slot]; b.min <= limit {
			b.min = never
			r.visitedTo, r.walkAt = k, b.head
			return true
		}
	}
	return false
}

// continueWalk continues the walk. It moves timers whose entries are due at tick from their bucket to buf, until buf is full or the
// budget is spent. From a far bucket, it also moves timers that are due soon after tick. When it returns, walkAt is 0 if it has
// reached the end of the bucket. It does not touch the timers; see keepDue.
func (r *ring) continueWalk(tick int64, buf []*Timer, budget *int) (n int) {
	slot := int64(r.chunks.all[r.walkAt].slot)
	b := &r.buckets[slot]
	limit, cost := tick*r.tickLength, 1
	if slot >= r.firstFar {
		limit, cost = min(tick+r.nearTicks(), latest/r.tickLength)*r.tickLength, farCost
	}
	low := int64(never) // of the entries that stay
	number := r.walkAt
	for ; number != 0 && *budget > 0; *budget -= cost {
		h := &r.chunks.all[number]
		next, c := h.next, h.chunk // at the end of this round the chunk may be empty and no more in the chain
		if next != 0 {
			// The processor fetches the next chunk's lines while the loop works on this chunk.
			next := r.chunks.all[next].chunk
			r.prefetched = next.entries[0].when ^ next.entries[4].when ^ next.entries[8].when ^ next.entries[12].when
		}
		if number == b.head && n+int(h.n) <= len(buf) && c.isDue(h.n, limit) {
			for i := h.n - 1; i >= 0; i-- {
				buf[n] = c.entries[i].timer
				n++
			}
			clear(c.entries[:h.n])
			h.n = 0
			r.dropFirstChunk(b)
			number = next
			continue
		}
		// The loop goes downwards, so that a chunk in which all timers are due is emptied from its end, without a swap.
		for i := h.n - 1; i >= 0; i-- {
			if e := &c.entries[i]; e.when > limit {
				low = min(low, e.when)
			} else if n < len(buf) {
				buf[n] = e.timer
				n++
				r.removeFromChunk(number, i)
			} else {
				r.walkAt = number
				b.min = min(b.min, low)
				return n
			}
		}
		number = next
	}
	r.walkAt = number
	b.min = min(b.min, low)
	return n
}

// keepDue decides about the timers that continueWalk took. Timers that are still due at tick become the first ones of ts. Timers that
// were postponed or were far away are filed anew. keepDue returns how many are due. The loop is as short as it can be, so that
// many cache misses overlap, because each timer is likely to be one.
func (r *ring) keepDue(tick int64, ts []*Timer) (n int) {
	limit := tick * r.tickLength
	var words int64 // negative if any is movable
	for _, t := range ts {
		word := t.deadline.word.Load()
		if at := instant(word); at > limit {
			r.file(t, at, tick+1)
			continue
		}
		words |= word
		ts[n] = t
		n++
	}
	if words < 0 {
		n = r.fixDeadlines(tick, ts[:n])
	}
	clear(ts[n:])
	return n
}

// fixDeadlines fixes the deadlines of timers that are due at tick, and files timers anew that were postponed at the last moment. It is
// apart from keepDue because an atomic write waits for the cache misses before it.
func (r *ring) fixDeadlines(tick int64, ts []*Timer) (n int) {
	for _, t := range ts {
		if !t.deadline.fixUntil(tick * r.tickLength) {
			r.file(t, t.deadline.at(), tick+1)
			continue
		}
		ts[n] = t
		n++
	}
	return n
}

// earliestTick returns the earliest tick at which there is something to do, or never if there is nothing.
func (r *ring) earliestTick() int64 {
	if r.buckets == nil {
		return never
	}
	tick, far := r.earliestNearTick(), r.firstFar>>6
	if r.lows[far] == never || r.tickOf(r.lows[far]) >= tick {
		return tick
	}
	r.tightenLow(far)
	if low := r.lows[far]; low != never {
		tick = min(tick, r.tickOf(low))
	}
	return tick
}

// earliestNearTick is earliestTick without the far buckets. It looks at the buckets in the order in which they come, up to the first one that
// has something to do when it comes. It skips buckets with nothing to do in this revolution 64 at a time. With very many slots
// and only far timers, a look at every bucket would take milliseconds at every wake-up.
func (r *ring) earliestNearTick() int64 {
	low := int64(never)
	for i := range r.inbox {
		low = min(low, r.inbox[i].when)
	}
	end := r.visitedTo + 1 + r.mask
	for k := r.visitedTo + 1; k <= end; {
		slot := k & r.mask
		word, rest := slot>>6, min(64-slot&63, r.mask+1-slot, end-k+1)
		if bit := r.occupied[word] >> (slot & 63); bit == 0 {
			k += rest
			continue
		} else if r.lows[word] <= (k+rest-1)*r.tickLength {
			for ; bit != 0; bit &= bit - 1 {
				i := int64(bits.TrailingZeros64(bit))
				if i >= rest {
					break // seen already, at the beginning
				}
				first := r.buckets[slot+i].min
				if first <= (k+i)*r.tickLength {
					return min(k+i, r.tickOf(low)) // the buckets behind it belong to later ticks
				}
				low = min(low, first)
			}
			r.tightenLow(word) // otherwise the next calls look at all 64 buckets until the ring has come round
		} else {
			low = min(low, r.lows[word])
		}
		k += rest
	}
	if low == never {
		return never
	}
	return r.tickOf(low)
}

// tightenLow makes the bound of a word exact.
func (r *ring) tightenLow(word int64) {
	low := int64(never)
	for bit := r.occupied[word]; bit != 0; bit &= bit - 1 {
		low = min(low, r.buckets[word<<6+int64(bits.TrailingZeros64(bit))].min)
	}
	r.lows[word] = low
}

// drain calls f with every pending timer and empties the ring.
func (r *ring) drain(f func(*Timer)) {
	for _, e := range r.inbox {
		f(e.timer)
	}
	for i := range r.buckets {
		for number := r.buckets[i].head; number != 0; number = r.chunks.all[number].next {
			h := &r.chunks.all[number]
			for _, e := range h.chunk.entries[:h.n] {
				f(e.timer)
			}
		}
	}
	r.inbox, r.buckets, r.occupied, r.lows, r.chunks, r.walkAt = nil, nil, nil, nil, chunks{}, 0
}
