package lock_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// gate is a slog.Handler whose Handle and Enabled wait until the gate is open.
type gate struct {
	slog.Handler
	open    chan struct{}
	enabled bool // Enabled waits, too
}

func (g *gate) Enabled(ctx context.Context, level slog.Level) bool {
	if g.enabled {
		<-g.open
	}
	return g.Handler.Enabled(ctx, level)
}

func (g *gate) Handle(ctx context.Context, r slog.Record) error {
	<-g.open
	return g.Handler.Handle(ctx, r)
}

// TestALoggerThatBlocksDelaysNothing: a full pipe, or a log driver that hangs. Close waits for it
// until its context ends, and says so.
func TestALoggerThatBlocksDelaysNothing(t *testing.T) {
	for name, enabled := range map[string]bool{"Handle": false, "Enabled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				var log fixture.Log
				g := &gate{Handler: log.Logger().Handler(), open: make(chan struct{}), enabled: enabled}
				c, err := lock.New(s.Pool(0), lock.Config{Lease: 30 * time.Second, Logger: slog.New(g)})
				require.NoError(t, err)
				held, err := c.Mutex("m").Lock(t.Context())
				require.NoError(t, err)
				lost, err := c.Mutex("lost").Lock(t.Context())
				require.NoError(t, err)

				// Redis hangs when renewals are due, which is logged, and comes back.
				require.NoError(t, s.Pause())
				time.Sleep(12 * time.Second)
				require.NoError(t, s.Resume())
				time.Sleep(5 * time.Minute)
				require.True(t, held.Valid(), "it was renewed")
				require.NoError(t, held.Unlock(t.Context()))
				fixture.Do(t, s, "DEL", "lost")
				<-lost.Done()

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err = c.Close(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "lock: closed, but Config.Logger has not returned")
				require.Equal(t, time.Minute, time.Since(began), "it waits until its context ends")
				require.Empty(t, log.String())

				// The records come in order when it takes them, and nothing is left of the client.
				close(g.open)
				require.NoError(t, c.Close(t.Context()))
				said := log.String()
				require.Less(t, strings.Index(said, "Redis did not answer in time"), strings.Index(said, "Redis answers again"), said)
			})
		})
	}
}

// TestAHookThatBlocksDelaysOnlyItsOwnCall. Lost and Renewed have goroutines of their own, and Close
// waits for these until its context ends, and says so.
func TestAHookThatBlocksDelaysOnlyItsOwnCall(t *testing.T) {
	for name, hooks := range map[string]func(block func()) lock.Hooks{
		"Acquired": func(block func()) lock.Hooks { return lock.Hooks{Acquired: func(lock.Event) { block() }} },
		"Failed":   func(block func()) lock.Hooks { return lock.Hooks{Failed: func(lock.Event) { block() }} },
		"Waited":   func(block func()) lock.Hooks { return lock.Hooks{Waited: func(lock.Event) { block() }} },
		"Released": func(block func()) lock.Hooks { return lock.Hooks{Released: func(lock.Event) { block() }} },
		"Lost":     func(block func()) lock.Hooks { return lock.Hooks{Lost: func(lock.Event) { block() }} },
		"Renewed":  func(block func()) lock.Hooks { return lock.Hooks{Renewed: func(renewal.BatchReport) { block() }} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				var armed atomic.Bool
				open, blocked := make(chan struct{}), make(chan struct{}, 100)
				c, err := lock.New(s.Pool(0), lock.Config{Hooks: hooks(func() {
					if armed.Load() {
						blocked <- struct{}{}
						<-open
					}
				})})
				require.NoError(t, err)
				ctx := context.Background()
				take := func(name string) *lock.Held {
					held, err := c.Mutex(name).Lock(ctx)
					require.NoError(t, err)
					return held
				}
				kept, released, lost, others := take("kept"), take("released"), take("lost"), take("other's loss")

				// Each hook is called once, and does not return.
				armed.Store(true)
				ended := make(chan struct{}, 4)
				for _, call := range []func(){
					func() { _, _ = c.Mutex("acquired").Lock(ctx) },
					func() { _, _ = c.Mutex("kept").TryLock(ctx) },
					func() { _, _ = c.Mutex("released").Lock(ctx) },
					func() { _ = released.Unlock(ctx) },
				} {
					go func() {
						call()
						ended <- struct{}{}
					}()
					synctest.Wait()
				}
				fixture.Do(t, s, "DEL", "lost")
				<-lost.Done()
				<-blocked
				if name == "Failed" || name == "Released" {
					require.Len(t, ended, 3, "the other calls have ended")
				}

				// Renewals, the losses of others, and requests of others go on.
				time.Sleep(5 * time.Minute)
				require.True(t, kept.Valid())
				fixture.Do(t, s, "DEL", "other's loss")
				<-others.Done()
				require.True(t, fixture.Exists(t, s, "kept"))
				done := make(chan error, 1)
				go func() { done <- kept.Unlock(ctx) }()
				synctest.Wait()
				require.False(t, fixture.Exists(t, s, "kept"), "it was released")

				short, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				began := time.Now()
				err = c.Close(short)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, time.Since(began), time.Minute+3*time.Second)
				if name == "Lost" || name == "Renewed" {
					require.ErrorContains(t, err, "lock: closed, but Hooks."+name+" has not returned")
				}
				close(open)
				require.NoError(t, <-done)
			})
		})
	}
}

// TestCloseWaitsAMomentForHooksAndTheLogger, although its context has ended. It has caused the last
// calls itself.
func TestCloseWaitsAMomentForHooksAndTheLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		var told atomic.Int32
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger(), Hooks: lock.Hooks{Lost: func(lock.Event) {
			time.Sleep(time.Second)
			told.Add(1)
			panic("at the disco")
		}}})
		require.NoError(t, err)
		for _, name := range []string{"a", "b"} {
			_, err := c.Mutex(name).Lock(t.Context())
			require.NoError(t, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = c.Close(ended)
		require.ErrorContains(t, err, "closed with 2 locks held")
		require.NotContains(t, err.Error(), "has not returned")
		require.EqualValues(t, 2, told.Load())
		require.Equal(t, 2, strings.Count(log.String(), "a hook panicked"))
	})
}

// TestReportsThatASlowHookMissesAreCounted: each batch is in a report, or in Skipped of the next one.
func TestReportsThatASlowHookMissesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		open := make(chan struct{})
		reports, batches, skipped := 0, 0, 0
		c, err := lock.New(s.Pool(0), lock.Config{Lease: time.Second, Hooks: lock.Hooks{Renewed: func(r renewal.BatchReport) {
			<-open
			reports++
			batches += 1 + int(r.Skipped)
			skipped += int(r.Skipped)
		}}})
		require.NoError(t, err)
		held, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(20 * time.Minute) // 3,600 batches and more, one by one
		require.True(t, held.Valid())
		close(open)
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		require.Positive(t, skipped)
		require.Less(t, reports, 3_000, "the queue is bounded")
		require.EqualValues(t, c.Stats().Renewal.Batches, batches)
	})
}
