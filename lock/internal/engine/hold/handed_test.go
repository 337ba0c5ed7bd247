package hold_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/renewal"
)

// TestAHoldThatIsLostWhileItIsHandedOnBlocksNobody: the loss comes when the lease already
// belongs to the next hold, but the table does not have that hold yet.
func TestAHoldThatIsLostWhileItIsHandedOnBlocksNobody(t *testing.T) {
	withBusy(t, lock.Config{Lease: 3 * time.Second}, func(b *busy) {
		held := b.startRun(2)
		hold.LoseWhilePassed(in(held), func() {
			fixture.Do(t, b.s, "DEL", "m")
			time.Sleep(3 * time.Second) // long enough for a renewal, which finds the loss
			require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 1}, b.c.Stats().Renewal.Lost)
		})
		for range 2 { // the first waiter may have the lost lock; the second takes it anew
			synctest.Wait()
			require.NotEmpty(t, b.held, "nobody goes on")
			if held = <-b.held; held.Valid() {
				require.NoError(t, held.Unlock(context.Background()))
			} else {
				require.ErrorIs(t, held.Unlock(context.Background()), lock.ErrLost)
			}
		}
		require.Zero(t, b.c.Stats().Held)
	})
}

// TestAForceUnlockTellsWhoIsJustHandedTheLock: it deletes the lock during a hand-over in memory. Then the next
// hold is not yet among the holds of the client, or the lease still belongs to the hold before.
func TestAForceUnlockTellsWhoIsJustHandedTheLock(t *testing.T) {
	for at, pass := range map[string]func(x *hold.Held, force func()){
		"before the lease is passed on": func(x *hold.Held, force func()) { hold.PassAfter(x, force) }, // the loss may come first
		"after it":                      hold.LoseWhilePassed,
	} {
		t.Run(at, func(t *testing.T) {
			withBusy(t, lock.Config{}, func(b *busy) {
				held := b.startRun(1)
				hold.BeginLastUnlock(in(held))
				pass(in(held), func() {
					deleted, err := b.m.ForceUnlock(context.Background())
					require.NoError(t, err)
					require.True(t, deleted)
				})
				next := <-b.held
				time.Sleep(100 * time.Millisecond) // the next renewal comes many seconds later
				there := fixture.Exists(t, b.s, "m")
				require.Equal(t, there, next.Valid())
				if err := next.Unlock(context.Background()); !there {
					require.ErrorIs(t, err, lock.ErrLost)
				} else {
					require.NoError(t, err, "the loss was known before the waiter had the lock, so it has taken the lock anew")
				}
			})
		})
	}
}

// TestADoubtfulHoldIsHandedOverByRedis, which knows whether it still has the lock. The holds after that are not
// doubtful.
func TestADoubtfulHoldIsHandedOverByRedis(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(4)
		for _, marked := range []bool{false, true, false, false} {
			if marked {
				in(held).Hold().MarkDoubtful()
			}
			var pending bool
			pending, held = b.handOverInPause(held)
			require.Equal(t, marked, pending)
		}
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// TestWhoWaitsForALockOfItsOwnClientAsksNobody: the client knows that Redis would refuse the waiter.
func TestWhoWaitsForALockOfItsOwnClientAsksNobody(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held, err := b.m.Lock(context.Background())
		require.NoError(t, err)
		tries := b.c.Stats().Tries
		require.EqualValues(t, 1, tries)
		b.addWaiters(3, b.m.Lock)
		time.Sleep(time.Minute)
		require.Equal(t, tries, b.c.Stats().Tries)
		for range 3 {
			held = b.handOver(held)
		}
		require.NoError(t, held.Unlock(context.Background()))
		require.Equal(t, tries, b.c.Stats().Tries)
	})
}

