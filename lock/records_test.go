package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// causes are how often a test gives the reason for a record.
var causes = []int{100, 2_000}

// perMinute is the bound of a record that many locks, calls or hooks can cause.
const perMinute = 5

// manyNames returns n names of locks.
func manyNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%d", i)
	}
	return list
}

// TestManyHeldsThatAreDroppedMakeFewRecords.
func TestManyHeldsThatAreDroppedMakeFewRecords(t *testing.T) {
	fixture.Slow(t)
	for _, n := range causes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := fixture.Server(t)
			var log fixture.Log
			c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second, DropForgotten: true, Logger: log.Logger()})
			log.Flush = lock.FlushLog(c)
			began := time.Now()
			require.Greater(t, len(heldOf(c.TryLockMany(bounded.Context(t), manyNames(n)))), 10*perMinute)
			bounded.Until(t, func() bool {
				runtime.GC()
				return c.Stats().Held == 0 // none is renewed any more
			})
			minutes := 1 + int(time.Since(began)/time.Minute)
			said := strings.Count(log.String(), "a Held was dropped without Unlock")
			require.NotZero(t, said)
			require.LessOrEqual(t, said, perMinute*minutes)
		})
	}
}

// TestAHookThatAlwaysPanicsMakesFewRecords.
func TestAHookThatAlwaysPanicsMakesFewRecords(t *testing.T) {
	fixture.Slow(t)
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			var log fixture.Log
			c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger(), Hooks: lock.Hooks{Acquired: func(lock.Event) { panic("at the disco") }}})
			require.NoError(t, err)
			log.Flush = lock.FlushLog(c)
			for range n {
				held, err := c.Mutex("m").TryLock(t.Context())
				require.NoError(t, err)
				require.NoError(t, held.Unlock(t.Context()))
			}
			require.Equal(t, perMinute, strings.Count(log.String(), "a hook panicked"), "of %d", n)
			time.Sleep(time.Minute)
			held, err := c.Mutex("m").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, held.Unlock(t.Context()))
			require.Equal(t, perMinute+1, strings.Count(log.String(), "a hook panicked"))
			require.Regexp(t, fmt.Sprintf(` suppressed=%d\n$`, n-perMinute), log.String())
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// TestManyWaitsForLocksOfOneselfMakeFewRecords.
func TestManyWaitsForLocksOfOneselfMakeFewRecords(t *testing.T) {
	fixture.Slow(t)
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			var log fixture.Log
			c, err := lock.New(s.Pool(0), lock.Config{Lease: time.Minute, Logger: log.Logger()})
			require.NoError(t, err)
			log.Flush = lock.FlushLog(c)
			helds := heldOf(c.TryLockMany(t.Context(), manyNames(n)))
			require.Len(t, helds, n)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for _, name := range manyNames(n) {
				go func() { _, _ = c.Mutex(name).Lock(ctx) }()
			}
			time.Sleep(time.Minute)
			require.Equal(t, perMinute, strings.Count(log.String(), "still waiting for a lock that this client itself holds"), "of %d", n)
			require.NoError(t, errors.Join(lock.UnlockMany(t.Context(), helds)...))
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// TestACheckInALoopMakesFewRecords: a service may call Check as its health check.
func TestACheckInALoopMakesFewRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger()})
		require.NoError(t, err)
		log.Flush = lock.FlushLog(c)
		require.NoError(t, c.Check(t.Context()))
		once := strings.Count(log.String(), "Check has advice")
		require.NotZero(t, once)
		for range causes[0] {
			require.NoError(t, c.Check(t.Context()))
		}
		require.Equal(t, once, strings.Count(log.String(), "Check has advice"), "in one minute")
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestAServerThatHangsIsLogged: it still accepts connections. One client only renews, the other
// only calls.
func TestAServerThatHangsIsLogged(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, c *lock.Client){
		"renewals": func(*testing.T, *lock.Client) { time.Sleep(time.Minute) }, // one is due meanwhile
		"calls": func(t *testing.T, c *lock.Client) {
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, _ = c.Mutex("other").TryLock(ctx)
				<-ctx.Done()
				cancel()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				var log fixture.Log
				c, err := lock.New(s.Pool(0), lock.Config{Lease: 2 * time.Minute, IOTimeout: 3 * time.Second, ReleaseOnClose: true, Logger: log.Logger()})
				require.NoError(t, err)
				log.Flush = lock.FlushLog(c)
				defer fixture.CloseNow(c)
				held, err := c.Mutex("m").Lock(t.Context())
				require.NoError(t, err)
				if name == "calls" {
					require.NoError(t, held.Unlock(t.Context()))
				}
				for hang := range 10 {
					before := len(log.String())
					require.NoError(t, s.Pause())
					use(t, c)
					require.Equal(t, 1, strings.Count(log.String()[before:], "Redis did not answer in time"), "hang %d: %s", hang, log.String())
					require.NotContains(t, log.String()[before:], "answers again")
					require.NoError(t, s.Resume())
					use(t, c)
					require.Equal(t, 1, strings.Count(log.String()[before:], "lock: Redis answers again"), log.String())
					time.Sleep(time.Minute) // one comes in a minute
				}
			})
		})
	}
}
