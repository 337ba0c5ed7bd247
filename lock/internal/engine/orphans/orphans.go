package orphans

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// Orphans has the pending releases of a client. All methods are safe for concurrent use.
type Orphans struct {
	// immutable
	sender     network.Sender
	closeAfter time.Duration
	random     *rand.Rand

	// atomic
	underWay atomic.Int64 // requests that may leave an orphan, see Begin
	closing  atomic.Bool  // Begin refuses; never false again

	mu           sync.Mutex // guards the fields below; never held during I/O
	closed       bool
	owed         map[string][]*orphan   // by lock name, until Redis has no such field any more
	awaitedCount int                    // orphans that are neither paid nor given up
	allDone      chan struct{}          // closed when awaitedCount and underWay are 0, if Close waits for that
	failed       []*orphan              // releases that failed: to try again, some of them after a pause
	toRepeat     []*orphan              // releases that came perhaps before the acquisition: once more when they are due
	batches      map[string]*fieldBatch // of fields that are released together, by name
	timer        *time.Timer            // runs retry; nil when nothing waits for it
	wg           sync.WaitGroup
}

// Family is a group of kinds of locks. The scripts of each kind may remove the fields of all.
type Family int

// Field is a field of a lock's hash that may be in Redis without a holder.
type Field struct {
	Name   string // the lock
	Family Family
	Text   string        // named to new attempts, which remove it; "": there is no field
	Lease  time.Duration // how long it is in Redis at most
	// Release releases the field. Together, if not nil, releases it with other fields of the
	// lock. It is for places of waiters in a queue, because a script walks the queue to find one.
	Release  wire.Call
	Together func(fields []string) wire.Call
}

// orphan is a script that must still be carried out, mostly the release of a
// field. It may be sent more than once.
type orphan struct {
	Field
	until time.Time // by then Redis has expired the field, or a copy would do harm

	// For a field whose acquisition was not answered. The acquisition may be carried out
	// after a release that did not find the field, so the release is sent again.
	isUnanswered bool
	mayRunUntil  time.Time     // until when the acquisition may be carried out
	isLimitKnown bool          // mayRunUntil is exact, because the acquisition has a time limit
	closeWaits   bool          // Close waits until then, because no answer came
	isPaid       bool          // Close does not wait for it any more
	maxPause     time.Duration // the longest pause

	pause time.Duration // before it is sent again
	due   time.Time     // when it is sent again, at the earliest
}

const (
	// MaxFieldsToRemove is how many fields are named to one attempt.
	MaxFieldsToRemove = 16
	orphanPause       = 100 * time.Millisecond
	// maxResent is how many orphans are sent again after a pause. A server that hangs can turn
	// all holds of a client into orphans, and to send all of them again and again costs too much.
	maxResent = 2000
	// A release that the server refuses for now is sent again after pauses that double, up to
	// this one. Attempts of this client need not wait for it, because they name the field.
	maxRefusedPause = 3 * time.Second
	// A field whose acquisition may still be carried out is released again when that can no
	// longer happen. If that time is not known, the field is released after pauses that double.
	// The longest pause is a tenth of the lease, but from leastOrphanPause to maxOrphanPause.
	// After lateTime no kernel sends the acquisition any more.
	leastOrphanPause = time.Second
	maxOrphanPause   = time.Minute
	lateTime         = 15 * time.Minute
)

// New returns Orphans that send their releases through s. closeAfter is how long Close
// waits. random must be safe for concurrent use. It keeps clients from sending at the same
// time.
func New(s network.Sender, random *rand.Rand, closeAfter time.Duration) *Orphans {
	return &Orphans{sender: s, random: random, closeAfter: closeAfter, owed: make(map[string][]*orphan), batches: make(map[string]*fieldBatch)}
}

// Add adds a field that is in Redis for at most its lease from now. It does not block.
func (o *Orphans) Add(f Field) { o.add(&orphan{Field: f, until: time.Now().Add(f.Lease)}) }

// AddUnanswered is Add of a field whose acquisition got no answer. It may be taken until mayRunUntil, and Close
// waits for that as long as it waits for anything. If mayRunUntil is zero, that time is not known, and Close
// does not wait.
func (o *Orphans) AddUnanswered(f Field, mayRunUntil time.Time) {
	o.add(f.newUnconfirmed(mayRunUntil, !mayRunUntil.IsZero()))
}

// AddRefused is Add of a field whose acquisition Redis has refused, perhaps halfway. It is named to attempts, and
// released once more, until named.
func (o *Orphans) AddRefused(f Field, named time.Time) { o.add(f.newUnconfirmed(named, false)) }

// newUnconfirmed returns the orphan of a field that may have been taken, or may be taken until mayRunUntil.
func (f Field) newUnconfirmed(mayRunUntil time.Time, closeWaits bool) *orphan {
	d := &orphan{
		Field: f, closeWaits: closeWaits, isUnanswered: true, mayRunUntil: time.Now().Add(min(f.Lease, lateTime)),
		maxPause: min(max(f.Lease/10, leastOrphanPause), maxOrphanPause),
	}
	if !mayRunUntil.IsZero() {
		d.isLimitKnown, d.mayRunUntil = true, mayRunUntil
	}
	d.until = wait.Later(d.mayRunUntil, time.Now()).Add(f.Lease)
	return d
}