// TestAHoldThatIsRenewedNoMoreIsHandedOnByAScript: the next holder wants another lease, which
// is renewed.
func TestAHoldThatIsRenewedNoMoreIsHandedOnByAScript(t *testing.T) {
	ctx := context.Background()
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(2)
		inner, err := b.m.LockFor(held.Context(ctx), time.Second)
		require.NoError(t, err)
		require.NoError(t, held.Unlock(ctx)) // only the Held of LockFor is left
		pending, next := b.handOverInPause(inner)
		require.True(t, pending)
		time.Sleep(time.Minute)
		require.True(t, next.Valid())
		require.NoError(t, b.handOver(next).Unlock(ctx))
		require.False(t, fixture.Exists(t, b.s, "m"))
	})
}

// TestWhoWaitsForARedLockEntersWhenItsOwnerIsHandedItsMembers: the hand-over is in
// memory, so no message tells the waiter. It learns of its owner's new holds from the clients.
func TestWhoWaitsForARedLockEntersWhenItsOwnerIsHandedItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var clients []*lock.Client
		var members []*lock.Mutex
		for range 3 {
			c, err := lock.New(fixture.Virtual(t).Pool(0), lock.Config{})
			require.NoError(t, err)
			clients, members = append(clients, c), append(members, c.Mutex("m"))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		owned := lock.WithOwner(ctx, "the same")
		lockMember := func(ctx context.Context, i int) chan *lock.Held {
			got := make(chan *lock.Held, 1)
			go func() {
				held, err := members[i].Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				got <- held
			}()
			synctest.Wait()
			return got
		}
		var before []*lock.Held
		var alone []chan *lock.Held
		for i := range members {
			require.NoError(t, (<-lockMember(ctx, i)).Unlock(ctx))
		}
		time.Sleep(time.Second) // the token counters are new
		for i := range members {
			before = append(before, <-lockMember(ctx, i))
			second := lockMember(ctx, i)
			alone = append(alone, lockMember(owned, i))
			require.NoError(t, before[i].Unlock(ctx)) // a script hands it over, and reserves tokens
			before[i] = <-second
		}
		whole := make(chan *lock.MultiHeld, 1)
		go func() {
			held, err := r.Lock(owned)
			if err != nil {
				t.Error(err)
			}
			whole <- held
		}()
		synctest.Wait()
		time.Sleep(50 * time.Millisecond) // it has asked, and listens
		began := time.Now()
		for _, held := range before {
			require.NoError(t, held.Unlock(ctx))
		}
		held := <-whole
		require.Less(t, time.Since(began), 200*time.Millisecond, "it was told, and did not look by itself")
		require.NoError(t, held.Unlock(ctx))
		for _, got := range alone {
			require.NoError(t, (<-got).Unlock(ctx))
		}
		for _, c := range clients {
			require.NoError(t, c.Close(ctx))
		}
	})
}

// TestAHoldThatIsHandedOnIsAskedForWhereItWasFound: while a slot moves, the key of a hold
// is on one of two servers. The next holder inherits from the last one where the key was found.
func TestAHoldThatIsHandedOnIsAskedForWhereItWasFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a", "b")
		c, err := lock.NewTopology(is, lock.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		ctx := context.Background()
		_, err = c.Mutex("m").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
		is.AssignSlots("a")
		b := &busy{T: t, s: is.Server("a"), c: c, m: c.Mutex("m"), held: make(chan *lock.Held, 10)}
		held, err := b.m.Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second) // the token counter is new
		require.NoError(t, held.Unlock(ctx))
		held = b.startRun(1)
		// The slot is b's, which does not have this key yet.
		is.RefuseWithASK("b", "a")
		is.AssignSlots("b")
		time.Sleep(50 * time.Millisecond)
		require.True(t, held.Valid())
		require.Positive(t, is.CountRefused())
		before := is.CountRefused()
		require.NoError(t, held.Unlock(ctx))
		held = <-b.held
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, before, is.CountRefused(), "it was not looked for on b again")
		time.Sleep(time.Minute)
		require.True(t, held.Valid())
		require.Equal(t, before, is.CountRefused())
		fixture.CloseNow(c)
	})
}

