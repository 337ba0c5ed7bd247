package wheel

import "unsafe"

// CacheLines is how many bytes a shard is over a whole number of cache lines.
const CacheLines = unsafe.Sizeof(shard{}) % 64

// Ring is the core, with hand-moved time.
type Ring struct{ ring }

func NewRing(tick, slots int64) *Ring { return &Ring{ring{tick: tick, mask: slots - 1, done: -1}} }

func (r *Ring) Add(t *Timer, deadline, open int64) int64 {
	t.task = funcTask(func() {})
	return r.add(t, deadline, open)
}
func (r *Ring) Remove(t *Timer)                               { r.remove(t) }
func (r *Ring) Postpone(t *Timer, deadline, open int64) int64 { return r.postpone(t, deadline, open) }
func (r *Ring) Next() int64                                   { return r.next() }
func (r *Ring) Collect(tick int64, buf []*Timer) (int, bool)  { return r.collect(tick, buf, Fired) }
func (r *Ring) Deadline(t *Timer) int64                       { return t.deadline }
func (r *Ring) SpareChunks() int                              { return int(r.chunks.spare) }
