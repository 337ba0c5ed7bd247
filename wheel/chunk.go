package wheel

// chunkEntries is such that a chunk is 256 bytes, four cache lines, where pointers have 64 bits. It
// is 1<<placeBits.
const chunkEntries = 16

// entry is a timer in a bucket. when is copied out of the timer so that a bucket can be walked
// without touching timers that are not due.
type entry struct {
	when  int64 // ns; never above the timer's deadline, but for one that was overdue when it was filed
	timer *Timer
}

// chunk is a link in a bucket's chain. All but the chain's first are full.
type chunk struct{ entries [chunkEntries]entry }

// header is what is known of a chunk without touching it. Chunks are cold where there are very many
// timers, and their headers are apart so that to take a timer out touches two lines of chunks and no
// more: that of its entry and that of the entry which fills the gap. Chunks and timers name chunks by
// number: numbers are smaller than pointers, and the garbage collector need not follow them.
type header struct {
	chunk *chunk // nil if it was let go
	next  uint32 // number of the next in the chain, or in the free list; 0 at its end
	slot  int32
	n     int32 // entries in use, the first ones
}

// place is where a timer's entry is: the number of the chunk, and in the low bits the index in it. Below
// inboxEntries it is an index in the inbox.
type place uint32

const (
	placeBits  = 4
	firstChunk = inboxEntries >> placeBits // 0 is no chunk, and the places of the others are the inbox's
)

// due reports whether the first n of its entries are due at limit.
func (c *chunk) due(n int32, limit int64) bool {
	for i := range c.entries[:n] {
		if c.entries[i].when > limit {
			return false
		}
	}
	return true
}

// placeIn is the place of entry i of a chunk.
func placeIn(number uint32, i int32) place { return place(number<<placeBits | uint32(i)) }

// spareChunks is how many chunks a free list may have in addition to as many
// chunks as are in use.
const spareChunks = 16

// chunks makes chunks and keeps the empty ones, at most as many as are in use and spareChunks more.
type chunks struct {
	all    []header // by number; those below firstChunk are of no chunk
	vacant []uint32 // numbers whose chunk was let go
	free   uint32   // the first of the free list, 0 if there is none
	spare  int32    // length of the free list
	used   int32
}

// get returns the number of an empty chunk, to be put before the chunk called next.
func (cs *chunks) get(slot int32, next uint32) uint32 {
	cs.used++
	number := cs.free
	if number == 0 {
		number = cs.make()
	} else {
		cs.free = cs.all[number].next
		cs.spare--
	}
	h := &cs.all[number]
	h.slot, h.next = slot, next
	return number
}

func (cs *chunks) make() uint32 {
	c := new(chunk)
	if last := len(cs.vacant) - 1; last >= 0 {
		number := cs.vacant[last]
		cs.vacant = cs.vacant[:last]
		cs.all[number] = header{chunk: c}
		return number
	}
	if len(cs.all) == 0 {
		cs.all = make([]header, firstChunk, 2*firstChunk)
	}
	cs.all = append(cs.all, header{chunk: c})
	return uint32(len(cs.all) - 1)
}

// put takes back a chunk whose entries are all cleared.
func (cs *chunks) put(number uint32) {
	cs.used--
	cs.all[number].next = cs.free
	cs.free = number
	cs.spare++
	// used is one less, spare one more: two have to go to keep up.
	for range 2 {
		if cs.spare > cs.used+spareChunks {
			number = cs.free
			cs.free = cs.all[number].next
			cs.spare--
			cs.all[number] = header{}
			cs.vacant = append(cs.vacant, number)
		}
	}
}
