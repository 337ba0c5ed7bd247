package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// BatchSize is how many locks are renewed by one call of the script, by the engine
// and here.
const BatchSize = 128

// sweep holds locks without timers: one goroutine renews all of them, batch
// after batch on one connection, each third of the lease. It keeps the engine's
// rules: trust counts from before the send, and ends a margin before the lease.
type sweep struct {
	// immutable
	srv                     *redistest.Server
	pool                    *redis.Pool // to take and to give back
	name                    func(i int) string
	id                      string
	base                    time.Time // trust counts from here
	lease, interval, margin time.Duration
	timeout                 time.Duration // of a batch
	stop                    chan struct{}
	done                    chan struct{} // closed when the goroutine has ended

	start sync.Once // of the goroutine, with the first lock

	// owned by the goroutine
	conn  redis.Conn // nil when the last one failed
	batch []int32
	args  []any

	mu       sync.Mutex // guards what follows; never held during I/O
	locks    []swept    // by number
	order    []int32    // as they were taken
	late     *hdr.Histogram
	renewals uint64
	batches  uint64
	missed   int
	held     int
}

// swept is one lock. name and field stand ready as arguments, so that a renewal
// makes no garbage.
type swept struct {
	name, field any
	trust       time.Duration // from sweep.base; 0 when it is not held
}

func newSweep(srv *redistest.Server, name func(i int) string, n int, lease time.Duration) (*sweep, error) {
	// The engine's own margin, whatever its rule is.
	dog, err := renewal.New(renewal.Config{TTL: lease})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer dog.Close()
	return &sweep{
		srv: srv, pool: srv.Pool(Dispatchers), name: name, id: randomID(), base: time.Now(),
		lease: lease, interval: lease / 3, margin: dog.Margin(lease), timeout: min(lock.DefaultIOTimeout, lease/10),
		stop: make(chan struct{}), done: make(chan struct{}),
		locks: make([]swept, n), order: make([]int32, 0, n), late: newLateness(),
	}, nil
}

// newLateness counts microseconds up to ten minutes, to 1 in 100.
func newLateness() *hdr.Histogram { return hdr.New(1, int64(10*time.Minute/time.Microsecond), 2) }

func (s *sweep) field(i int) string { return fmt.Sprintf("%s:%d:0", s.id, i) }

func (s *sweep) Owns(i int, field string) bool { return field == s.field(i) }

func (s *sweep) Acquire(ctx context.Context, i int) error {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return fmt.Errorf("bench: sweep: %w", err)
	}
	defer conn.Close()
	l := swept{name: s.name(i), field: s.field(i)}
	stamp := time.Since(s.base)
	reply, err := redis.Int64s(Eval(conn, ioTimeout, script.Acquire,
		[]any{nil, 2, l.name, TokenCounter, l.field, s.lease.Milliseconds(), time.Now().Unix() << 20}))
	if err != nil {
		return fmt.Errorf("bench: sweep: acquire: %w", err)
	}
	if len(reply) != 2 || reply[0] != 1 {
		return fmt.Errorf("bench: sweep: acquire: %v is another's", l.name)
	}
	l.trust = stamp + s.lease - s.margin
	s.mu.Lock()
	s.locks[i] = l
	s.order = append(s.order, int32(i))
	s.held++
	s.mu.Unlock()
	s.start.Do(func() { go s.run() })
	return nil
}

// run sweeps until stop.
func (s *sweep) run() {
	defer close(s.done)
	defer s.hangUp()
	due := time.Since(s.base) + rand.N(s.interval) // a random phase
	for s.pause(due - time.Since(s.base)) {
		s.mu.Lock()
		all := s.order // later ones wait for the next sweep
		s.mu.Unlock()
		for len(all) > 0 && s.pause(0) {
			n := min(BatchSize, len(all))
			s.renew(all[:n], due)
			all = all[n:]
		}
		// A sweep that took longer than its interval delays the next one; that
		// lateness is not carried on, nor is it by the engine.
		due = max(due+s.interval, time.Since(s.base))
	}
}

