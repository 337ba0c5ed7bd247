package faults

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// client is the client under test: the library, or a client with a flaw.
type client interface {
	// lock takes the key; it waits if wait says so.
	lock(ctx context.Context, k kind, key string, wait bool) (holding, error)
	// countHolds returns the holds and waiters that the client counts when it holds
	// nothing any more.
	countHolds() (held, waiting int)
	close()
}

// holding is a hold; *lock.Held is one.
type holding interface {
	Unlock(ctx context.Context) error
	Context(ctx context.Context) context.Context
	Done() <-chan struct{}
	Err() error
	Deadline() time.Time
	Token() int64
}

// margin is the time before the server's expiry at which trust ends. It is wider than
// the default: whether a process is told in time is to be seen from outside, on a
// machine that is busy.
func margin(lease time.Duration) time.Duration { return lease / 5 }

// library is the real thing.
type library struct {
	pool   *redis.Pool
	client *lock.Client
}

func dialer(addr string, timeout time.Duration) func(ctx context.Context) (redis.Conn, error) {
	return func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(timeout), redis.DialWriteTimeout(timeout))
	}
}

func newLibrary(s spec) (*library, error) {
	pool := &redis.Pool{DialContext: dialer(s.Addr, s.Lease/10)}
	c, err := lock.New(pool, lock.Config{Lease: s.Lease, MaxPoll: s.MaxPoll, Margin: margin(s.Lease)})
	if err != nil {
		return nil, err
	}
	return &library{pool: pool, client: c}, nil
}

func (l *library) lock(ctx context.Context, k kind, key string, wait bool) (holding, error) {
	mu := l.client.Mutex(key)
	switch k {
	case read:
		mu = l.client.RWMutex(key).Reader()
	case write:
		mu = l.client.RWMutex(key).Writer()
	}
	take := mu.TryLock
	if wait {
		take = mu.Lock
	}
	h, err := take(ctx)
	if err != nil {
		return nil, err // and no holding that is not nil
	}
	return h, nil
}

// countHolds waits a while for none: what a caller was given that had left, its
// client releases when that call has returned.
func (l *library) countHolds() (held, waiting int) {
	for range 200 {
		s := l.client.Stats()
		if held, waiting = s.Held, s.Waiting; held == 0 && waiting == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return held, waiting
}

func (l *library) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = l.client.Close(ctx)
	_ = l.pool.Close()
}
