package lock_test

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// spied is a context that fails the test when it is asked while a mutex is held that the
// end of a hold needs. That of a Held may end one when it is asked.
type spied struct {
	context.Context
	held func() bool
	t    *testing.T
}

func (c spied) look() {
	for range 200 { // another goroutine may have it for a moment
		if !c.held() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Errorf("a context is asked under a mutex:\n%s", debug.Stack())
}

func (c spied) Err() error                          { c.look(); return c.Context.Err() }
func (c spied) Done() <-chan struct{}               { c.look(); return c.Context.Done() }
func (c spied) Deadline() (at time.Time, some bool) { c.look(); return c.Context.Deadline() }
func (c spied) Value(key any) any                   { c.look(); return c.Context.Value(key) }

// taken is a Held or a MultiHeld.
type taken interface {
	Context(ctx context.Context) context.Context
	Unlock(ctx context.Context) error
}

// TestNoContextIsAskedUnderTheMutexesOfTheTables, by whatever call: of an owner that asks by
// several calls at once, of calls that wait, are refused, re-enter, or are left.
func TestNoContextIsAskedUnderTheMutexesOfTheTables(t *testing.T) {
	s := fixture.Mini(t)
	c, other := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	var members []*lock.Mutex
	for range 3 {
		members = append(members, fixture.ClientOf(t, fixture.Mini(t), lock.Config{}).Mutex("red"))
	}
	red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
	require.NoError(t, err)
	all := append(members, c.Mutex("m"))
	locked := func() bool {
		return red.Line().Locked() || slices.ContainsFunc(all, func(m *lock.Mutex) bool { return lock.Table(lock.ClientOf(m)).Locked() })
	}
	spy := func(ctx context.Context) context.Context { return spied{ctx, locked, t} }
	sem, latch := c.Semaphore("s"), c.CountDownLatch("l")
	ctx := context.Background()
	_, err = sem.TrySet(ctx, 1)
	require.NoError(t, err)
	_, err = latch.TrySet(ctx, 1)
	require.NoError(t, err)
	rw := c.RWMutex("rw")
	locks := map[string]func(ctx context.Context) (taken, error){
		"Lock":    func(ctx context.Context) (taken, error) { return c.Mutex("m").Lock(ctx) },
		"TryLock": func(ctx context.Context) (taken, error) { return c.Mutex("m").TryLock(ctx) },
		"fair":    func(ctx context.Context) (taken, error) { return c.FairMutex("f").Lock(ctx) },
		"read":    func(ctx context.Context) (taken, error) { return rw.Reader().Lock(ctx) },
		"write":   func(ctx context.Context) (taken, error) { return rw.Writer().Lock(ctx) },
		"red":     func(ctx context.Context) (taken, error) { return red.Lock(ctx) },
		"red try": func(ctx context.Context) (taken, error) { return red.TryLock(ctx) },
	}
	end := time.Now().Add(time.Second)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if held, err := other.Mutex("m").TryLock(ctx); err == nil {
					time.Sleep(5 * time.Millisecond)
					_ = held.Unlock(ctx)
				}
				short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
				_ = sem.Acquire(spy(short), 2)
				_ = latch.Wait(spy(short))
				cancel()
			}
		})
		for name, take := range locks {
			shared := lock.WithOwner(ctx, "owner "+name[:3])
			for _, base := range []context.Context{ctx, shared} {
				wg.Go(func() {
					for time.Now().Before(end) {
						short, cancel := context.WithTimeout(base, 20*time.Millisecond)
						if held, err := take(spy(short)); err == nil {
							again, err := take(spy(held.Context(short)))
							if err == nil {
								_ = again.Unlock(spy(short))
							}
							_ = held.Unlock(spy(short))
						}
						cancel()
					}
				})
			}
		}
	}
	wg.Wait()
}
