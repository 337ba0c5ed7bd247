package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// envWorker names the environment variable with the spec of a worker process.
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
	Own     int // keys of its own that it holds all the time
	// Pause is how long a goroutine rests between two turns at most; 0: so long that
	// keys are contended and the machine is not busy.
	Pause time.Duration
	// Hold is how long a contended key is held, more or less; 0: a moment
	// mostly, and now and then so long that it must be renewed.
	Hold time.Duration
}

// IsWorker reports whether Run has started this process as a worker. Then it must call RunWorker and
// do nothing else.
func IsWorker() bool { return os.Getenv(envWorker) != "" }

// RunWorker does the work of such a process. It returns the exit status.
func RunWorker() int {
	w := &worker{rec: &recorder{to: os.Stdout}, clock: newClock()}
	err := json.Unmarshal([]byte(os.Getenv(envWorker)), &w.spec)
	if err == nil {
		err = w.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// worker is one process with one client.
type worker struct {
	spec     // immutable
	rec      *recorder
	clock    clock
	register *register
	direct   *redis.Pool // nil: the server is not looked at
	client   client

	ids  atomic.Int64 // attempts
	got  sync.Map     // of keys to *atomic.Int64: holds
	held sync.WaitGroup
}

// run takes turns at all keys until stdin ends, gives everything back, and reports.
func (w *worker) run() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent ends it, or is gone
	}()
	w.register = newRegister(w.Register, w.Prefix)
	if w.Direct != "" {
		w.direct = &redis.Pool{MaxIdle: 8, DialContext: dialer(w.Direct, w.Lease)}
	}
	r := Report{Before: runtime.NumGoroutine()}
	if w.Flaw == None {
		l, err := newLibrary(w.spec)
		if err != nil {
			return err
		}
		w.client = l
	} else {
		w.client = newFlawed(w.spec)
	}
	var wg, own sync.WaitGroup
	wg.Go(func() { pulse(ctx, w.Proc, func() {}, w.rec.write) })
	own.Add(w.Load.Own)
	for i := range w.Load.Own {
		wg.Go(func() { w.keepHolding(ctx, fmt.Sprintf("%s%d-%d", ownKeys, w.Proc, i), own.Done) })
	}
	own.Wait()
	w.rec.write(event{Op: opReady})
	turns := func(n int, key string, k kind) {
		for i := range n * w.Load.Each {
			rng := rand.New(rand.NewPCG(w.Seed, uint64(w.Proc)<<32|uint64(i)<<8|uint64(key[0])))
			wg.Go(func() { w.contend(ctx, fmt.Sprintf("%s-%d", key, i%n), k, rng) })
		}
	}
	turns(w.Load.Mutexes, "mutex", mutex)
	turns(w.Load.RW, "rw", write)
	wg.Wait()
	w.held.Wait()
	r.Held, r.Waiting = w.client.countHolds()
	w.client.close()
	w.register.close()
	if w.direct != nil {
		_ = w.direct.Close()
	}
	// The goroutine that reads stdin may have counted before, and may still run.
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

// beat is how often pulse looks whether its process stood still. still is the shortest time that
// counts.
const (
	beat  = 10 * time.Millisecond
	still = 25 * time.Millisecond
)

// pulse tells an event whenever the process proc has not run for a while, whatever stopped it. The
// process sees events of that time later. look returns only while the process runs.
func pulse(ctx context.Context, proc int, look func(), tell func(event)) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
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
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// outcomeOf sorts the errors of lock calls.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outOK
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outGaveUp
	case errors.Is(err, lock.ErrLost):
		return outLost
	case errors.Is(err, lock.ErrNotAcquired):
		return outHeld
	case errors.Is(err, errRefused):
		return outRefused
	}
	return outUnknown
}