// Send sends a call until it is answered. It stops at until, because a later copy of the call
// would do harm. Send does not block.
func (o *Orphans) Send(name string, call wire.Call, until time.Time) {
	o.add(&orphan{Field: Field{Name: name, Release: call}, until: until})
}

// UnansweredRequests says until when one of several unanswered requests may still be carried out. The zero
// UnansweredRequests has no requests.
type UnansweredRequests struct {
	Written bool      // there is such a request
	endless bool      // one of them has no time limit
	last    time.Time // the latest time limit of the others
}

// Note records how a request ended.
func (o *UnansweredRequests) Note(a pipe.Answer) {
	if a.Stamp.IsZero() {
		return
	}
	o.Written = true
	o.endless = o.endless || a.MayRunUntil.IsZero()
	o.last = wait.Later(o.last, a.MayRunUntil)
}

// Until returns that time. It returns the zero time if it is not known.
func (o *UnansweredRequests) Until() time.Time {
	if o.endless {
		return time.Time{}
	}
	return o.last
}

// add adds d and sends it. It does not block.
func (o *Orphans) add(d *orphan) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	if d.Text != "" {
		o.owed[d.Name] = append(o.owed[d.Name], d)
	}
	o.awaitedCount++
	o.armLocked()
	o.mu.Unlock()
	o.send(d)
}

// FieldsToRemove returns the fields that an attempt at the lock of a family should remove.
func (o *Orphans) FieldsToRemove(family Family, name string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.owed[name]
	var fields []string
	for i := len(list) - 1; i >= 0 && len(fields) < MaxFieldsToRemove; i-- {
		if list[i].Family == family {
			fields = append(fields, list[i].Text)
		}
	}
	return fields
}

// send sends d and does not wait.
func (o *Orphans) send(d *orphan) {
	if d.Together != nil {
		o.sendInBatch(d)
		return
	}
	began := time.Now()
	o.sender.Post(d.Name, d.Release, func(a pipe.Answer) { o.recordAnswer(began, a, d) })
}

// recordAnswer records the answer to a script for all of list. The script was sent at sent.
func (o *Orphans) recordAnswer(sent time.Time, a pipe.Answer, list ...*orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range list {
		definite := a.Err == nil || pipe.Definite(a.Err)
		mayBeTaken := d.mayStillBeTaken(sent, a)
		if definite && !d.isPaid && !(mayBeTaken && d.closeWaits) {
			d.isPaid = true
			o.countPaidLocked()
		}
		switch {
		case !definite && (!d.isPaid || !sent.Before(d.mayRunUntil)):
			d.due = time.Time{}
			var refusal redis.Error // or another request was refused, which ended the connection
			if errors.As(a.Err, &refusal) {
				d.pause = min(max(2*d.pause, orphanPause), maxRefusedPause)
				d.due = time.Now().Add(d.pause)
			}
			o.failed = append(o.failed, d)
		case mayBeTaken && !o.closed:
			d.pause = min(max(2*d.pause, orphanPause), d.maxPause)
			d.due = time.Now().Add(d.pause)
			if d.isLimitKnown || d.due.After(d.mayRunUntil) {
				d.due = d.mayRunUntil
			}
			o.toRepeat = append(o.toRepeat, d)
		case a.Err == nil:
			d.until = time.Now() // the next retry forgets it, and it is not named to attempts any more
		}
	}
	o.armLocked()
}

// mayStillBeTaken reports whether the field of d may still be taken. a is the answer to its release,
// which was sent at sent. If the release found the field, the field was taken before. A release of
// several fields does not tell which of them it found. A call without a field may undo several requests.
func (d *orphan) mayStillBeTaken(sent time.Time, a pipe.Answer) bool {
	if !d.isUnanswered || !sent.Before(d.mayRunUntil) || a.Err != nil && pipe.Definite(a.Err) {
		return false
	}
	n, _ := a.Reply.Number()
	return a.Err != nil || n < 0 || d.Together != nil || d.Text == ""
}

// fieldBatch has the fields of one lock that are released together, because each walk along the
// queue of the lock delays all clients of Redis.
type fieldBatch struct {
	inFlight  int       // releases that were sent and not answered
	waiting   []*orphan // wait for the end of these releases and of the pause
	isPausing bool
}

const (
	maxSingle = 8    // releases of one field that may be sent at a time; up to 8 fields the script walks for each
	maxBatch  = 5000 // fields of one release
	// After a release of many fields, the lock has a pause of batchPause times the time of the
	// release, but at most maxBatchPause.
	batchPause    = 10
	maxBatchPause = 100 * time.Millisecond
)

