package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// envWorker has the spec of a process that works.
const envWorker = "WHEELLOCK_FAULTS_WORKER"

// spec says what a process does.
type spec struct {
	Proc     int
	Seed     uint64
	Addr     string // of the proxy
	Register string // address of the register's server
	Prefix   string // of the register's keys
	Direct   string // the server without the proxy, to look at it; empty: do not
	Steady   bool   // nothing takes locks away
	Lease    time.Duration
	MaxPoll  time.Duration
	Load     Load
	Flaw     Flaw
}

// Load is what each process does, all at once.
type Load struct {
	Mutexes int // contended keys, at each of which Each goroutines lock and unlock
	Each    int
	RW      int // the same with readers and writers
	Permits int // the same with permits of a PermitSemaphore
	Counts  int // the same with those of a Semaphore
	Shared  int // the same with mutexes that all goroutines of a process take as one owner
	Many    int // keys of its own that it holds all the time
	// Throng is how many more wait for a mutex now and then, and leave together.
	Throng int
	// Pause is how long a goroutine rests between two turns, more or less;
	// 0: so long that keys are contended and the machine is not busy.
	Pause time.Duration
	// Hold is how long a contended key is held, more or less; 0: a moment
	// mostly, and now and then so long that it must be renewed.
	Hold time.Duration
}

// IsWorker says that this process was started to work; then Work is all that
// it does.
func IsWorker() bool { return os.Getenv(envWorker) != "" }

// Work is the life of such a process. It returns the exit status.
func Work() int {
	var s spec
	if err := json.Unmarshal([]byte(os.Getenv(envWorker)), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w := &worker{
		spec: s, rec: &recorder{clock: newClock(), to: os.Stdout},
		register: newRegister(s.Register, s.Prefix),
	}
	if s.Direct != "" {
		w.direct = &redis.Pool{MaxIdle: 4, DialContext: dialer(s.Direct, s.Lease)}
	}
	if err := w.work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// worker is one process with one client.
type worker struct {
	spec     // immutable
	rec      *recorder
	register *register
	direct   *redis.Pool // nil: the server is not looked at
	locker   locker

	crowd  *crowd  // what it holds all the time
	breaks *breaks // of the turns at contended keys

	ids  atomic.Int64 // attempts
	got  sync.Map     // of keys to *atomic.Int64: holds
	held sync.WaitGroup
}

func (w *worker) work() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var r Report
	crowd := newCrowd(w)
	w.crowd, w.breaks = crowd, newBreaks()
	// The parent says no more, or is gone: both end the work.
	made := make(chan struct{})
	go func() {
		defer stop()
		w.obey(ctx, os.Stdin, made)
	}()
	r.Before = runtime.NumGoroutine()
	if w.Flaw == None {
		l, err := newLibrary(w.spec, crowd.onLost)
		if err != nil {
			return err
		}
		w.locker = l
	} else {
		w.locker = newTwin(w.spec)
	}
	close(made)
	var wg sync.WaitGroup
	wg.Go(func() { pulse(ctx, w.Proc, itself, w.rec.write, w.rec.mark) })
	crowd.start(ctx)
	r.HeapAtStart, _ = w.measure()
	w.rec.write(event{Op: opReady})
	for _, c := range []struct {
		keys int
		name string
		kind kind
	}{{w.Load.Mutexes, "mutex", mutex}, {w.Load.RW, "rw", write}, {w.Load.Permits, "permit", permit}, {w.Load.Counts, "count", count}, {w.Load.Shared, "shared", shared}} {
		for k := range c.keys {
			for i := range w.Load.Each {
				rng := rand.New(rand.NewPCG(w.Seed, uint64(w.Proc)<<32|uint64(k)<<16|uint64(i)<<8|uint64(len(c.name)+int(c.name[0]))))
				wg.Go(func() { w.contend(ctx, fmt.Sprintf("%s-%d", c.name, k), c.kind, rng) })
			}
		}
	}
	<-ctx.Done()
	wg.Wait()
	r.Heap, r.Lag = w.measure()
	r.Goroutines = runtime.NumGoroutine()
	if s, ok := w.locker.numbers(); ok {
		r.Leases = s.Renewal.Leases
	}
	crowd.end()
	w.held.Wait()
	// What a caller was given that had left, its client releases when that has returned.
	for range 200 {
		s, ok := w.locker.numbers()
		if r.Held, r.Waiting = s.Held, s.Waiting; !ok || r.Held == 0 && r.Waiting == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.locker.close()
	w.register.close()
	if w.direct != nil {
		_ = w.direct.Close()
	}
	// Who reads stdin was there before, and may be still.
	for range 200 {
		if r.After = runtime.NumGoroutine(); r.After <= r.Before {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r.After > r.Before {
		buf := make([]byte, 64<<10)
		r.Stack = string(buf[:runtime.Stack(buf, true)])
	}
	w.rec.write(event{Op: opReport, Report: &r})
	return nil
}

// measure reads what may grow while locks are held, and how late renewals are
// sent from now on.
func (w *worker) measure() (heap uint64, lag time.Duration) {
	s, ok := w.locker.numbers()
	if !ok {
		return 0, 0
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if w.Load.Many >= 1000 { // so many that each interval has some
		time.Sleep(w.Lease / 2)
		later, _ := w.locker.numbers()
		lag = later.Renewal.Since(s.Renewal).Lag.P99
	}
	return m.HeapAlloc, lag
}

// beat is how often it is looked whether a process stood still, and still how
// long it must have.
const (
	beat  = 10 * time.Millisecond
	still = 25 * time.Millisecond
)

// marking is how often it is said that all is written or known.
const marking = 200 * time.Millisecond

// pulse notices that the process proc did not get to run: what was to be seen
// then is seen later, whoever stopped it. look returns when it runs. mark is told
// now and then until when proc is known to have run or not.
func pulse(ctx context.Context, proc int, look func(), tell func(event), mark func(stamp)) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	marked := stamp(0)
	for last := now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		look()
		at := now()
		if at.sub(last) > still {
			tell(event{At: at, Op: opStill, Proc: proc, Until: last})
		}
		last = at
		if at.sub(marked) > marking {
			marked = at
			mark(at)
		}
	}
}

// itself is what a process looks at that looks whether it runs.
func itself() {}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// outcome sorts the errors of lock calls.
func outcome(err error) string {
	switch {
	case err == nil:
		return outOK
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outGaveUp
	case errors.Is(err, lock.ErrLost):
		return outLost
	case errors.Is(err, lock.ErrNotAcquired):
		return outHeld
	}
	return outUnknown
}
