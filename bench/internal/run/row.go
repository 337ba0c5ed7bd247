package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/lock"
)

const (
	// Workers is how many goroutines of a row acquire and release its locks.
	Workers      = 256
	stallTimeout = 10 * time.Second // without a lock acquired or released: the row gives up
	eventPeriod  = time.Second
)

// RowMain is the program of a row's process. It returns the exit status, which is
// 0 even if the row failed, because what went wrong is in the row's result; 2 if
// no Parent has started it.
func RowMain(stdin io.Reader, stdout io.Writer) int {
	// A Ctrl-C reaches this process too, but the parent decides how to end.
	signal.Ignore(os.Interrupt)
	// If the parent dies, events go nowhere, and the locks are to be released
	// all the same.
	signal.Ignore(syscall.SIGPIPE)
	var cfg rowConfig
	if err := json.NewDecoder(stdin).Decode(&cfg); err != nil {
		fmt.Fprintln(os.Stderr, "bench: only bench itself starts a row's process:", err)
		return 2 // wrong usage
	}
	stop := make(chan struct{})
	var once sync.Once
	unwanted := func() { once.Do(func() { close(stop) }) }
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		unwanted()
	}()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		unwanted()
	}()
	enc := json.NewEncoder(stdout)
	var mu sync.Mutex // guards enc
	send := func(e event) {
		mu.Lock()
		defer mu.Unlock()
		_ = enc.Encode(e)
	}
	r := &rowRun{cfg: cfg, stop: stop, send: send}
	r.row.Driver, r.row.Locks = cfg.Driver, cfg.Locks
	if err := r.run(); err != nil {
		r.addFault(err)
	}
	send(event{Result: &r.row})
	return 0
}

// rowRun is one row being measured.
type rowRun struct {
	// immutable
	cfg  rowConfig
	stop <-chan struct{} // closed when the row is not wanted any more
	send func(event)

	target     *holders.Target
	holder     *holders.Holding
	serverGone bool // the server did not answer any more
	row        report.Row
}

func (r *rowRun) name(i int) string { return r.cfg.Prefix + strconv.Itoa(i) }

func (r *rowRun) addFault(err error) {
	r.row.Faults = append(r.row.Faults, report.OneLine(err))
}

func (r *rowRun) isUnwanted() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// progressOf returns a function that reports the progress of a phase.
func (r *rowRun) progressOf(phase string) func(int) {
	r.send(event{Phase: phase})
	last := time.Now()
	return func(done int) {
		if now := time.Now(); now.Sub(last) >= eventPeriod {
			last = now
			r.send(event{Phase: phase, Done: done})
		}
	}
}

// run takes the locks, holds and checks them, and gives them back in any case.
func (r *rowRun) run() error {
	d, ok := holders.DriverNamed(r.cfg.Driver)
	if !ok {
		return fmt.Errorf("bench: no driver %q", r.cfg.Driver)
	}
	ctx, cancel := context.WithTimeout(context.Background(), holders.ConnectTimeout)
	defer cancel()
	var err error
	if r.target, err = holders.Connect(ctx, r.cfg.URL, r.cfg.Cluster); err != nil {
		return err
	}
	if r.holder, err = holders.Hold(d, r.target, r.cfg.Prefix, r.cfg.Locks, r.cfg.Lease); err != nil {
		return err
	}
	defer r.holder.Close()
	begun, cpu, before := time.Now(), cpuTime(), readUsage(r.target, false)
	err = r.acquireAll()
	took := time.Since(begun).Seconds()
	r.row.AcquireSeconds = report.NumberOf(took)
	r.row.Cores = coresUsed(cpuTime().Minus(cpu), before, readUsage(r.target, false), took)
	if err == nil && !r.isUnwanted() {
		err = r.measure()
	}
	r.row.Connections = report.NumberOf(r.holder.Counters().Dials)
	r.row.Interrupted = r.isUnwanted()
	if err != nil {
		r.addFault(err)
	}
	return r.releaseAll()
}

