package wheel

import (
	"math"
	"math/bits"
)

const (
	// never is the deadline, and the tick, of what does not come.
	never = math.MaxInt64
	// latest is the last deadline that can come: a tick beyond it is still within range.
	latest = never - 2*int64(maxTick)
)

// ring is the core of the wheel: buckets of timers in a circle, with no clock, lock or goroutine.
// Time comes in as ticks; tick k is the instant k*tick, and a timer belongs to the first tick that
// is not before its deadline. All its methods need the lock of the shard that it is part of.
type ring struct {
	buckets  []bucket // made on first use
	tick     int64    // length of a tick in ns; immutable
	mask     int64    // number of buckets - 1; immutable
	occupied []uint64 // a bit for each bucket that is not empty
	chunks   chunks
	done     int64  // ticks up to here have been visited, or are being visited while walk is set
	walk     *chunk // where a walk through the bucket of tick done has to go on, or nil
}

// bucket holds the timers of one slot, those of later revolutions among them.
type bucket struct {
	head *chunk
	// min is a lower bound of its entries' when, never if there is none. During a walk
	// it covers only what has been walked over or was added since.
	min int64
}

func (r *ring) init() {
	r.buckets = make([]bucket, r.mask+1)
	r.occupied = make([]uint64, (r.mask+64)/64)
	for i := range r.buckets {
		r.buckets[i].min = never
	}
}

// tickOf rounds up: it returns the first tick that is not before ns.
func (r *ring) tickOf(ns int64) int64 {
	return int64((uint64(ns) + uint64(r.tick) - 1) / uint64(r.tick))
}

// add files t under deadline, but not before tick open, and returns its tick, never if it has none.
func (r *ring) add(t *Timer, deadline, open int64) int64 {
	tick, when := r.tickOf(deadline), deadline
	if tick < open {
		// Filed later than its deadline, it must not look due to the pass that is under way.
		tick, when = open, (open-1)*r.tick+1
	}
	if r.buckets == nil {
		r.init()
	}
	slot := tick & r.mask
	b := &r.buckets[slot]
	c := b.head
	if c == nil || c.n == chunkEntries {
		c = r.chunks.get(int32(slot), c)
		b.head = c
		r.occupied[slot>>6] |= 1 << (slot & 63)
	}
	i := c.n
	c.entries[i] = entry{when, t}
	c.n++
	t.deadline, t.place = deadline, c.place(i)
	if when < b.min {
		b.min = when
	}
	if when == never {
		return never
	}
	return tick
}

// remove takes t out of its bucket.
func (r *ring) remove(t *Timer) {
	r.cut(r.entry(t))
}

// entry returns where a pending timer's entry is.
func (r *ring) entry(t *Timer) (c *chunk, i int32) {
	return r.chunks.all[t.place>>placeBits], int32(t.place & (1<<placeBits - 1))
}

// cut takes out entry i of c. The last entry of the bucket's first chunk fills the gap, which
// keeps all others full; a walk has been through the first chunk before any other, so nothing
// that it has yet to see moves behind it.
func (r *ring) cut(c *chunk, i int32) {
	b := &r.buckets[c.slot]
	head := b.head
	head.n--
	last := &head.entries[head.n]
	if head != c || head.n != i {
		c.entries[i] = *last
		last.timer.place = c.place(i)
	}
	*last = entry{}
	if head.n > 0 {
		return
	}
	b.head = r.chunks.at(head.next)
	if r.walk == head {
		r.walk = b.head
	}
	if b.head == nil {
		b.min = never
		r.occupied[head.slot>>6] &^= 1 << (head.slot & 63)
	}
	r.chunks.put(head)
}

// postpone sets the deadline of a pending timer. A later one is only written down: the entry keeps
// its place and is re-filed when it is visited. It returns the timer's tick if it was filed anew, else never.
func (r *ring) postpone(t *Timer, deadline, open int64) int64 {
	c, i := r.entry(t)
	if deadline >= t.deadline || deadline >= c.entries[i].when {
		t.deadline = deadline
		return never
	}
	r.cut(c, i)
	return r.add(t, deadline, open)
}