// pause waits for d, and is false once the sweep is to end.
func (s *sweep) pause(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.stop:
		return false
	case <-t.C:
		return true
	}
}

// renew sends one batch of locks that were due at due.
func (s *sweep) renew(some []int32, due time.Duration) {
	s.mu.Lock()
	now := time.Since(s.base)
	s.batch = s.batch[:0]
	for _, i := range some {
		if s.trustedLocked(i, now) {
			s.batch = append(s.batch, i)
		}
	}
	s.args = append(s.args[:0], nil, len(s.batch))
	for _, i := range s.batch {
		s.args = append(s.args, s.locks[i].name)
	}
	s.args = append(s.args, s.lease.Milliseconds(), "") // whole fields, as Redisson sends them
	for _, i := range s.batch {
		s.args = append(s.args, s.locks[i].field)
	}
	s.mu.Unlock()
	if len(s.batch) == 0 {
		return
	}
	stamp := time.Since(s.base)
	gone, err := s.send()
	if err != nil {
		s.hangUp()
		return // the next sweep tries again, if trust lasts
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now = time.Since(s.base)
	for _, at := range gone {
		if at >= 1 && at <= len(s.batch) {
			s.dropLocked(s.batch[at-1]) // no-op if it was released meanwhile
		}
	}
	renewed := int64(0)
	for _, i := range s.batch {
		if s.trustedLocked(i, now) {
			s.locks[i].trust = stamp + s.lease - s.margin
			renewed++
		}
	}
	s.renewals += uint64(renewed)
	s.batches++
	_ = s.late.RecordValues(max(int64((now-due)/time.Microsecond), 1), renewed)
}

// send makes the round trip of the batch and returns the places, from 1, of the
// locks that are gone.
func (s *sweep) send() ([]int, error) {
	if s.conn == nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		conn, err := s.srv.DialContext(ctx)
		if err != nil {
			return nil, err
		}
		s.conn = conn
	}
	return redis.Ints(Eval(s.conn, s.timeout, script.Renew, s.args))
}

func (s *sweep) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// trustedLocked says whether lock i is held at now; if its trust has ended it is
// counted as missed.
func (s *sweep) trustedLocked(i int32, now time.Duration) bool {
	l := &s.locks[i]
	if l.trust == 0 {
		return false
	}
	if l.trust <= now {
		s.dropLocked(i)
		s.missed++
		return false
	}
	return true
}

// dropLocked makes lock i one that is not held.
func (s *sweep) dropLocked(i int32) {
	if s.locks[i].trust != 0 {
		s.locks[i].trust = 0
		s.held--
	}
}

func (s *sweep) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late.Reset()
	s.renewals, s.batches = 0, 0
}

func (s *sweep) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.base)
	for _, i := range s.order {
		s.trustedLocked(i, now)
	}
	at := func(q float64) time.Duration {
		return time.Duration(s.late.ValueAtQuantile(q)) * time.Microsecond
	}
	return Counters{Renewals: s.renewals, Batches: s.batches, P50: at(50), P99: at(99), Max: at(100), Missed: s.missed}
}

func (s *sweep) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

func (s *sweep) Release(ctx context.Context, i int) error {
	s.mu.Lock()
	l := s.locks[i]
	s.dropLocked(int32(i))
	s.mu.Unlock()
	if l.name == nil {
		return nil // never taken
	}
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return fmt.Errorf("bench: sweep: %w", err)
	}
	defer conn.Close()
	channel := "redisson_lock__channel:{" + l.name.(string) + "}"
	n, err := redis.Int(Eval(conn, ioTimeout, script.Release,
		[]any{nil, 1, l.name, l.field, 0, s.lease.Milliseconds(), channel}))
	switch {
	case err != nil:
		return fmt.Errorf("bench: sweep: release: %w", err)
	case n != 1 || l.trust == 0:
		return lock.ErrLost
	}
	return nil
}

func (s *sweep) Close() {
	close(s.stop)
	s.start.Do(func() { close(s.done) })
	<-s.done
	_ = s.pool.Close()
}
