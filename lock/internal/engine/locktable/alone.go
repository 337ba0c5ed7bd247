package locktable

import "github.com/wheellock/wheellock/lock/internal/engine/waitqueue"

// Most locks are free, and no other call of the client wants them. So the first call for a Mutex
// asks Redis without a queue. The shard only notes the call under its name. The queue is made when it is
// needed: when another call comes, when a hold of that name becomes known, or when the try brings
// nothing. Then the state is the same as if the call had joined the queue and had begun its try there.

// asksAloneLocked notes w as the one call that asks for its Mutex, and reports whether it may:
// no queue, no hold of this client and no stranger is known there.
func (s *shard[H]) asksAloneLocked(w *Waiter[H]) bool {
	name := w.key.Name
	if w.key.Kind != waitqueue.Exclusive || s.closed.Load() || s.queues.get(w.key) != nil || s.alone[name] != nil || len(s.older[name]) > 0 {
		return false
	}
	if _, held := s.holds.get(name); held || s.strangersLocked(name) != nil {
		return false
	}
	if s.alone == nil {
		s.alone = make(map[string]*Waiter[H])
	}
	s.alone[name] = w
	w.alone, w.lastTryAt = true, s.table.Now()
	return true
}

// queueOfLocked returns the queue of k, or nil. It makes one if a call asks without a queue.
func (s *shard[H]) queueOfLocked(k Key) *queue[H] {
	q := s.queues.get(k)
	if q != nil || k.Kind != waitqueue.Exclusive || len(s.alone) == 0 {
		return q
	}
	w := s.alone[k.Name]
	if w == nil {
		return nil
	}
	delete(s.alone, k.Name)
	w.q = s.newQueueLocked(k)
	s.stepLocked(w.q.line.Join(&w.caller))
	if w.q.line.First() == &w.caller {
		w.mark = w.q.probe.Began(w.lastTryAt)
	} else {
		w.mark = w.q.probe.BeganBeside()
	}
	s.stepLocked(w.q.line.Began(&w.caller))
	return w.q
}

// aloneEndsLocked is called when w has asked without a queue, by w's own goroutine. It reports
// whether there is still no queue. After that no call makes a queue for w or refers to w.
func (s *shard[H]) aloneEndsLocked(w *Waiter[H]) bool {
	w.alone = false
	if w.q != nil {
		return false
	}
	delete(s.alone, w.key.Name)
	w.isUnreferenced = true
	return true
}