// walkBudget is how many chunks are walked at most in one collect, to bound how long a lock is held.
const walkBudget = 256

// collect takes the timers due at or before tick out of their buckets, sets their state to as and
// puts them into buf, with their index in it, until it is full. Those that were postponed
// are re-filed. It returns how many it took, and whether tick has been visited to its end;
// if not, it is to be called again.
func (r *ring) collect(tick int64, buf []*Timer, as State) (n int, finished bool) {
	for budget := walkBudget; r.walk != nil || r.seek(tick); {
		if n == len(buf) || budget == 0 {
			return n, false
		}
		taken := r.walkOn(tick*r.tick, buf[n:], &budget)
		n += r.settle(tick, buf[n:n+taken], n, as)
	}
	r.done = tick
	return n, true
}

// seek looks for the next bucket with something due at or before tick and begins its walk.
// However far tick is ahead, it visits each bucket at most once.
func (r *ring) seek(tick int64) bool {
	if r.buckets == nil {
		return false
	}
	limit := tick * r.tick
	for k := max(r.done+1, tick-r.mask); k <= tick; k++ {
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
			r.done, r.walk = k, b.head
			return true
		}
	}
	return false
}

// walkOn goes on with the walk: it moves timers whose entries are due from their bucket to buf, until
// that is full or the budget spent. When it returns, walk is nil if it came to the bucket's end.
// It does not touch the timers: see settle.
func (r *ring) walkOn(limit int64, buf []*Timer, budget *int) (n int) {
	b := &r.buckets[r.walk.slot]
	low := int64(never) // of the entries that stay
	c := r.walk
	for ; c != nil && *budget > 0; *budget-- {
		next := r.chunks.at(c.next) // c may be empty, and gone, at the end of this round
		// Downwards: a chunk of due timers alone is emptied from its end, without a swap.
		for i := c.n - 1; i >= 0; i-- {
			if e := &c.entries[i]; e.when > limit {
				low = min(low, e.when)
			} else if n < len(buf) {
				buf[n] = e.timer
				n++
				r.cut(c, i)
			} else {
				r.walk = c
				b.min = min(b.min, low)
				return n
			}
		}
		c = next
	}
	r.walk = c
	b.min = min(b.min, low)
	return n
}

// settle decides about timers that walkOn took: those still due at tick become ts, of which the
// first has the index given, those postponed are filed anew. It returns how many are due. The loop is as
// short as it can be, because each timer is likely to be a cache miss: so many of them overlap.
func (r *ring) settle(tick int64, ts []*Timer, index int, as State) (n int) {
	limit := tick * r.tick
	for _, t := range ts {
		if t.deadline > limit {
			r.add(t, t.deadline, tick+1)
			continue
		}
		t.state, t.place = as, place(index+n)
		ts[n] = t
		n++
	}
	clear(ts[n:])
	return n
}

// next returns the earliest tick that has something to be done at, never if there is none.
func (r *ring) next() int64 {
	if r.buckets == nil {
		return never
	}
	low := int64(never)
	for k, end := r.done+1, r.done+1+r.mask; k <= end; k++ {
		slot := k & r.mask
		word := r.occupied[slot>>6] >> (slot & 63)
		if word == 0 {
			k += min(64-slot&63, r.mask+1-slot) - 1
			continue
		}
		if skip := int64(bits.TrailingZeros64(word)); skip > 0 {
			k += skip - 1
			continue
		}
		first := r.buckets[slot].min
		if first <= k*r.tick {
			return k // the buckets behind it belong to later ticks
		}
		low = min(low, first)
	}
	if low == never {
		return never
	}
	return r.tickOf(low)
}

// drain calls f with every pending timer and lets go of all of them.
func (r *ring) drain(f func(*Timer)) {
	for i := range r.buckets {
		for c := r.buckets[i].head; c != nil; c = r.chunks.at(c.next) {
			for _, e := range c.entries[:c.n] {
				f(e.timer)
			}
		}
	}
	r.buckets, r.occupied, r.chunks, r.walk = nil, nil, chunks{}, nil
}
