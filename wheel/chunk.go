package wheel

// chunkEntries is such that a chunk of 64-bit words is 256 bytes, four cache lines.
const chunkEntries = 15

// entry is a timer in a bucket. when is copied out of the timer so that a bucket can be walked
// without touching timers that are not due.
type entry struct {
	when  int64 // ns; never above the timer's deadline, but for one that was overdue when it was filed
	timer *Timer
}

// chunk is a link in a bucket's chain. All but the chain's first are full.
type chunk struct {
	entries [chunkEntries]entry
	next    *chunk
	slot    int32
	n       int32
}

// spareChunks is what a free list may hold beside as many chunks as are in use.
const spareChunks = 16

// chunks makes chunks and keeps the empty ones, at most as many as are in use and spareChunks more.
type chunks struct {
	free  *chunk
	spare int32 // length of free
	used  int32
}

func (cs *chunks) get(slot int32, next *chunk) *chunk {
	cs.used++
	c := cs.free
	if c == nil {
		c = new(chunk)
	} else {
		cs.free = c.next
		cs.spare--
	}
	c.slot, c.next = slot, next
	return c
}

// put takes back a chunk whose entries are all cleared.
func (cs *chunks) put(c *chunk) {
	cs.used--
	c.next = cs.free
	cs.free = c
	cs.spare++
	// used is one less, spare one more: two have to go to keep up.
	for range 2 {
		if cs.spare > cs.used+spareChunks {
			c = cs.free
			cs.free, c.next = c.next, nil
			cs.spare--
		}
	}
}