// TestAReleaseLetsTheNextOfTheSameClientGoOnAtOnce, although no message reaches the client
// and the next poll of the waiter is far away.
func TestAReleaseLetsTheNextOfTheSameClientGoOnAtOnce(t *testing.T) {
	ctx := context.Background()
	type locking func(context.Context) (unlock func() error, err error)
	held := func(take func(context.Context) (*lock.Held, error)) locking {
		return func(ctx context.Context) (func() error, error) {
			held, err := take(ctx)
			return func() error { return held.Unlock(ctx) }, err
		}
	}
	for name, of := range map[string]func(*testing.T, *lock.Client) (first, second locking){
		"permits": func(t *testing.T, c *lock.Client) (first, second locking) {
			p := c.PermitSemaphore("p")
			_, err := p.TrySet(ctx, 1)
			require.NoError(t, err)
			take := held(func(ctx context.Context) (*lock.Held, error) { return p.Acquire(ctx, 1) })
			return take, take
		},
		"semaphore": func(t *testing.T, c *lock.Client) (first, second locking) {
			s := c.Semaphore("s")
			_, err := s.TrySet(ctx, 1)
			require.NoError(t, err)
			take := func(ctx context.Context) (func() error, error) {
				return func() error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
			}
			return take, take
		},
		"a reader before a writer": func(t *testing.T, c *lock.Client) (first, second locking) {
			rw := c.RWMutex("rw")
			return held(rw.Reader().Lock), held(rw.Writer().Lock)
		},
		"a writer before a reader": func(t *testing.T, c *lock.Client) (first, second locking) {
			rw := c.RWMutex("rw")
			return held(rw.Writer().Lock), held(rw.Reader().Lock)
		},
		"a writer before a writer": func(t *testing.T, c *lock.Client) (first, second locking) {
			rw := c.RWMutex("rw")
			return held(rw.Writer().Lock), held(rw.Writer().Lock)
		},
		"a mutex": func(t *testing.T, c *lock.Client) (first, second locking) {
			return held(c.Mutex("m").Lock), held(c.Mutex("m").Lock)
		},
		"a mutex before a fenced one": func(t *testing.T, c *lock.Client) (first, second locking) { // it is not handed over
			return held(c.Mutex("m").Lock), held(c.FencedMutex("m").Lock)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const poll = 10 * time.Second
				c, err := newDeaf(fixture.Virtual(t), lock.Config{MaxPoll: poll, Lease: time.Hour})
				require.NoError(t, err)
				first, second := of(t, c)
				unlock, err := first(ctx)
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() {
					unlock, err := second(ctx)
					if err == nil {
						err = unlock()
					}
					done <- err
				}()
				time.Sleep(poll / 10) // it has asked Redis
				released := time.Now()
				require.NoError(t, unlock())
				require.NoError(t, <-done)
				require.Less(t, time.Since(released), poll/100)
				require.NoError(t, c.Close(ctx))
			})
		})
	}
}

// TestATryTellsTheFirstInLineWhatItHasHeard: a TryLock asks while a reader waits. Its refusal says that
// the lease of the writer ends sooner than the waiting reader knows.
func TestATryTellsTheFirstInLineWhatItHasHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const poll = 10 * time.Minute
		s, ctx := fixture.Virtual(t), context.Background()
		before, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		_, err = before.RWMutex("rw").Writer().LockFor(ctx, time.Hour)
		require.NoError(t, err)
		c, err := newDeaf(s, lock.Config{MaxPoll: poll, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		got := make(chan *lock.Held, 1)
		go func() {
			held, err := c.RWMutex("rw").Reader().Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
		time.Sleep(10 * time.Second) // it has asked
		fixture.Do(t, s, "PEXPIRE", "rw", 1000)
		_, err = c.RWMutex("rw").Reader().TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		tried := time.Now()
		held := <-got
		require.Less(t, time.Since(tried), 2*time.Second)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, c.Close(ctx))
		fixture.CloseNow(before)
	})
}
