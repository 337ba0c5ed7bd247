package orphans

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/sender"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// Orphans are what a client owes. All methods are safe for concurrent use.
type Orphans struct {
	// immutable
	sender     sender.Sender
	closeAfter time.Duration
	random     *rand.Rand

	mu     sync.Mutex // guards what follows; never held during I/O
	closed bool
	owed   map[string][]*orphan // by lock name, until their TTL is over
	open   int                  // orphans that are neither paid nor given up
	clear  chan struct{}        // closed when open becomes 0, if close waits for that
	failed []*orphan            // to be tried again
	later  []*orphan            // to be tried again when they are due
	crowds map[string]*crowd    // of fields that go together, by name
	timer  *time.Timer          // runs retry; nil when nothing waits for it
	wg     sync.WaitGroup
}

// Family is kinds of locks whose fields the scripts of each may remove.
type Family int

// Field is a field of a lock's hash that may stand there with nobody behind it.
type Field struct {
	Name   string // the lock
	Family Family
	Text   string
	Lease  time.Duration // for which it stands there at most
	// Release gives it back, or Together gives it back with others of the lock: the place of
	// a waiter in a queue is found by a walk along that.
	Release  wire.Call
	Together func(fields []string) wire.Call
}

// orphan is a script that is still to be carried out: mostly the release of a
// field. It may be sent more than once.
type orphan struct {
	call     wire.Call
	together func(fields []string) wire.Call // in the place of call, if not nil
	name     string
	family   Family
	field    string    // named to new attempts at the lock; "" if there is no such
	until    time.Time // by then Redis has expired it, or a copy would do harm

	// Of a field whose acquisition was not answered: it may be carried out after the
	// release that did not find the field, so that one is sent again.
	unanswered bool
	late       time.Time     // until when it may be
	known      bool          // exactly until then: the acquisition has a time limit
	paid       bool          // Close waits for it no more
	pause      time.Duration // before it is sent again
	longest    time.Duration // of the pauses
	due        time.Time     // when it is sent again
}

const (
	// MaxNamed is how many fields are named to one attempt.
	MaxNamed    = 16
	orphanPause = 100 * time.Millisecond
	// So many are sent again after a pause. A server that hangs can make orphans of all that
	// a client holds, and asking it for each of them again and again costs more than it brings.
	maxResent = 2000
	// A field whose acquisition may still come is released again when it cannot any more.
	// If nobody knows when that is, it is released after pauses that double, up to a tenth of
	// the lease, but from leastOrphanPause to maxOrphanPause. After lateTime no kernel sends
	// it any more.
	leastOrphanPause = time.Second
	maxOrphanPause   = time.Minute
	lateTime         = 15 * time.Minute
)

// New returns Orphans that release what they get through s. Close waits for so long.
// random, which must be safe for concurrent use, keeps clients apart.
func New(s sender.Sender, random *rand.Rand, closeAfter time.Duration) *Orphans {
	return &Orphans{sender: s, random: random, closeAfter: closeAfter, owed: make(map[string][]*orphan), crowds: make(map[string]*crowd)}
}

// Add takes charge of a field that stands in Redis for at most its lease from now.
// It does not block.
func (o *Orphans) Add(f Field) { o.take(f.orphan()) }

// AddUnanswered is Add of a field of which it is not known whether it was, or will be,
// taken: until open, or, if that is zero, nobody knows until when.
func (o *Orphans) AddUnanswered(f Field, open time.Time) {
	d := f.orphan()
	d.unanswered, d.late = true, time.Now().Add(min(f.Lease, lateTime))
	d.longest = min(max(f.Lease/10, leastOrphanPause), maxOrphanPause)
	if !open.IsZero() {
		d.known, d.late, d.until = true, open, later(open, time.Now()).Add(f.Lease)
	}
	o.take(d)
}

// Send takes charge of a call, which is sent until it is answered, or until a copy of it would
// do harm. It does not block.
func (o *Orphans) Send(name string, call wire.Call, until time.Time) {
	o.take(&orphan{name: name, call: call, until: until})
}

