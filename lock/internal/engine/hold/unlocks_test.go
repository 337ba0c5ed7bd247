package hold_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
)

// lock takes the lock of that name, for an owner that may take it again.
func (b *busy) lock(name string) *lock.Held {
	held, err := b.c.Mutex(name).LockFor(lock.WithOwner(context.Background(), "owner"), time.Hour)
	require.NoError(b, err)
	return held
}

// TestAServerIsSilentUnlessRedisAnswersAnUnlock: while one Unlock gets no answer, another one ends. If Redis
// had to answer for that, the server is not silent, and later Unlocks wait for it. The time is virtual.
func TestAServerIsSilentUnlessRedisAnswersAnUnlock(t *testing.T) {
	for name, w := range map[string]struct {
		answers bool
		unlock  func(b *busy, u *hold.Unlocks)
	}{
		"nothing else": {false, func(*busy, *hold.Unlocks) {}},
		"released": {true, func(b *busy, u *hold.Unlocks) {
			require.NoError(b, u.Unlock(b.Context(), in(b.lock("x"))))
		}},
		"found to be lost": {true, func(b *busy, u *hold.Unlocks) {
			x := b.lock("x")
			fixture.Do(b, b.s, "FLUSHALL")
			require.ErrorIs(b, u.Unlock(b.Context(), in(x)), lock.ErrLost)
		}},
		"refused": {true, func(b *busy, u *hold.Unlocks) {
			x := b.lock("x")
			synctest.Wait() // the connection for renewals is dialled
			b.wire.Refuse("NOPERM no")
			require.ErrorContains(b, u.Unlock(b.Context(), in(x)), "NOPERM")
		}},
		"one of two": {true, func(b *busy, u *hold.Unlocks) {
			x, last := b.lock("x"), b.lock("x")
			require.NoError(b, u.Unlock(b.Context(), in(x)))
			require.NoError(b, last.Unlock(b.Context()))
		}},
		"one of two, refused": {true, func(b *busy, u *hold.Unlocks) {
			x, last := b.lock("x"), b.lock("x")
			synctest.Wait() // the connection for renewals is dialled
			b.wire.Refuse("NOPERM no")
			require.ErrorContains(b, u.Unlock(b.Context(), in(x)), "NOPERM")
			require.NoError(b, last.Unlock(b.Context()))
		}},
		"one of two, found to be lost": {true, func(b *busy, u *hold.Unlocks) {
			x, _ := b.lock("x"), b.lock("x")
			fixture.Do(b, b.s, "FLUSHALL")
			require.ErrorIs(b, u.Unlock(b.Context(), in(x)), lock.ErrLost)
		}},
		"known to be lost": {false, func(b *busy, u *hold.Unlocks) {
			x := b.lock("x")
			hold.EndLease(in(x))
			require.ErrorIs(b, u.Unlock(b.Context(), in(x)), lock.ErrLost)
		}},
		"unlocked before": {false, func(b *busy, u *hold.Unlocks) {
			x := b.lock("x")
			require.NoError(b, x.Unlock(b.Context()))
			require.ErrorIs(b, u.Unlock(b.Context(), in(x)), lock.ErrNotHeld)
		}},
		"given back before by the last Unlock": {false, func(b *busy, u *hold.Unlocks) {
			x, last := b.lock("x"), b.lock("x")
			end := hold.TakeTurn(in(x))
			ended, cancel := context.WithDeadline(context.Background(), time.Now())
			defer cancel()
			require.ErrorIs(b, hold.UnlockWithin(ended, in(x)), lock.ErrUnknown)
			require.ErrorIs(b, hold.UnlockWithin(ended, in(last)), lock.ErrUnknown)
			end()
			require.NoError(b, u.Unlock(b.Context(), in(x)))
		}},
		"handed over in memory": {false, func(b *busy, u *hold.Unlocks) {
			x := b.startRun(1)
			require.NoError(b, b.s.Pause())
			require.NoError(b, u.Unlock(b.Context(), in(x)))
			require.NoError(b, b.s.Resume())
			require.NoError(b, (<-b.held).Unlock(b.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withBusy(t, lock.Config{}, func(b *busy) {
				var u hold.Unlocks
				// FLUSHALL takes these two also, but their Unlocks do not ask Redis.
				stuck, later := b.lock("stuck"), b.lock("later")
				end := hold.TakeTurn(in(stuck))
				defer end()
				done := make(chan error, 1)
				go func() { done <- u.Unlock(b.Context(), in(stuck)) }()
				synctest.Wait()
				w.unlock(b, &u)
				require.ErrorIs(b, <-done, lock.ErrUnknown)
				endLater := hold.TakeTurn(in(later))
				defer endLater()
				began := time.Now()
				require.ErrorIs(b, u.Unlock(b.Context(), in(later)), lock.ErrUnknown)
				require.Equal(b, w.answers, time.Since(began) > 0, "it waits for the server")
			})
		})
	}
}

// TestAnUnlockThatNeedsNoAnswerMakesNoServerSilent: its hook takes longer than an Unlock may wait for Redis.
func TestAnUnlockThatNeedsNoAnswerMakesNoServerSilent(t *testing.T) {
	hooked := false
	cfg := lock.Config{Hooks: lock.Hooks{Released: func(lock.Event) {
		if hooked {
			time.Sleep(time.Minute)
		}
	}}}
	withBusy(t, cfg, func(b *busy) {
		var u hold.Unlocks
		later, x := b.lock("later"), b.startRun(1)
		hooked = true
		require.NoError(b, u.Unlock(b.Context(), in(x)))
		hooked = false
		require.NoError(b, (<-b.held).Unlock(b.Context()))
		end := hold.TakeTurn(in(later))
		defer end()
		began := time.Now()
		require.ErrorIs(b, u.Unlock(b.Context(), in(later)), lock.ErrUnknown)
		require.Positive(b, time.Since(began), "it waits for the server")
	})
}

// TestAnAnswerCountsBeforeTheHooksOfItsUnlock, which may be slow. Until they return, no other answer may come.
func TestAnAnswerCountsBeforeTheHooksOfItsUnlock(t *testing.T) {
	const slow = time.Hour
	cfg := lock.Config{Hooks: lock.Hooks{Released: func(e lock.Event) {
		if e.Name == "slow" {
			time.Sleep(slow)
		}
	}}}
	withBusy(t, cfg, func(b *busy) {
		var u hold.Unlocks
		answered, stuck, later := b.lock("slow"), b.lock("stuck"), b.lock("later")
		end := hold.TakeTurn(in(stuck))
		defer end()
		done := make(chan error, 2)
		go func() { done <- u.Unlock(b.Context(), in(stuck)) }()
		synctest.Wait()
		go func() { done <- u.Unlock(b.Context(), in(answered)) }()
		require.ErrorIs(b, <-done, lock.ErrUnknown)
		endLater := hold.TakeTurn(in(later))
		defer endLater()
		began := time.Now()
		require.ErrorIs(b, u.Unlock(b.Context(), in(later)), lock.ErrUnknown)
		require.Positive(b, time.Since(began), "it waits for the server")
		require.NoError(b, <-done)
	})
}

// TestAnUnlockThatGaveUpKeepsNobodyWaiting: a renewal of the hold is being written for long, so the Unlock does not
// return. A TryLock of the same owner that came before does not wait for that.
func TestAnUnlockThatGaveUpKeepsNobodyWaiting(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := lock.WithOwner(context.Background(), "owner")
		x, err := b.m.Lock(ctx)
		require.NoError(b, err)
		time.Sleep(15 * time.Second) // one renewal has made its connection
		b.wire.Stall(12 * time.Second)
		time.Sleep(10 * time.Second)
		b.wire.Stall(0)
		end := hold.TakeTurn(in(x))
		tried, unlocked := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := b.m.TryLock(ctx)
			tried <- err
		}()
		synctest.Wait()
		go func() {
			ended, cancel := context.WithDeadline(context.Background(), time.Now())
			defer cancel()
			unlocked <- hold.UnlockWithin(ended, in(x))
		}()
		synctest.Wait()
		require.Empty(b, unlocked)
		end()
		began := time.Now()
		require.ErrorIs(b, <-tried, lock.ErrNotAcquired)
		require.Zero(b, time.Since(began))
		require.ErrorIs(b, <-unlocked, lock.ErrUnknown)
	})
}

