package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Kept is how many things x keeps for the contexts that it gave out.
func (x *Held) Kept() int {
	w := x.watched()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.shared) + len(w.cancels)
}

// PassLimit is passLimit.
func PassLimit(n int, lease time.Duration, members int) time.Duration {
	return passLimit(n, lease, members)
}

// Waiting is how many stand in the RedLock's line.
func (r *RedLock) Waiting() int {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	return r.line.queue.Len()
}

// GateLen is how many calls of its client wait for the mutex.
func GateLen(m *Mutex) int {
	s := m.c.tables.shard(m.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues.get(queueKey{m.name, mutexQueue}); q != nil {
		return q.line.Waiting()
	}
	return 0
}

// HoldTables makes whoever wants the client's tables wait until free is called.
func HoldTables(c *Client) (free func()) {
	for i := range c.tables.shards {
		c.tables.shards[i].mu.Lock()
	}
	return func() {
		for i := range c.tables.shards {
			c.tables.shards[i].mu.Unlock()
		}
	}
}

// PauseForgetting keeps lost holds in the client's tables until resume is called.
func PauseForgetting(c *Client) (resume func()) {
	c.lost.mu.Lock()
	defer c.lost.mu.Unlock()
	c.lost.running = true
	return func() { go c.lost.run() }
}

// JoinMany makes n calls wait for a lock and returns what makes the i-th leave.
func JoinMany(c *Client, name string, n int) (leave func(i int)) {
	waiters := make([]*waiter, n)
	for i := range waiters {
		waiters[i] = newWaiter(c.tables.shard(name), queueKey{name, mutexQueue}, nil)
		waiters[i].caller.Owner.id = uint64(i + 1)
		waiters[i].look()
	}
	return func(i int) { waiters[i].leave() }
}

// LineUpMany is JoinMany for semaphores and the like.
func LineUpMany(c *Client, name string, n int) (leave func(i int)) {
	waiters := make([]*waiter, n)
	for i := range waiters {
		waiters[i] = newWaiter(c.tables.shard(name), queueKey{name, latchQueue}, nil)
		waiters[i].look()
	}
	return func(i int) { waiters[i].leave() }
}

// JoinMany is JoinMany for a RedLock.
func (r *RedLock) JoinMany(n int) (leave func(i int)) {
	waits := make([]*redWait, n)
	for i := range waits {
		waits[i] = &redWait{r: r, wake: make(chan struct{}, 1)}
		r.line.join(waits[i])
	}
	return func(i int) { r.line.leave(waits[i]) }
}

// GrantWhileClosing plays the steps of a hand-over between which Close begins: a
// waiter looks at its turn when it was handed the lock. It reports whether the
// waiter takes the lock, and whether a Held of the hold is told of Close.
func GrantWhileClosing(held *Held, closeBetween func()) (taken, told bool) {
	h, c := held.h, held.h.shard.c
	a := &attempt{c: c, shard: h.shard, name: h.name, kind: h.kind}
	w := newWaiter(h.shard, queueKey{h.name, mutexQueue}, a)
	defer w.leave()
	w.look()
	if c.tables.leaving(h).waiter != w {
		panic("the waiter is not the next")
	}
	next := &hold{shard: h.shard, name: h.name, kind: h.kind, count: 1}
	next.first.h = next
	closeBetween()
	c.tables.deliver(h, w, next)
	taken = w.look().Do == waitqueue.DoTake
	next.mu.Lock()
	defer next.mu.Unlock()
	return taken, next.closing
}

// Callers is how many owners' calls, and queues, the client has in mind.
func Callers(c *Client) int {
	n := 0
	for i := range c.tables.shards {
		s := &c.tables.shards[i]
		s.mu.Lock()
		n += len(s.callers)
		for range s.queues.all() {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// MaxHoldEnd is when Config.MaxHold is over for what x has of a member.
func MaxHoldEnd(x *MultiHeld, member int) time.Time { return PartOf(x, member).h.lease.MaxHoldEnd() }

// PartOf is what x has of a member; it is another one once that was retaken.
func PartOf(x *MultiHeld, member int) *Held {
	for _, p := range x.present() {
		if p.member == member {
			return p.Held
		}
	}
	return nil
}

// RetakenFor is the lease that x would take a member again for; false if it would not.
func RetakenFor(x *MultiHeld, seat int) (time.Duration, bool) {
	t, ok := (&retake{x: x, lost: x.present()[seat]}).terms()
	return t.lease, ok
}

// AdmittedUntold reports whether a member that x had until now would be admitted
// if x had not been told yet of what has ended.
func AdmittedUntold(x *MultiHeld, got *Held) bool {
	untold := &MultiHeld{from: x.from, need: x.need, parts: x.present()}
	untold.watch.done = make(chan struct{})
	return untold.admit(0, part{Held: got})
}

// Patience is the bound of calls that must end after limit.
func Patience(limit time.Duration) func(context.Context) context.Context {
	return (&patience{limit: limit}).bound
}

// ResentOrphans sends n orphans again and again, none of which is answered, and returns
// which are sent in each round. Those of odd numbers are over after half of the rounds.
func ResentOrphans(n, rounds int) (sent [][]int, open int) {
	now := time.Unix(0, 0)
	o := &orphans{open: n}
	numbers := make(map[*orphan]int)
	for i := range n {
		d := &orphan{until: now.Add(time.Duration(rounds) * time.Second)}
		if i%2 == 1 {
			d.until = now.Add(time.Duration(rounds) / 2 * time.Second)
		}
		numbers[d] = i
		o.failed = append(o.failed, d)
	}
	for range rounds {
		failed := o.failed
		o.failed = nil
		again := o.againLocked(failed, now)
		var round []int
		for _, d := range again {
			round = append(round, numbers[d])
		}
		sent = append(sent, round)
		o.failed = append(o.failed, again...)
		now = now.Add(time.Second)
	}
	return sent, o.open
}

// AnsweredLate is the answer to a request of x's hold that comes before its caller,
// which has left it, has noted that.
func AnsweredLate(x *Held) {
	_ = x.h.enterRelease(context.Background())
	x.h.answeredLate(pipe.Answer{Reply: int64(1), Stamp: time.Now()})
}
