package wheel

// chunkEntries is 1<<placeBits. It makes a chunk 256 bytes or four cache lines long where pointers have
// 64 bits.
const chunkEntries = 16

// entry is a timer in a bucket. when is copied out of the timer so that a bucket can be walked
// without touching timers that are not due.
type entry struct {
	when  int64 // ns; not later than the timer's deadline, except for a timer that was overdue when it was filed
	timer *Timer
}

// chunk is a link in a bucket's chain. All chunks but the chain's first are full.
type chunk struct{ entries [chunkEntries]entry }

// header is what the ring knows of a chunk without reading the chunk. With very many timers, chunks are not in
// the cache. Because headers are apart from chunks, taking a timer out touches only two cache lines of chunks:
// the line of its entry, and the line of the entry that fills the gap. Chunks and timers refer to chunks by
// number, because numbers are smaller than pointers and the garbage collector need not follow them.
type header struct {
	chunk *chunk // nil if the chunk was freed
	next  uint32 // number of the next chunk in the chain or in the free list; 0 at the end
	slot  int32
	n     int32 // the first n entries are in use
}

// place is where a timer's entry is. It is the number of the chunk and, in the low bits, the index in the chunk.
// A place below inboxEntries is an index in the inbox.
type place uint32

const (
	placeBits  = 4
	firstChunk = inboxEntries >> placeBits // 0 is no chunk, and the other lower numbers are for places in the inbox
)

// isDue reports whether the first n entries of c are due at limit.
func (c *chunk) isDue(n int32, limit int64) bool {
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

// keptHeaders is how many headers an empty ring keeps at most. A million timers need 62,500.
const keptHeaders = 64

// chunks makes chunks and keeps the empty ones, at most as many as are in use and spareChunks more. It has a
// header for every number that it has given out. It drops the headers when no chunk is in use.
type chunks struct {
	all    []header // by number; the headers below firstChunk have no chunk
	vacant []uint32 // numbers whose chunk was freed
	free   uint32   // the first chunk of the free list, 0 if the list is empty
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
	if cs.used == 0 && len(cs.all) > keptHeaders {
		*cs = chunks{}
		return
	}
	cs.all[number].next = cs.free
	cs.free = number
	cs.spare++
	// used is one less and spare is one more, so two chunks may have to go.
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
