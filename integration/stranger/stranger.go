// Package stranger is a client that waits for a lock as Redisson does, with scripts of its own. It is
// for tests and benchmarks of how our clients and JVMs share a lock. Its threads are goroutines.
// A thread that is refused waits for a message of the lock's channel, or for the end of the lease,
// and then tries once. Each message wakes one thread. A JVM takes a while from the message to the
// try. The thread that unlocks does not wait for that message, and may take the lock again before
// all others.
package stranger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Config says what a Stranger does. All fields are needed.
type Config struct {
	Dial    func() (redis.Conn, error)
	Key     string // of the lock
	Threads int
	Lease   time.Duration        // of the lock
	Wait    time.Duration        // the waitTime of tryLock
	Hold    time.Duration        // for how long a thread has the lock
	Delay   func() time.Duration // from a message to the try; called by many goroutines
	Again   time.Duration        // from a thread's unlock to its next tryLock
}

// Counts counts what the threads did.
type Counts struct {
	Turns    int // how often a thread got the lock
	Refused  int // how often tryLock returned false
	Releases int // messages that came while a thread waited
	Won      int // Releases after which a thread got the lock before the next message
}

// Sub returns the counts since before.
func (c Counts) Sub(before Counts) Counts {
	return Counts{c.Turns - before.Turns, c.Refused - before.Refused, c.Releases - before.Releases, c.Won - before.Won}
}

// Stranger is a client as the package describes it. Make one with New. All methods are safe for
// concurrent use, but Run and Close are called once.
type Stranger struct {
	cfg   Config        // immutable, like all fields before mu
	id    string        // of the client
	wakes chan struct{} // the semaphore of the waiting threads
	sub   redis.PubSubConn
	conns []redis.Conn // one for each thread, and the one of sub
	heard sync.WaitGroup

	mu      sync.Mutex // guards what follows
	waiting int        // threads
	open    bool       // there was a release while a thread waited, and no thread has got the lock since
	counts  Counts
}

var (
	take = redis.NewScript(1, `
		if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
			return redis.call('pttl', KEYS[1])
		end
		redis.call('hincrby', KEYS[1], ARGV[2], 1)
		redis.call('pexpire', KEYS[1], ARGV[1])
		return nil`)
	release = redis.NewScript(1, `
		if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
			return nil
		end
		if redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then
			redis.call('del', KEYS[1])
			redis.call('publish', ARGV[2], '0')
		end
		return 1`)
)

// New dials and starts a Stranger. Close it.
func New(cfg Config) (*Stranger, error) {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	s := &Stranger{
		cfg: cfg, id: fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]),
		wakes: make(chan struct{}, 1<<20),
	}
	for range cfg.Threads + 1 {
		conn, err := cfg.Dial()
		if err != nil {
			return nil, errors.Join(err, s.closeConns())
		}
		s.conns = append(s.conns, conn)
	}
	s.sub = redis.PubSubConn{Conn: s.conns[cfg.Threads]}
	if err := s.sub.Subscribe(s.channel()); err != nil {
		return nil, errors.Join(err, s.closeConns())
	}
	if err, failed := s.sub.Receive().(error); failed {
		return nil, errors.Join(err, s.closeConns())
	}
	s.heard.Go(s.listen)
	return s, nil
}

func (s *Stranger) channel() string { return "redisson_lock__channel:{" + s.cfg.Key + "}" }

func (s *Stranger) closeConns() error {
	var errs []error
	for _, conn := range s.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Close closes the connections, after Run.
func (s *Stranger) Close() error {
	err := s.closeConns()
	s.heard.Wait()
	return err
}

// Counts returns the counts up to now.
func (s *Stranger) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *Stranger) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *Stranger) listen() {
	for {
		switch s.sub.Receive().(type) {
		case error:
			return
		case redis.Message:
			s.update(func() {
				if s.open = s.waiting > 0; s.open {
					s.counts.Releases++
				}
			})
			select {
			case s.wakes <- struct{}{}:
			default:
			}
		}
	}
}

// Run lets the threads lock and unlock until ctx ends. A wait that ends with ctx is not counted.
func (s *Stranger) Run(ctx context.Context) error {
	errs := make([]error, s.cfg.Threads)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			t := thread{s, s.conns[i], fmt.Sprintf("%s:%d", s.id, i+1)}
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = t.takeTurn(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// thread is one thread of the JVM.
type thread struct {
	s     *Stranger
	conn  redis.Conn
	field string
}

func (t thread) takeTurn(ctx context.Context) error {
	taken, err := t.tryLock(ctx)
	if err != nil || !taken {
		return err
	}
	time.Sleep(t.s.cfg.Hold)
	_, err = redis.Int(release.Do(t.conn, t.s.cfg.Key, t.field, t.s.channel()))
	time.Sleep(t.s.cfg.Again)
	return err
}

// tryLock is RLock.tryLock(Config.Wait).
func (t thread) tryLock(ctx context.Context) (taken bool, err error) {
	s, until := t.s, time.Now().Add(t.s.cfg.Wait)
	ttl, err := t.tryOnce()
	if err != nil || ttl < 0 {
		return err == nil, err
	}
	s.update(func() { s.waiting++ })
	defer s.update(func() { s.waiting-- })
	for {
		if ttl, err = t.tryOnce(); err != nil || ttl < 0 {
			return err == nil, err
		}
		timer := time.NewTimer(max(min(ttl, time.Until(until)), 0))
		select {
		case <-s.wakes:
			time.Sleep(s.cfg.Delay())
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		switch {
		case ctx.Err() != nil:
			return false, nil
		case !time.Now().Before(until):
			s.update(func() { s.counts.Refused++ })
			return false, nil
		}
	}
}

// tryOnce tries once. It returns a time below 0 if the thread has the lock now.
func (t thread) tryOnce() (time.Duration, error) {
	s := t.s
	ttl, err := redis.Int64(take.Do(t.conn, s.cfg.Key, s.cfg.Lease.Milliseconds(), t.field))
	if !errors.Is(err, redis.ErrNil) {
		return time.Duration(ttl) * time.Millisecond, err
	}
	s.update(func() {
		s.counts.Turns++
		if s.open {
			s.counts.Won++
		}
		s.open = false
	})
	return -1, nil
}