// TestACloseThatReleasesWaitsForALateCopyOfAFairTake: an earlier request of the waiter is carried out after the
// release, and takes the field again.
func TestACloseThatReleasesWaitsForALateCopyOfAFairTake(t *testing.T) {
	withBusy(t, lock.Config{ReleaseOnClose: true}, func(b *busy) {
		x, err := b.c.FairMutex("m").Lock(context.Background())
		require.NoError(b, err)
		hold.NoteOpenUntil(in(x), time.Now().Add(2*time.Second))
		field := b.field()
		go func() {
			time.Sleep(time.Second)
			fixture.Do(b, b.s, "HSET", "m", field, 1)
		}()
		ended, cancel := context.WithDeadline(context.Background(), time.Now())
		defer cancel()
		require.ErrorContains(b, b.c.Close(ended), "1 were released, 0 are left to their TTL")
		time.Sleep(time.Second)
		require.False(b, fixture.Exists(b, b.s, "m"))
	})
}

func TestCloseWaitsForALostRequestLongerThanUnlockTimeout(t *testing.T) {
	withBusy(t, lock.Config{ReleaseOnClose: true, Connections: 1, IOTimeout: 3 * time.Second}, func(b *busy) {
		x, err := b.m.TryLock(context.Background())
		require.NoError(b, err)
		require.NoError(b, x.Unlock(context.Background()))
		fixture.Do(b, b.s, "HSET", "m", "another:1", 1)
		fixture.Do(b, b.s, "PEXPIRE", "m", 100_000)
		synctest.Wait() // the connection for renewals is dialled
		b.wire.LoseAnswer()
		_, err = b.m.TryLock(context.Background())
		require.ErrorIs(b, err, lock.ErrUnknown)
		require.NoError(b, b.c.Close(context.Background()))
	})
}

// TestACloseAfterARefusalDoesNotWait: Redis has refused to take the lock, because its memory is full, and has
// answered everything. The release of a fair waiter's field does not say whether it found the field.
func TestACloseAfterARefusalDoesNotWait(t *testing.T) {
	withBusy(t, lock.Config{ReleaseOnClose: true}, func(b *busy) {
		m := b.c.FairMutex("m")
		held, err := m.Lock(context.Background())
		require.NoError(b, err)
		require.NoError(b, held.Unlock(context.Background()))
		synctest.Wait() // the connection for renewals is dialled
		b.wire.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
		_, err = m.TryLock(context.Background())
		require.ErrorContains(b, err, "OOM")
		synctest.Wait()
		began := time.Now()
		require.NoError(b, b.c.Close(context.Background()))
		require.Less(b, time.Since(began), time.Second)
	})
}
