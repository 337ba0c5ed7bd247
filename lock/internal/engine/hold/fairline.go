package hold

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// fairLines has the fairLine of each name that calls of this client wait for.
type fairLines struct {
	mu     sync.Mutex // guards the fields below; never held during I/O
	byName map[string]*fairLine
}

// fairLine has what the waiters of one FairMutex in this client share. Their signs of life go
// in one request, and its answer names the first waiter in the queue.
//
// One request is under way at a time. Waiters that come meanwhile go with the next one. If a
// request is not answered, its waiters and the waiters that came meanwhile back off, and the
// first one that comes back asks alone. So a server that stalls gets one request and not
// thousands, and no waiter sends fair_take before that request was answered.
type fairLine struct {
	// immutable
	engine *Engine
	name   string

	places int // waiters that share it; guarded by fairLines.mu

	mu                sync.Mutex // guards the fields below; never held during I/O
	next              []fairAsk  // of the next request
	isRequestInFlight bool       // a request is under way
	unknown           int        // requests in a row that were not answered

	// the first in the queue, as last seen
	first, sign string
	missed      int       // periods that its sign names, in which it stayed the same
	seen        time.Time // when the last of these ended; zero: counting restarts at the next answer
}

// fairAsk is a waiter's part of a request.
type fairAsk struct {
	place  wire.FairPlace
	answer chan<- fairAnswer // of capacity 1
}

// fairAnswer is what a waiter learns from the answer to a request.
type fairAnswer struct {
	outcome      wire.Outcome // Refused if Redis answered
	queue        wire.FairQueue
	mustTake     bool // nothing was done for it: it must send fair_take
	mustPassOver bool // the first in the queue is dead, and this waiter passes it over
}

// maxSigns is the most waiters of one request. Redis does nothing else while it handles them.
const maxSigns = 128

// join returns the fairLine of a name, until leave is called.
func (l *fairLines) join(k *Engine, name string) *fairLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byName[name]
	if line == nil {
		line = &fairLine{engine: k, name: name}
		if l.byName == nil {
			l.byName = make(map[string]*fairLine)
		}
		l.byName[name] = line
	}
	line.places++
	return line
}

// leave undoes join.
func (l *fairLines) leave(line *fairLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line.places--; line.places == 0 {
		delete(l.byName, line.name)
	}
}

// ask gives a sign of life for a waiter, together with others, and waits for the answer until
// ctx ends. answer is the waiter's own channel, of capacity 1, which it uses for no other purpose.
func (l *fairLine) ask(ctx context.Context, place wire.FairPlace, answer chan fairAnswer) fairAnswer {
	l.mu.Lock()
	l.next = append(l.next, fairAsk{place, answer})
	batch := l.batchLocked()
	l.mu.Unlock()
	l.post(batch)
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return fairAnswer{outcome: l.engine.Outcome("acquire", pipe.Answer{Err: wait.Ended(ctx), IsAbandoned: true})}
	}
}

// batchLocked takes the waiters of the next request. It returns nil if a request is under way or
// no waiter asks.
func (l *fairLine) batchLocked() []fairAsk {
	n := min(len(l.next), maxSigns)
	if l.isRequestInFlight || n == 0 {
		return nil
	}
	l.isRequestInFlight = true
	batch := l.next[:n:n]
	if l.next = l.next[n:]; len(l.next) == 0 {
		l.next = nil
	}
	return batch
}

// post sends a request. It does not wait.
func (l *fairLine) post(batch []fairAsk) {
	if len(batch) == 0 {
		return
	}
	cfg := &l.engine.cfg
	call := wire.FairSign{Name: l.name, Now: time.Now(), Queue: fairQueueOf(cfg), Grace: fairGraceOf(cfg.IOTimeout), Period: fairNextSign(cfg)}
	for _, a := range batch {
		call.Places = append(call.Places, a.place)
	}
	l.engine.Network.Post(l.name, call.Call(), func(a pipe.Answer) { l.answered(batch, a) })
}

// answered tells the waiters of a request its answer, and sends the next one. It does not block.
func (l *fairLine) answered(batch []fairAsk, a pipe.Answer) {
	var o wire.Outcome
	var queue wire.FairQueue
	var left []bool
	if a.Err != nil {
		o = l.engine.Outcome("acquire", a)
	} else {
		o, queue, left = wire.ReadFairSign(a.Reply, len(batch))
	}
	answered := o.Result == wire.Refused
	if _, said := a.Err.(redis.Error); a.Err != nil && !said && !errors.Is(a.Err, l.engine.cfg.Closed) {
		l.engine.Counts.Signs.Add(1)
	}
	l.mu.Lock()
	l.isRequestInFlight = false
	dead := false
	if !answered {
		if l.unknown++; l.unknown > 1 {
			l.seen = time.Time{} // an outage makes no waiter dead: signs that are missed in it do not count
		}
		batch, l.next = append(batch, l.next...), nil
	} else {
		l.unknown = 0
		dead = l.noteFirstLocked(queue)
	}
	more := l.batchLocked()
	l.mu.Unlock()
	l.post(more)
	for i, ask := range batch {
		ask.answer <- fairAnswer{outcome: o, queue: queue, mustTake: answered && left[i], mustPassOver: dead && i == 0}
	}
}

// noteFirstLocked notes the first waiter in the queue. It reports whether that waiter is dead and one of
// the waiters that asked passes it over; if that fails, another one does so after a period. It
// counts the signs of life that the first did not give, one for each period that its last sign
// names. Only periods in which Redis answered us count.
func (l *fairLine) noteFirstLocked(q wire.FairQueue) (dead bool) {
	now, period := time.Now(), wire.PeriodOf(q.Sign, fairPeriod)
	switch {
	case q.First != l.first || q.Sign != l.sign || q.Sign == "":
		l.first, l.sign, l.missed, l.seen = q.First, q.Sign, 0, now
	case l.seen.IsZero():
		l.seen = now
	case now.Sub(l.seen) >= period:
		l.missed++
		l.seen = wait.Later(l.seen.Add(period), now.Add(-period))
		return l.missed >= fairMissed
	}
	return false
}
