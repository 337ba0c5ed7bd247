package faults

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// locker is what is tried: the library, or a twin that is broken.
type locker interface {
	// lock takes the key; it waits if wait says so.
	lock(ctx context.Context, k kind, key string, wait bool) (holding, error)
	// numbers are what the locker says of itself; ok is false if it does not.
	numbers() (s lock.Stats, ok bool)
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

// margin is the time before the server's expiry at which trust ends. It is
// wider than the default: whether a process is told in time is to be seen from
// outside, on a machine that is busy.
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

// newLibrary calls lost for each loss.
func newLibrary(s spec, lost func(lock.Event)) (*library, error) {
	pool := &redis.Pool{DialContext: dialer(s.Addr, s.Lease/10)}
	client, err := lock.New(pool, lock.Config{
		Lease: s.Lease, MaxPoll: s.MaxPoll,
		Margin: margin(s.Lease),
		Hooks:  lock.Hooks{Lost: lost},
	})
	if err != nil {
		return nil, err
	}
	return &library{pool: pool, client: client}, nil
}

func (l *library) lock(ctx context.Context, k kind, key string, wait bool) (holding, error) {
	var h *lock.Held
	var err error
	switch {
	case (k == mutex || k == shared) && wait:
		h, err = l.client.Mutex(key).Lock(ctx)
	case k == mutex || k == shared:
		h, err = l.client.Mutex(key).TryLock(ctx)
	case k == write && wait:
		h, err = l.client.RWMutex(key).Writer().Lock(ctx)
	case k == write:
		h, err = l.client.RWMutex(key).Writer().TryLock(ctx)
	case k == read && wait:
		h, err = l.client.RWMutex(key).Reader().Lock(ctx)
	case k == read:
		h, err = l.client.RWMutex(key).Reader().TryLock(ctx)
	case k == count:
		return l.lockCount(ctx, key, wait)
	default:
		sem := l.client.PermitSemaphore(key)
		if _, err := sem.TrySet(ctx, permits); err != nil {
			return nil, err
		}
		if wait {
			defer keepSet(ctx, sem)()
			h, err = sem.Acquire(ctx, 1)
		} else {
			h, err = sem.TryAcquire(ctx, 1)
		}
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (l *library) lockCount(ctx context.Context, key string, wait bool) (holding, error) {
	sem := l.client.Semaphore(key)
	if _, err := sem.TrySet(ctx, permits); err != nil {
		return nil, err
	}
	take := sem.TryAcquire
	if wait {
		defer keepSet(ctx, sem)()
		take = sem.Acquire
	}
	if err := take(ctx, 1); err != nil {
		return nil, err
	}
	return &counted{Semaphore: sem, taken: time.Now(), done: make(chan struct{})}, nil
}

// setAgain is after how long a semaphore that is waited for is set again: longer than
// anybody waits while it is there.
const setAgain = 5 * time.Second

// keepSet sets a semaphore again that is deleted while all who use it wait for it: only
// a new call would. It ends when the function that it returns is called.
func keepSet(ctx context.Context, sem interface {
	TrySet(ctx context.Context, n int64) (bool, error)
},
) (stop func()) {
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-waiting.Done():
				return
			case <-time.After(setAgain):
			}
			_, _ = sem.TrySet(context.WithoutCancel(ctx), permits) // whole: nothing of it comes later
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// counted is a permit of a Semaphore, which only its taker ends.
type counted struct {
	*lock.Semaphore
	taken time.Time
	done  chan struct{}
}

func (c *counted) Unlock(ctx context.Context) error {
	close(c.done)
	return c.Release(ctx, 1)
}

func (c *counted) Context(ctx context.Context) context.Context { return ctx }
func (c *counted) Done() <-chan struct{}                       { return c.done }
func (c *counted) Err() error                                  { return nil }
func (c *counted) Deadline() time.Time                         { return c.taken.Add(24 * time.Hour) }
func (c *counted) Token() int64                                { return 0 }

func (l *library) numbers() (lock.Stats, bool) { return l.client.Stats(), true }

func (l *library) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.client.Close(ctx)
	_ = l.pool.Close()
}
