package wheel

// chunkEntries is such that a chunk is 256 bytes, four cache lines, where pointers have 64 bits. It
// must stay below 1<<placeBits.
const chunkEntries = 15

// entry is a timer in a bucket. when is copied out of the timer so that a bucket can be walked
// without touching timers that are not due.
type entry struct {
	when  int64 // ns; never above the timer's deadline, but for one that was overdue when it was filed
	timer *Timer
}

// chunk is a link in a bucket's chain. All but the chain's first are full. Chunks and timers name
// chunks by number: numbers are smaller than pointers, and the garbage collector need not follow them.
type chunk struct {
	entries [chunkEntries]entry
	number  uint32 // in chunks.all; never below firstChunk
	next    uint32 // number of the next in the chain, or in the free list; 0 at its end
	slot    int32
	n       int32
}

// place is where a timer's entry is: the number of the chunk, and in the low bits the index in it. Below
// inboxEntries it is an index in the inbox.
type place uint32

const (
	placeBits  = 4
	firstChunk = inboxEntries >> placeBits // 0 is no chunk, and the places of the others are the inbox's
)

// due reports whether all its entries are due at limit.
func (c *chunk) due(limit int64) bool {
	for i := range c.entries[:c.n] {
		if c.entries[i].when > limit {
			return false
		}
	}
	return true
}

func (c *chunk) place(i int32) place { return place(c.number<<placeBits | uint32(i)) }

// spareChunks is how many chunks a free list may have in addition to as many
// chunks as are in use.
const spareChunks = 16

// chunks makes chunks and keeps the empty ones, at most as many as are in use and spareChunks more.
type chunks struct {
	all    []*chunk // by number; nil where a chunk was let go
	vacant []uint32 // numbers of those
	free   uint32   // the first of the free list, 0 if there is none
	spare  int32    // length of the free list
	used   int32
}

// at returns the chunk of a number, nil for 0.
func (cs *chunks) at(number uint32) *chunk {
	if number == 0 {
		return nil
	}
	return cs.all[number]
}

// get returns an empty chunk, to be put before the chunk called next.
func (cs *chunks) get(slot int32, next *chunk) *chunk {
	cs.used++
	c := cs.at(cs.free)
	if c == nil {
		c = cs.make()
	} else {
		cs.free = c.next
		cs.spare--
	}
	c.slot, c.next = slot, 0
	if next != nil {
		c.next = next.number
	}
	return c
}

func (cs *chunks) make() *chunk {
	c := new(chunk)
	if last := len(cs.vacant) - 1; last >= 0 {
		c.number = cs.vacant[last]
		cs.vacant = cs.vacant[:last]
		cs.all[c.number] = c
		return c
	}
	if len(cs.all) == 0 {
		cs.all = make([]*chunk, firstChunk, 2*firstChunk)
	}
	c.number = uint32(len(cs.all))
	cs.all = append(cs.all, c)
	return c
}

// put takes back a chunk whose entries are all cleared.
func (cs *chunks) put(c *chunk) {
	cs.used--
	c.next = cs.free
	cs.free = c.number
	cs.spare++
	// used is one less, spare one more: two have to go to keep up.
	for range 2 {
		if cs.spare > cs.used+spareChunks {
			c = cs.at(cs.free)
			cs.free = c.next
			cs.spare--
			cs.all[c.number] = nil
			cs.vacant = append(cs.vacant, c.number)
		}
	}
}