// Open says until when one of several requests of which nothing is known may still be
// carried out. Its zero value is of none.
type Open struct {
	Written bool      // there is one
	endless bool      // and one that has no time limit
	last    time.Time // the end of the others
}

// Note takes in how a request ended.
func (o *Open) Note(a pipe.Answer) {
	if a.Stamp.IsZero() {
		return
	}
	o.Written = true
	o.endless = o.endless || a.Open.IsZero()
	o.last = later(o.last, a.Open)
}

// Until is zero if nobody knows.
func (o *Open) Until() time.Time {
	if o.endless {
		return time.Time{}
	}
	return o.last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (f Field) orphan() *orphan {
	return &orphan{
		name: f.Name, family: f.Family, field: f.Text, call: f.Release, together: f.Together, until: time.Now().Add(f.Lease),
	}
}

// take takes charge of d. It does not block.
func (o *Orphans) take(d *orphan) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	if d.field != "" {
		o.owed[d.name] = append(o.owed[d.name], d) // stays when it is paid: its acquire may arrive late
	}
	o.open++
	o.armLocked()
	o.mu.Unlock()
	o.send(d)
}

// Named returns the fields that an attempt at the lock of a family should remove.
func (o *Orphans) Named(family Family, name string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.owed[name]
	var fields []string
	for i := len(list) - 1; i >= 0 && len(fields) < MaxNamed; i-- {
		if list[i].family == family {
			fields = append(fields, list[i].field)
		}
	}
	return fields
}

// send sends d; nobody waits for it.
func (o *Orphans) send(d *orphan) {
	if d.together != nil {
		o.sendTogether(d)
		return
	}
	began := time.Now()
	o.sender.Post(d.name, d.call, func(a pipe.Answer) { o.answered(began, a, d) })
}

// answered notes what was answered to a script, sent then, that carries out all of list.
func (o *Orphans) answered(sent time.Time, a pipe.Answer, list ...*orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range list {
		definite := a.Err == nil || pipe.Definite(a.Err)
		if definite && !d.paid {
			d.paid = true
			o.paidLocked()
		}
		switch {
		case !definite && (!d.paid || d.known && !sent.Before(d.late)):
			o.failed = append(o.failed, d)
		case d.mayCome(sent, a) && !o.closed:
			d.pause = min(max(2*d.pause, orphanPause), d.longest)
			d.due = time.Now().Add(d.pause)
			if d.known {
				d.due = d.late
			}
			o.later = append(o.later, d)
		case d.known && definite:
			d.until = time.Now() // it is not to be named to anybody any more
		}
	}
	o.armLocked()
}

// mayCome reports whether the field of d may still be taken, after that answer to its
// release, which was sent then. One that was found was taken; a release of several fields does not tell which
// were.
func (d *orphan) mayCome(sent time.Time, a pipe.Answer) bool {
	if !d.unanswered || !sent.Before(d.late) || a.Err != nil && pipe.Definite(a.Err) {
		return false
	}
	n, _ := a.Reply.(int64)
	return a.Err != nil || n < 0 || d.together != nil
}

// crowd is what of one lock is to be given up together: a walk along its queue holds up all of
// Redis.
type crowd struct {
	flying  int       // releases on their way
	waiting []*orphan // for the end of those, and of the pause
	pausing bool
}

const (
	fewAlone    = 8    // releases of one field each that are on their way at once; the script walks for so many, too
	maxTogether = 5000 // fields of one release
	// After a release of many there is none of that lock for so many times as long as it
	// took, but no longer than that.
	crowdPause    = 10
	maxCrowdPause = 100 * time.Millisecond
)

// sendTogether is send of a field that goes together with others.
func (o *Orphans) sendTogether(d *orphan) {
	o.mu.Lock()
	q := o.crowds[d.name]
	if q == nil {
		q = &crowd{}
		o.crowds[d.name] = q
	}
	if q.flying == fewAlone || q.pausing || len(q.waiting) > 0 {
		q.waiting = append(q.waiting, d)
		o.mu.Unlock()
		return
	}
	q.flying++
	o.mu.Unlock()
	o.release(q, d)
}