// sendInBatch is send of a field that is released together with others.
func (o *Orphans) sendInBatch(d *orphan) {
	o.mu.Lock()
	q := o.batches[d.Name]
	if q == nil {
		q = &fieldBatch{}
		o.batches[d.Name] = q
	}
	if q.inFlight == maxSingle || q.isPausing || len(q.waiting) > 0 {
		q.waiting = append(q.waiting, d)
		o.mu.Unlock()
		return
	}
	q.inFlight++
	o.mu.Unlock()
	o.sendRelease(q, d)
}

// sendWaiting sends the waiting fields, when no release is on its way.
func (o *Orphans) sendWaiting(name string, q *fieldBatch) {
	o.mu.Lock()
	if q.inFlight > 0 || q.isPausing {
		o.mu.Unlock()
		return
	}
	n := min(len(q.waiting), maxBatch)
	if n == 0 {
		delete(o.batches, name)
		o.mu.Unlock()
		return
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	q.inFlight++
	o.mu.Unlock()
	o.sendRelease(q, batch...)
}

// sendRelease releases fields of one lock.
func (o *Orphans) sendRelease(q *fieldBatch, list ...*orphan) {
	name := list[0].Name
	fields := make([]string, len(list))
	for i, d := range list {
		fields[i] = d.Text
	}
	began := time.Now()
	o.sender.Post(name, list[0].Together(fields), func(a pipe.Answer) {
		o.recordAnswer(began, a, list...)
		o.mu.Lock()
		q.inFlight--
		pause := len(list) > maxSingle && !o.closed
		if pause {
			q.isPausing = true
			o.wg.Add(1)
		}
		o.mu.Unlock()
		if !pause {
			o.sendWaiting(name, q)
			return
		}
		time.AfterFunc(min(batchPause*time.Since(began), maxBatchPause), func() {
			defer o.wg.Done()
			o.mu.Lock()
			q.isPausing = false
			o.mu.Unlock()
			o.sendWaiting(name, q)
		})
	})
}

// armLocked makes retry run soon.
func (o *Orphans) armLocked() {
	if o.timer != nil || o.closed || len(o.owed) == 0 && len(o.failed) == 0 && len(o.toRepeat) == 0 {
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
	kept := o.toRepeat[:0]
	for _, d := range o.toRepeat {
		if now.Before(d.due) {
			kept = append(kept, d)
		} else {
			failed = append(failed, d)
		}
	}
	clear(o.toRepeat[len(kept):])
	o.toRepeat = kept
	again := o.takeDueLocked(failed, now)
	o.armLocked()
	o.mu.Unlock()
	for _, d := range again {
		o.send(d)
	}
}

// takeDueLocked returns the failed orphans that are sent again now. The others come first the
// next time. Orphans whose time is over are forgotten.
func (o *Orphans) takeDueLocked(failed []*orphan, now time.Time) (again []*orphan) {
	for _, d := range failed {
		switch {
		case !now.Before(d.until):
			if !d.isPaid {
				d.isPaid = true
				o.countPaidLocked() // the key has expired in Redis
			}
		case now.Before(d.due) || len(again) == maxResent:
			o.failed = append(o.failed, d)
		default:
			again = append(again, d)
		}
	}
	return again
}

func (o *Orphans) countPaidLocked() {
	o.awaitedCount--
	o.signalDoneLocked()
}

// signalDoneLocked tells Close if it need not wait any more.
func (o *Orphans) signalDoneLocked() {
	if o.allDone != nil && o.awaitedCount == 0 && o.underWay.Load() == 0 {
		close(o.allDone)
		o.allDone = nil
	}
}

// Begin records that a request is about to be sent that takes something. If its answer comes late, it
// leaves an orphan. The caller calls End when it has handled the answer. Begin returns false after Close
// has begun, and the request must not be sent then.
func (o *Orphans) Begin() bool {
	o.underWay.Add(1)
	if o.closing.Load() {
		o.End()
		return false
	}
	return true
}

// End undoes Begin.
func (o *Orphans) End() {
	if o.underWay.Add(-1) == 0 && o.closing.Load() {
		o.mu.Lock()
		o.signalDoneLocked()
		o.mu.Unlock()
	}
}

// Close waits until all requests and releases are answered, until ctx ends, or for the time given to
// New. It returns how many of them are left then. Their fields end with their TTL. When Close has
// returned, no goroutine of o runs. A Close that begins after another has returned returns 0.
func (o *Orphans) Close(ctx context.Context) (left int) {
	o.closing.Store(true)
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		o.wg.Wait()
		return 0
	}
	if o.awaitedCount > 0 || o.underWay.Load() > 0 {
		if o.allDone == nil {
			o.allDone = make(chan struct{})
		}
		paid := o.allDone
		for _, d := range o.failed {
			d.due = time.Time{} // once more, without a pause
		}
		o.mu.Unlock()
		_ = wait.Pause(ctx, paid, o.closeAfter)
		o.mu.Lock()
	}
	o.closed = true
	left = o.awaitedCount + int(o.underWay.Load())
	if o.timer != nil && o.timer.Stop() {
		o.wg.Done()
	}
	o.mu.Unlock()
	o.wg.Wait()
	return left
}
