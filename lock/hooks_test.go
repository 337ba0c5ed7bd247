package lock_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

func TestHooksTellTheLifeOfALock(t *testing.T) {
	s := onRedis(t)
	var mu sync.Mutex
	var events []string
	note := func(what string) func(lock.Event) {
		return func(e lock.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf("%s %s %t %v", what, e.Name, e.Token > 0, e.Err))
		}
	}
	c := fixture.ClientOf(t, s, lock.Config{Lease: 300 * time.Millisecond, Hooks: lock.Hooks{
		Acquired: note("acquired"), Waited: note("waited"), Released: note("released"), Lost: note("lost"),
	}})
	ctx := bounded.Context(t)
	first := fixture.Hold(t, c.Mutex("h").Lock)
	inner, err := c.Mutex("h").Lock(first.Context(ctx)) // no event: it is the same hold
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	wg := fixture.InTurn(t, c, "h", 1, func(*lock.Held) {})
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, first.Unlock(ctx))
	bounded.Wait(t, wg)
	lost := fixture.Hold(t, c.Mutex("h").Lock)
	fixture.Do(t, s, "DEL", "h")
	bounded.Receive(t, lost.Done())
	fixture.CloseNow(c) // the last event has come
	mu.Lock()
	defer mu.Unlock()
	require.ElementsMatch(t, []string{
		"acquired h true <nil>", "released h true <nil>",
		"waited h true <nil>", "acquired h true <nil>", "released h true <nil>",
		"acquired h true <nil>", `lost h true lock: "h" is lost: not the owner any more: stop the work that needs the lock, because another owner may have it`,
	}, events)
}

// TestAcquiredIsToldOfEachHoldOnce: also when another call of its owner is faster than the
// one that has taken it.
func TestAcquiredIsToldOfEachHoldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		told, proceed := make(chan lock.Event, 10), make(chan struct{})
		c, err := lock.New(s.Pool(0), lock.Config{Hooks: lock.Hooks{
			Acquired: func(e lock.Event) { told <- e },
			Waited:   func(lock.Event) { <-proceed }, // it comes first
		}})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		m, ctx := c.Mutex("m"), lock.WithOwner(context.Background(), "owner")
		first := fixture.Hold(t, m.Lock)
		require.Equal(t, first.Token(), (<-told).Token)
		outer := make(chan *lock.Held, 1)
		go func() {
			held, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			outer <- held
		}()
		synctest.Wait()
		require.NoError(t, first.Unlock(ctx))
		synctest.Wait() // it has the lock, and does not know yet
		inner, err := m.TryLock(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, inner.Count())
		close(proceed)
		held := <-outer
		require.Len(t, told, 1)
		require.Equal(t, held.Token(), (<-told).Token)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, inner.Unlock(ctx))
		require.Empty(t, told)
	})
}

func TestTheRenewedHookIsToldOfEachBatch(t *testing.T) {
	s := onRedis(t)
	var renewed atomic.Int64
	c := fixture.ClientOf(t, s, lock.Config{
		Lease: 300 * time.Millisecond,
		Hooks: lock.Hooks{Renewed: func(r renewal.BatchReport) {
			renewed.Add(int64(r.Renewed))
			panic("not to be felt by the next one")
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	bounded.Until(t, func() bool { return renewed.Load() >= 3 })
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestAHookThatPanicsIsLogged(t *testing.T) {
	s := onRedis(t)
	var log fixture.Log
	c := fixture.ClientOf(t, s, lock.Config{
		Logger: log.Logger(),
		Hooks:  lock.Hooks{Acquired: func(lock.Event) { panic("at the disco") }},
	})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	fixture.CloseNow(c)
	require.Contains(t, log.String(), "at the disco")
}