// acquireAll takes the locks in random order.
func (r *rowRun) acquireAll() error {
	order := rand.Perm(r.cfg.Locks)
	take := func(ctx context.Context, k int) error {
		if r.isUnwanted() {
			return nil
		}
		return r.holder.Acquire(ctx, order[k])
	}
	// If the first locks are already lost, the rest will never be acquired, however long it tries.
	if err := r.forEachLock("acquire", r.cfg.Locks, take, r.checkKept); err != nil {
		r.row.Missed = report.NumberOf(r.holder.Counters().Missed)
		return fmt.Errorf("bench: acquire: %w", err)
	}
	return nil
}

// checkKept returns an error if some of the acquired locks are not held any more. Then it
// counts them as lost.
func (r *rowRun) checkKept(acquired int) error {
	lost := max(acquired-r.holder.CountHeld(), r.holder.Counters().Missed)
	if lost <= 0 || r.isUnwanted() {
		return nil
	}
	r.row.Lost = report.NumberOf(lost)
	return fmt.Errorf("%s of the %s locks were acquired when some of them were lost already, so the rest was not acquired: the load is more than driver and server can do",
		report.Count(acquired), report.Count(r.cfg.Locks))
}

// releaseAll releases all held locks and makes sure that none is left.
func (r *rowRun) releaseAll() error {
	held := r.holder.CountHeld()
	var lost atomic.Int64
	release := func(ctx context.Context, i int) error {
		err := r.holder.Release(ctx, i)
		if errors.Is(err, lock.ErrLost) {
			lost.Add(1)
			return nil
		}
		return err
	}
	goOn := func(int) error { return nil }
	if err := r.forEachLock("release", r.cfg.Locks, release, goOn); err != nil {
		// Only this run uses these names, so deleting the keys harms no other client.
		if left, err2 := deleteKeys(r.target, r.cfg.Locks, r.name, r.progressOf("delete")); err2 == nil {
			return fmt.Errorf("bench: release: %w; locks that were left and are deleted now: %s", err, report.Count(left))
		}
		return fmt.Errorf("bench: release: locks expire with their lease of %v: %w", r.cfg.Lease, err)
	}
	left, err := countKeys(r.target, r.cfg.Locks, r.name, r.progressOf("look"))
	if err == nil && left > 0 {
		// The engine releases lost locks in the background.
		time.Sleep(min(r.cfg.Lease, time.Second))
		left, err = deleteKeys(r.target, r.cfg.Locks, r.name, r.progressOf("delete"))
	}
	switch {
	case err != nil && r.serverGone:
		return nil // it has been said
	case err != nil:
		return fmt.Errorf("bench: checking that all are released: %w", err)
	}
	r.row.Released = held
	if n := lost.Load(); n > 0 && r.row.KeptAll() {
		r.row.Lost = report.NumberOf(n)
		return errors.New("bench: these were lost after the check, before their release")
	}
	if left > 0 {
		return fmt.Errorf("bench: %s locks were still there after their release; they are deleted now", report.Count(left))
	}
	return nil
}

// forEachLock calls do for 0 to n-1 from many goroutines. It stops when a call fails, when
// goOn returns an error, or when no call succeeds for stallTimeout. It calls goOn once in an
// eventPeriod with the number of calls that are done.
func (r *rowRun) forEachLock(phase string, n int, do func(ctx context.Context, i int) error, goOn func(done int) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range min(Workers, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	r.send(event{Phase: phase})
	ticks := time.NewTicker(eventPeriod)
	defer ticks.Stop()
	before, moved := int64(0), time.Now()
	for {
		select {
		case <-finished:
			return context.Cause(ctx)
		case now := <-ticks.C:
			d := done.Load()
			if err := goOn(int(d)); err != nil {
				cancel(err)
			}
			switch {
			case d > before:
				before, moved = d, now
				r.send(event{Phase: phase, Done: int(d)})
			case now.Sub(moved) >= stallTimeout:
				cancel(fmt.Errorf("bench: no progress for %v", stallTimeout))
				moved = now
			}
		}
	}
}
