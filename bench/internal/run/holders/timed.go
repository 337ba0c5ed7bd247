package holders

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// timerSet arms the timers of a row, one for each lock. Two rows that renew in the
// same way differ only in their timerSet.
type timerSet interface {
	// open is called once, before every other method. A timer of lock i calls due
	// when it fires. due does not block.
	open(n int, due func(i int32)) error
	// arm arms the timer of lock i, which is not pending. Several goroutines
	// call it, each for other locks.
	arm(i int32, d time.Duration)
	// close stops all timers, once no goroutine arms them any more. due may be
	// called a last time after it.
	close()
}

// wheelTimers are timers of one wheel.
type wheelTimers struct {
	wheel  *wheel.Wheel
	due    func(int32)
	timers []wheelTimer
}

type wheelTimer struct {
	wheel.Timer
	all *wheelTimers
	i   int32
}

// Fire implements wheel.Task.
func (t *wheelTimer) Fire(*wheel.Timer) { t.all.due(t.i) }

func (w *wheelTimers) open(n int, due func(int32)) (err error) {
	w.due, w.timers = due, make([]wheelTimer, n)
	for i := range w.timers {
		w.timers[i].all, w.timers[i].i = w, int32(i)
	}
	w.wheel, err = wheel.New(wheel.Config{})
	return err
}

func (w *wheelTimers) arm(i int32, d time.Duration) {
	t := &w.timers[i]
	_ = w.wheel.Schedule(&t.Timer, d, t) // refused when the wheel is stopped
}

func (w *wheelTimers) close() {
	w.wheel.Stop()
	<-w.wheel.Done()
}

// afterFuncs are timers of the runtime.
type afterFuncs struct {
	due    func(int32)
	timers []*time.Timer
}

func (a *afterFuncs) open(n int, due func(int32)) error {
	a.due, a.timers = due, make([]*time.Timer, n)
	return nil
}

func (a *afterFuncs) arm(i int32, d time.Duration) {
	if a.timers[i] == nil { // it must be there before it can fire
		a.timers[i] = time.AfterFunc(math.MaxInt64, func() { a.due(i) })
	}
	a.timers[i].Reset(d)
}

func (a *afterFuncs) close() {
	for _, t := range a.timers {
		if t != nil {
			t.Stop()
		}
	}
}

// timed keeps locks with a timer for each. A timer that fires puts its lock into
// the queue of its master; goroutines take locks from there, renew them, and arm
// their timers anew.
type timed struct {
	*lockSet
	timers    timerSet        // immutable
	queues    []chan int32    // by lane, with room for every lock of it: putting into it never blocks; immutable
	gathering []sync.Mutex    // by lane: held by the batcher that collects due locks
	lanes     []*lane         // of the goroutines; immutable
	tasks     sync.WaitGroup  // the goroutines
	ctx       context.Context // ends with the row
	cancel    context.CancelFunc
}

// renewalStyle is how due locks are renewed.
type renewalStyle struct {
	workers int // goroutines and connections of each master
	renew   func(*timed, *lane)
}

var (
	oneByOne  = renewalStyle{RoundTrips, (*timed).renewOneByOne}
	inBatches = renewalStyle{Batchers, (*timed).renewInBatches}
)

// gatherTime is how long a batcher that has one due lock waits for more.
const gatherTime = 5 * time.Millisecond

// endOfQueue in a queue ends a goroutine.
const endOfQueue = int32(-1)

func newTimed(k *lockSet, a timerSet, s renewalStyle) (Holder, error) {
	t := &timed{lockSet: k, timers: a}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	k.scheduler = t
	for _, n := range k.countPerLane() {
		t.queues = append(t.queues, make(chan int32, n+s.workers))
	}
	t.gathering = make([]sync.Mutex, len(t.queues))
	if err := a.open(len(k.records), t.enqueueDue); err != nil {
		return nil, err
	}
	for number := range t.queues {
		for range s.workers {
			l := &lane{locks: k, number: number}
			t.lanes = append(t.lanes, l)
			t.tasks.Go(func() { s.renew(t, l) })
		}
	}
	return t, nil
}

// Acquire acquires lock i and arms its timer at random in the first interval, so
// that locks which were taken together are not due together.
func (t *timed) Acquire(ctx context.Context, i int) error {
	if err := t.acquire(ctx, i); err != nil {
		return err
	}
	t.timers.arm(int32(i), rand.N(t.lease/3))
	return nil
}

// enqueueDue is called by the timer of lock i when it fires.
func (t *timed) enqueueDue(i int32) { t.queues[t.records[i].lane] <- i }

func (t *timed) scheduleRenewal(i int32, d time.Duration) {
	if t.ctx.Err() == nil {
		t.timers.arm(i, d)
	}
}

// renewOneByOne makes a round trip for each lock.
func (t *timed) renewOneByOne(l *lane) {
	some := make([]int32, 1)
	for i := range t.queues[l.number] {
		if i == endOfQueue || t.ctx.Err() != nil {
			return
		}
		some[0] = i
		l.renew(some)
	}
}

// renewInBatches makes a round trip for the locks that fall due within a moment.
func (t *timed) renewInBatches(l *lane) {
	queue, gather := t.queues[l.number], &t.gathering[l.number]
	some := make([]int32, 0, roundTripSize)
	for {
		gather.Lock()
		some = append(some[:0], <-queue)
		if len(queue) < roundTripSize-1 && some[0] != endOfQueue {
			time.Sleep(gatherTime)
		}
		for more := true; more && len(some) < roundTripSize; {
			select {
			case i := <-queue:
				some = append(some, i)
			default:
				more = false
			}
		}
		gather.Unlock()
		if t.ctx.Err() != nil {
			queue <- endOfQueue // for the next batcher: this one may have taken all
			return
		}
		l.renew(some)
	}
}

func (t *timed) Close() {
	t.cancel()
	for _, l := range t.lanes {
		l.close()
		t.queues[l.number] <- endOfQueue
	}
	t.tasks.Wait()
	t.timers.close()
	t.closePools()
}