// nextTogether sends what waits, when nothing is on its way.
func (o *Orphans) nextTogether(name string, q *crowd) {
	o.mu.Lock()
	if q.flying > 0 || q.pausing {
		o.mu.Unlock()
		return
	}
	n := min(len(q.waiting), maxTogether)
	if n == 0 {
		delete(o.crowds, name)
		o.mu.Unlock()
		return
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	q.flying++
	o.mu.Unlock()
	o.release(q, batch...)
}

// release gives up fields of one lock.
func (o *Orphans) release(q *crowd, list ...*orphan) {
	name := list[0].name
	fields := make([]string, len(list))
	for i, d := range list {
		fields[i] = d.field
	}
	began := time.Now()
	o.sender.Post(name, list[0].together(fields), func(a pipe.Answer) {
		o.answered(began, a, list...)
		o.mu.Lock()
		q.flying--
		pause := len(list) > fewAlone && !o.closed
		if pause {
			q.pausing = true
			o.wg.Add(1)
		}
		o.mu.Unlock()
		if !pause {
			o.nextTogether(name, q)
			return
		}
		time.AfterFunc(min(crowdPause*time.Since(began), maxCrowdPause), func() {
			defer o.wg.Done()
			o.mu.Lock()
			q.pausing = false
			o.mu.Unlock()
			o.nextTogether(name, q)
		})
	})
}

// armLocked makes retry run soon.
func (o *Orphans) armLocked() {
	if o.timer != nil || o.closed || len(o.owed) == 0 && len(o.failed) == 0 {
		return
	}
	o.wg.Add(1)
	o.timer = time.AfterFunc(orphanPause+wait.Upto(o.random, orphanPause), func() {
		defer o.wg.Done()
		o.retry()
	})
}

// retry forgets orphans whose time is over and sends the failed ones again.
func (o *Orphans) retry() {
	now := time.Now()
	o.mu.Lock()
	o.timer = nil
	for name, list := range o.owed {
		kept := list[:0]
		for _, d := range list {
			if now.Before(d.until) {
				kept = append(kept, d)
			}
		}
		clear(list[len(kept):])
		if len(kept) == 0 {
			delete(o.owed, name)
		} else {
			o.owed[name] = kept
		}
	}
	failed := o.failed
	o.failed = nil
	kept := o.later[:0]
	for _, d := range o.later {
		switch {
		case now.Before(d.due):
			kept = append(kept, d)
		case now.Before(d.late) || d.known:
			failed = append(failed, d)
		}
	}
	clear(o.later[len(kept):])
	o.later = kept
	again := o.againLocked(failed, now)
	o.armLocked()
	o.mu.Unlock()
	for _, d := range again {
		o.send(d)
	}
}

// againLocked returns which of those that failed are sent again now. The others wait for
// the next time, in which they come first; those whose time is over are forgotten.
func (o *Orphans) againLocked(failed []*orphan, now time.Time) []*orphan {
	alive := failed[:0]
	for _, d := range failed {
		switch {
		case now.Before(d.until):
			alive = append(alive, d)
		case !d.paid:
			d.paid = true
			o.paidLocked() // by Redis' own expiry
		}
	}
	clear(failed[len(alive):])
	n := min(len(alive), maxResent)
	o.failed = alive[n:]
	return alive[:n:n]
}

func (o *Orphans) paidLocked() {
	if o.open--; o.open == 0 && o.clear != nil {
		close(o.clear)
		o.clear = nil
	}
}

// Close gives what is owed until ctx ends, and no longer than New was told, to be paid. What
// is left then is left to its TTL. When Close has returned, no goroutine of o runs.
func (o *Orphans) Close(ctx context.Context) {
	o.mu.Lock()
	if o.open > 0 && !o.closed {
		if o.clear == nil {
			o.clear = make(chan struct{})
		}
		paid := o.clear
		o.mu.Unlock()
		_ = wait.Pause(ctx, paid, o.closeAfter)
		o.mu.Lock()
	}
	o.closed = true
	if o.timer != nil && o.timer.Stop() {
		o.wg.Done()
	}
	o.mu.Unlock()
	o.wg.Wait()
}
