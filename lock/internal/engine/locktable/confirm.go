package locktable

import (
	"maps"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
)

// While this client has a hold, its waiters do not ask Redis. If the key is deleted, by
// ForceUnlock or by DEL, only a question about that hold shows it. But Redis is seldom or
// never asked about a lease that is long or not renewed. So while calls wait behind a hold,
// the Table asks Redis about it every MaxPoll. It also asks after other signs of a deleted
// key. The questions are renewals, which are sent in batches. A question about a lease that
// is not renewed does not extend it.

const (
	// confirmSteps is the number of moments in a MaxPoll at which holds are asked about. So
	// the questions about many locks share batches.
	confirmSteps = 8
	// confirmBatch is how many queues are looked at before shard.mu is unlocked.
	confirmBatch = 128
)

// watched has the queues of a shard in which a call has slept behind this client's own
// hold. The queue that is due next comes first. shard.mu guards it.
type watched[H Hold] struct {
	first, last *queue[H]
	timer       *time.Timer // runs shard.confirm; nil before the first
	armed       bool        // the timer is pending, or confirm is about to look
}

// confirmAt is when a queue is looked at that was looked at now: MaxPoll later at most.
func (t *Table[H]) confirmAt(now waitqueue.Instant) waitqueue.Instant {
	poll := waitqueue.Instant(t.pacing[waitqueue.Exclusive].MaxPoll)
	at, step := now+poll, max(poll/confirmSteps, 1)
	return at - at%step
}

// watchQueueLocked makes the Table ask about the hold that q's waiters wait for, from now on.
func (s *shard[H]) watchQueueLocked(q *queue[H]) {
	if q.confirm != 0 || q.key.Kind != waitqueue.Exclusive || s.closed.Load() {
		return
	}
	q.confirm = s.table.confirmAt(s.table.Now())
	if q.before = s.watched.last; q.before != nil {
		q.before.after = q
	} else {
		s.watched.first = q
	}
	s.watched.last = q
	s.armLocked()
}

// unwatchQueueLocked undoes watchQueueLocked.
func (s *shard[H]) unwatchQueueLocked(q *queue[H]) {
	if q.confirm == 0 {
		return
	}
	if q.before != nil {
		q.before.after = q.after
	} else {
		s.watched.first = q.after
	}
	if q.after != nil {
		q.after.before = q.before
	} else {
		s.watched.last = q.before
	}
	q.confirm, q.before, q.after = 0, nil, nil
}

// armLocked sets the timer for the first of the queues. It leaves a timer for a queue that has ended
// alone.
func (s *shard[H]) armLocked() {
	w := &s.watched
	if w.armed || w.first == nil || s.closed.Load() {
		return
	}
	w.armed = true
	s.table.timers.Add(1)
	if d := time.Duration(w.first.confirm - s.table.Now()); w.timer == nil {
		w.timer = time.AfterFunc(d, s.confirm)
	} else {
		w.timer.Reset(d)
	}
}

// disarmLocked stops the timer for good: the client closes.
func (s *shard[H]) disarmLocked() {
	if s.watched.armed && s.watched.timer.Stop() {
		s.watched.armed = false
		s.table.timers.Done()
	}
}

// confirm asks about the holds of the queues that are due.
func (s *shard[H]) confirm() {
	defer s.table.timers.Done()
	holds := make([]H, 0, confirmBatch)
	for more := true; more; {
		holds, more = s.dueHolds(holds[:0])
		for _, h := range holds {
			h.Confirm()
		}
	}
}

// dueHolds appends the holds for which the waiters of some due queues wait. It returns true for
// more if further queues may be due. Otherwise it has set the timer for the next one.
func (s *shard[H]) dueHolds(holds []H) (due []H, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.table.Now()
	for range confirmBatch {
		q := s.watched.first
		if q == nil || q.confirm > now || s.closed.Load() {
			s.watched.armed = false
			s.armLocked()
			return holds, false
		}
		s.unwatchQueueLocked(q)
		if q.line.Len() == 0 {
			continue
		}
		s.watchQueueLocked(q) // a call that sleeps does not do so again
		if h, ok := s.holds.get(q.key.Name); ok && enterable(h) {
			holds = append(holds, h)
		}
		for _, h := range s.older[q.key.Name] {
			if enterable(h) {
				holds = append(holds, h)
			}
		}
	}
	return holds, true
}

// ConfirmHolds asks Redis about the holds of a name, because something has deleted the lock. It also has
// Redis asked about the hold that one of them is just being handed over to. A field tells the number of its
// owner, but not the client that made the owner. So ConfirmHolds asks about the holds of all owners. It looks
// through all holds of the shard that are not exclusive.
func (t *Table[H]) ConfirmHolds(name string) {
	s := t.shard(name)
	s.mu.Lock()
	holds := slices.Clone(s.older[name])
	if h, ok := s.holds.get(name); ok {
		holds = append(holds, h)
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.shared), sharedKey.compare) {
		if key.name == name {
			holds = append(holds, s.shared[key]...)
		}
	}
	for _, h := range holds {
		h.MarkDoubtful()
	}
	s.mu.Unlock()
	for _, h := range holds {
		h.Confirm()
	}
}

// doubts has, by the name of the lock, when Redis was last asked about a hold because a
// call of this client met it. shard.mu guards it.
type doubts struct {
	asked map[string]waitqueue.Instant
	most  int // how many there may be before those of long ago are dropped
}

// mayAsk reports whether name was not asked about within the last poll, and notes that it
// is now.
func (d *doubts) mayAsk(name string, now waitqueue.Instant, poll time.Duration) bool {
	if at, ok := d.asked[name]; ok && now < at.Add(poll) {
		return false
	}
	if d.asked == nil {
		d.asked, d.most = make(map[string]waitqueue.Instant), minDoubts
	}
	if len(d.asked) >= d.most {
		for n, at := range d.asked {
			if now >= at.Add(poll) {
				delete(d.asked, n)
			}
		}
		d.most = max(2*len(d.asked), minDoubts)
	}
	d.asked[name] = now
	return true
}

const minDoubts = 16

// doubt asks Redis about h, because h keeps a call of this client from a lock. It does so at
// most once in every MaxPoll.
func (t *Table[H]) doubt(h H) {
	s := t.shard(h.Name())
	s.mu.Lock()
	ask := s.doubts.mayAsk(h.Name(), t.Now(), t.pacing[waitqueue.Exclusive].MaxPoll)
	if ask {
		if next, ok := s.holds.get(h.Name()); ok && h.Leaving() {
			h = next // to which it was handed over meanwhile
		}
		h.MarkDoubtful() // it may be handed over before Confirm
	}
	s.mu.Unlock()
	if ask {
		h.Confirm()
	}
}
