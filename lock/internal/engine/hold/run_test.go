package hold_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
)

// busy is a Mutex m of one client, in virtual time, whose holders hand it over to waiters.
type busy struct {
	*testing.T
	s    *redistest.Server
	wire *fixture.Wire // between c and s
	c    *lock.Client
	m    *lock.Mutex
	held chan *lock.Held // from the callers of addWaiters, when they get the lock
}

// withBusy runs f in virtual time. At the beginning no lock is held.
func withBusy(t *testing.T, cfg lock.Config, f func(b *busy)) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		wire := fixture.NewWire(s)
		time.Sleep(200 * time.Millisecond) // clients look for strangers when a half second begins, and that would disturb f
		c, err := lock.New(wire.Pool(), cfg)
		require.NoError(t, err)
		b := &busy{T: t, s: s, wire: wire, c: c, m: c.Mutex("m"), held: make(chan *lock.Held, 1000)}
		fixture.Do(t, s, "SET", "wheellock_token", int64(1)<<49) // with a new counter, no tokens could be reserved for some time
		f(b)
		require.NoError(t, c.Close(context.Background()))
	})
}

// addWaiters makes n callers wait for the lock, one after the other.
func (b *busy) addWaiters(n int, take func(context.Context) (*lock.Held, error)) {
	for range n {
		go func() {
			held, err := take(context.Background())
			if err != nil {
				b.Error(err)
				return
			}
			b.held <- held
		}()
		synctest.Wait()
	}
}

// startRun returns the first holder of a run, with n waiters behind it. A script has just reserved the
// tokens of the run.
func (b *busy) startRun(n int) *lock.Held {
	first, err := b.m.Lock(context.Background())
	require.NoError(b, err)
	b.addWaiters(1+n, b.m.Lock)
	require.NoError(b, first.Unlock(context.Background()))
	return <-b.held
}

// handOver unlocks held and returns the Held of the next holder.
func (b *busy) handOver(held *lock.Held) *lock.Held {
	require.NoError(b, held.Unlock(context.Background()))
	return <-b.held
}

// field returns the only field of the lock's hash.
func (b *busy) field() (field string) {
	fields := fixture.Hash(b, b.s, "m")
	require.Len(b, fields, 1)
	for f := range fields {
		field = f
	}
	return field
}

// handOverInPause unlocks held while Redis is paused, and then ends the pause. It reports whether the
// hand-over had to wait for Redis, and returns the next holder. A hand-over in memory does not wait.
func (b *busy) handOverInPause(held *lock.Held) (pending bool, next *lock.Held) {
	require.NoError(b, b.s.Pause())
	done := make(chan error, 1)
	go func() { done <- held.Unlock(context.Background()) }()
	synctest.Wait()
	pending = len(b.held) == 0
	require.NoError(b, b.s.Resume())
	require.NoError(b, <-done)
	return pending, <-b.held
}

// TestALockIsHandedOnWithoutRedis, for 100 ms after the script that reserved tokens.
func TestALockIsHandedOnWithoutRedis(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(4)
		pending, held := b.handOverInPause(held)
		require.False(t, pending)
		time.Sleep(99 * time.Millisecond)
		pending, held = b.handOverInPause(held)
		require.False(t, pending)
		time.Sleep(2 * time.Millisecond)
		pending, held = b.handOverInPause(held)
		require.True(t, pending, "too long ago")
		require.NoError(t, held.Unlock(context.Background()))
		require.NoError(t, (<-b.held).Unlock(context.Background()))
		require.False(t, fixture.Exists(t, b.s, "m"))
	})
}

// TestTheSleepOfAMachineEndsARun: the clock of Redis goes on during the sleep, and other clients rely on
// the limit of 100 ms.
func TestTheSleepOfAMachineEndsARun(t *testing.T) {
	for _, slept := range []time.Duration{0, 99 * time.Millisecond, 101 * time.Millisecond, time.Hour} {
		withBusy(t, lock.Config{}, func(b *busy) {
			held := b.startRun(2)
			hold.Slept(in(held), slept)
			pending, held := b.handOverInPause(held)
			require.Equal(t, slept > 100*time.Millisecond, pending, "slept %v", slept)
			require.NoError(t, b.handOver(held).Unlock(context.Background()))
		})
	}
}

// TestWhatRedisSaidLongAgoIsNotHandedOn: the limit also counts for the first holder of a run, which got
// the lock by its own script.
func TestWhatRedisSaidLongAgoIsNotHandedOn(t *testing.T) {
	for _, long := range []bool{false, true} {
		withBusy(t, lock.Config{}, func(b *busy) {
			other, err := lock.New(b.s.Pool(0), lock.Config{})
			require.NoError(t, err)
			held, err := other.Mutex("m").Lock(context.Background())
			require.NoError(t, err)
			b.addWaiters(3, b.m.Lock)
			require.NoError(t, held.Unlock(context.Background()))
			held = <-b.held
			if long {
				time.Sleep(101 * time.Millisecond)
			}
			pending, held := b.handOverInPause(held)
			require.Equal(t, long, pending)
			require.NoError(t, b.handOver(held).Unlock(context.Background()))
			require.NoError(t, other.Close(context.Background()))
		})
	}
}

// TestAnotherClientThatWaitsHasItsTurnAfterARun: a run has 16 hand-overs. It has more if
// more callers of its client wait, or if they fit into a millisecond, up to 64.
func TestAnotherClientThatWaitsHasItsTurnAfterARun(t *testing.T) {
	for _, tt := range []struct {
		waiting     int
		each        time.Duration // how long a holder has the lock
		least, most int           // turns of a run
	}{
		{10, 100 * time.Microsecond, 15, 17},
		{10, 40 * time.Microsecond, 24, 27},
		{10, 0, 63, 65},
		{40, 100 * time.Microsecond, 39, 41},
		{200, 100 * time.Microsecond, 63, 65},
	} {
		withBusy(t, lock.Config{}, func(b *busy) {
			ctx := context.Background()
			other, err := lock.New(b.s.Pool(0), lock.Config{})
			require.NoError(t, err)
			held := b.startRun(tt.waiting)
			theirs := make(chan *lock.Held, 1)
			go func() {
				held, err := other.Mutex("m").Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				theirs <- held
			}()
			synctest.Wait()
			turns := 1
			for len(theirs) == 0 {
				time.Sleep(tt.each)
				require.NoError(t, held.Unlock(ctx))
				synctest.Wait()
				select {
				case held = <-b.held:
					turns++
					require.LessOrEqual(t, turns, 2*tt.most, "the run does not end")
					b.addWaiters(1, b.m.Lock)
				default:
					time.Sleep(3 * time.Millisecond) // two tries are 2 ms apart
					require.NotEmpty(t, theirs, "after %d turns nobody has it", turns)
				}
			}
			require.GreaterOrEqual(t, turns, tt.least)
			require.LessOrEqual(t, turns, tt.most)
			require.NoError(t, (<-theirs).Unlock(ctx))
			for range tt.waiting {
				require.NoError(t, (<-b.held).Unlock(ctx))
			}
			require.NoError(t, other.Close(ctx))
		})
	}
}

// TestARunGivesOutWhatWasReservedAndNoMore: the script reserves tokens for the few waiters of that time.
// Many more waiters come later, so the run needs more tokens than it has.
func TestARunGivesOutWhatWasReservedAndNoMore(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(2)
		b.addWaiters(60, b.m.Lock)
		tokens, asked := []int64{held.Token()}, 0
		for range 62 {
			pending, next := b.handOverInPause(held)
			if pending {
				asked++
			}
			held = next
			tokens = append(tokens, held.Token())
		}
		require.NoError(t, held.Unlock(context.Background()))
		require.IsIncreasing(t, tokens)
		require.NotZero(t, asked, "not all were reserved at once")
	})
}

// TestHoldersOfARunShareItsFieldAndNothingElse: every holder has a higher token than the holder before.
func TestHoldersOfARunShareItsFieldAndNothingElse(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(200)
		var fields []string
		tokens, owners := []int64{held.Token()}, map[string]bool{}
		for range 200 {
			if f := b.field(); len(fields) == 0 || fields[len(fields)-1] != f {
				require.NotContains(t, fields, f, "it is never used again")
				fields = append(fields, f)
			}
			require.True(t, b.m.HeldBy(held.Context(context.Background())))
			last := held
			held = b.handOver(held)
			require.False(t, last.Valid())
			require.ErrorIs(t, last.Err(), lock.ErrNotHeld)
			_, err := last.Guard(context.Background(), "SET", []string{"guarded"}, 1)
			require.ErrorIs(t, err, lock.ErrNotHeld)
			require.False(t, b.m.HeldBy(last.Context(context.Background())))
			require.Greater(t, held.Token(), tokens[len(tokens)-1])
			tokens = append(tokens, held.Token())
			value, err := held.Guard(context.Background(), "INCR", []string{"guarded"})
			require.NoError(t, err)
			require.EqualValues(t, len(tokens)-1, value)
			owners[fmt.Sprint(held.Token())] = true
		}
		require.Len(t, owners, 200)
		require.Less(t, len(fields), 10)
		require.Equal(t, 1, b.c.Stats().Held)
		require.NoError(t, held.Unlock(context.Background()))
		other, err := lock.New(b.s.Pool(0), lock.Config{})
		require.NoError(t, err)
		after, err := other.Mutex("m").Lock(context.Background())
		require.NoError(t, err)
		require.Greater(t, after.Token(), tokens[len(tokens)-1])
		require.NoError(t, after.Unlock(context.Background()))
		require.NoError(t, other.Close(context.Background()))
	})
}

// TestWhoIsHandedALockInMemoryIsRenewedAndTold of a loss, as a holder is that got the lock from Redis.
func TestWhoIsHandedALockInMemoryIsRenewedAndTold(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.handOver(b.startRun(2))
		time.Sleep(time.Hour)
		require.True(t, held.Valid())
		field := b.field()
		held = b.handOver(held)
		require.NotEqual(t, field, b.field())
		ok, err := b.m.ForceUnlock(context.Background())
		require.NoError(t, err)
		require.True(t, ok)
		<-held.Done()
		fixture.RequireLost(t, held, lock.NotOwner)
	})
}

// TestAKeyThatGoesInARunIsNoticedByTheNextScript. The Unlocks before that return nil, as the
// documentation of Unlock says.
func TestAKeyThatGoesInARunIsNoticedByTheNextScript(t *testing.T) {
	for _, command := range [][]any{{"DEL", "m"}, {"FLUSHALL"}} {
		withBusy(t, lock.Config{}, func(b *busy) {
			held := b.startRun(2)
			fixture.Do(t, b.s, command[0].(string), command[1:]...)
			held = b.handOver(held)
			time.Sleep(101 * time.Millisecond)
			require.ErrorIs(t, held.Unlock(context.Background()), lock.ErrLost)
			require.NoError(t, (<-b.held).Unlock(context.Background()), "the next one asks anew")
			require.False(t, fixture.Exists(t, b.s, "m"))
		})
	}
}

// TestAHoldThatIsLostWhileItIsHandedOnIsNotHandedOn: meanwhile the next waiter has taken
// the lock from Redis and unlocked it.
func TestAHoldThatIsLostWhileItIsHandedOnIsNotHandedOn(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(1)
		passed := hold.PassAfter(in(held), func() {
			_, err := b.m.ForceUnlock(context.Background())
			require.NoError(t, err)
			<-held.Done()
			require.NoError(t, (<-b.held).Unlock(context.Background()))
			require.Zero(t, hold.Callers(in(held)))
		})
		require.False(t, passed)
		require.ErrorIs(t, held.Unlock(context.Background()), lock.ErrLost)
	})
}

// TestALongLeaseIsNotHandedOn: every holder has the lease that it asked for.
func TestALongLeaseIsNotHandedOn(t *testing.T) {
	ctx := context.Background()
	for name, longer := range map[string]func(*busy, *lock.Held){
		"re-entry": func(b *busy, held *lock.Held) {
			inner, err := b.m.LockFor(held.Context(ctx), time.Hour)
			require.NoError(b, err)
			require.NoError(b, inner.Unlock(ctx))
		},
		"extension": func(b *busy, held *lock.Held) { require.NoError(b, held.Extend(ctx, time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			withBusy(t, lock.Config{}, func(b *busy) {
				held := b.startRun(2)
				longer(b, held)
				require.Greater(t, fixture.PTTL(t, b.s, "m"), int64(3_000_000))
				held = b.handOver(held)
				require.LessOrEqual(t, fixture.PTTL(t, b.s, "m"), int64(30_000))
				require.NoError(t, b.handOver(held).Unlock(ctx))
			})
		})
	}
	t.Run("LockFor", func(t *testing.T) {
		withBusy(t, lock.Config{}, func(b *busy) {
			held := b.startRun(0)
			b.addWaiters(1, func(ctx context.Context) (*lock.Held, error) { return b.m.LockFor(ctx, time.Second) })
			b.addWaiters(1, b.m.Lock)
			held = b.handOver(held)
			require.LessOrEqual(t, fixture.PTTL(t, b.s, "m"), int64(1000))
			held = b.handOver(held)
			require.Greater(t, fixture.PTTL(t, b.s, "m"), int64(10_000))
			require.NoError(t, held.Unlock(ctx))
		})
	})
}

func TestReentriesInARunCountForTheirHolderAlone(t *testing.T) {
	ctx := context.Background()
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(2)
		inner, err := b.m.Lock(held.Context(ctx))
		require.NoError(t, err)
		require.Equal(t, map[string]string{b.field(): "2"}, fixture.Hash(t, b.s, "m"))
		require.NoError(t, held.Unlock(ctx))
		require.Empty(t, b.held, "it is held once more")
		held = b.handOver(inner)
		require.Equal(t, 1, held.Count())
		require.Equal(t, map[string]string{b.field(): "1"}, fixture.Hash(t, b.s, "m"))
		require.NoError(t, b.handOver(held).Unlock(ctx))
		require.False(t, fixture.Exists(t, b.s, "m"))
	})
}

// TestAGuardThatMayStillRunKeepsItsFieldFromTheNextHolder: the command could run while the
// next holder has the lock.
func TestAGuardThatMayStillRunKeepsItsFieldFromTheNextHolder(t *testing.T) {
	ctx := context.Background()
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(2)
		field := b.field()
		require.NoError(t, b.s.Pause())
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, err := held.Guard(short, "SET", []string{"guarded"}, 1)
		require.ErrorIs(t, err, lock.ErrUnknown)
		done := make(chan error, 1)
		go func() { done <- held.Unlock(ctx) }()
		synctest.Wait()
		require.Empty(t, b.held)
		require.NoError(t, b.s.Resume())
		require.NoError(t, <-done)
		held = <-b.held
		require.NotEqual(t, field, b.field())
		require.NoError(t, b.handOver(held).Unlock(ctx))
	})
}

// TestALateAnswerKeepsItsFieldFromTheNextHolder: the answer may be that of an Extend. It comes between
// two steps of the call that has left it.
func TestALateAnswerKeepsItsFieldFromTheNextHolder(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(2)
		hold.AnsweredLate(in(held))
		pending, held := b.handOverInPause(held)
		require.True(t, pending)
		require.NoError(t, b.handOver(held).Unlock(context.Background()))
	})
}

// TestOthersOfTheFamilyAskRedisEachTime: the tokens of a FencedMutex come from Redis one by one, and with
// Config.Replicas every hold must be on replicas.
func TestOthersOfTheFamilyAskRedisEachTime(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		b.m = b.c.FencedMutex("m")
		held := b.startRun(5)
		for token := int64(3); token <= 7; token++ {
			pending, next := b.handOverInPause(held)
			require.True(t, pending)
			require.Equal(t, token, next.Token())
			held = next
		}
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// deafConn is a connection of a user without the right to subscribe.
type deafConn struct{ redis.ConnWithTimeout }

func (c deafConn) Send(command string, args ...any) error {
	if command == "SUBSCRIBE" {
		return errors.New("not permitted")
	}
	return c.ConnWithTimeout.Send(command, args...)
}

// newDeaf returns a client of s that receives no messages.
func newDeaf(s *redistest.Server, cfg lock.Config) (*lock.Client, error) {
	return lock.New(&redis.Pool{MaxIdle: 3, DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := s.DialContext(ctx)
		if err != nil {
			return nil, err
		}
		return deafConn{conn.(redis.ConnWithTimeout)}, nil
	}}, cfg)
}

// keepBusy has n callers lock and unlock until the returned function is called.
func keepBusy(t *testing.T, m *lock.Mutex, n int, hold func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				held, err := m.Lock(ctx)
				if err != nil {
					return
				}
				hold()
				if err := held.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// TestWhoHearsNothingHasItsTurnBesideABusyClient: a client without messages gets the lock within two
// MaxPolls, although Redis does not know that it waits.
func TestWhoHearsNothingHasItsTurnBesideABusyClient(t *testing.T) {
	for _, hold := range []time.Duration{100 * time.Microsecond, 5 * time.Millisecond, 70 * time.Millisecond} {
		turns := 5
		if testing.Short() && hold < time.Millisecond {
			turns = 1 // brief holds make many hand-overs, which take the race detector seconds
		}
		t.Run(hold.String(), func(t *testing.T) {
			withBusy(t, lock.Config{}, func(b *busy) {
				const poll = 500 * time.Millisecond
				ctx := context.Background()
				stop := keepBusy(t, b.m, 8, func() { time.Sleep(hold) })
				other, err := newDeaf(b.s, lock.Config{MaxPoll: poll})
				require.NoError(t, err)
				for range turns {
					time.Sleep(poll / 2)
					began := time.Now()
					held, err := other.Mutex("m").Lock(ctx)
					require.NoError(t, err)
					require.Less(t, time.Since(began), 2*poll)
					require.NoError(t, held.Unlock(ctx))
				}
				stop()
				require.NoError(t, other.Close(ctx))
			})
		})
	}
}

// TestAnotherLibraryGetsALockThatIsBusy, although it only polls.
func TestAnotherLibraryGetsALockThatIsBusy(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	defer keepBusy(t, c.Mutex("m"), 8, func() {})()
	conn := fixture.Dial(t, s)
	for range 3 {
		require.Eventually(t, func() bool {
			reply, err := conn.Do("SET", "m", "theirs", "NX", "PX", 60_000)
			require.NoError(t, err)
			return reply == "OK"
		}, time.Minute, time.Millisecond)
		fixture.DoOn(t, conn, "DEL", "m")
	}
}

func TestCloseInARunLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for {
					held, err := c.Mutex("m").Lock(ctx)
					if err != nil {
						require.ErrorIs(t, err, lock.ErrClosed)
						return
					}
					time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
					if err := held.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(time.Second)
		require.NoError(t, c.Close(ctx))
		wg.Wait()
		require.False(t, fixture.Exists(t, s, "m"))
	})
}

// TestTokensRiseThoughTheirCounterIsLostWhileVeryManyAreReserved: a hundred busy locks
// reserve tokens up to 10 ms ahead of the server's clock.
func TestTokensRiseThoughTheirCounterIsLostWhileVeryManyAreReserved(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx, cancel := context.WithTimeout(bounded.Context(t), 500*time.Millisecond)
	defer cancel()
	names := fixture.Names("busy", 100)
	highest := make([]int64, len(names)) // each guarded by its lock
	var wg sync.WaitGroup
	for i, name := range names {
		for range 3 {
			wg.Go(func() {
				for ctx.Err() == nil {
					held, err := c.Mutex(name).Lock(ctx)
					if err != nil {
						return
					}
					if held.Token() <= highest[i] {
						t.Errorf("token %d of %s after %d", held.Token(), name, highest[i])
					}
					highest[i] = held.Token()
					if err := held.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	fixture.Do(t, s, "FLUSHALL")
	for i, name := range names {
		held := fixture.Hold(t, c.Mutex(name).Lock)
		require.Greater(t, held.Token(), highest[i])
		require.NoError(t, held.Unlock(bounded.Context(t)))
	}
}

// TestABusyLockIsExactWhateverItsHoldersDo: two clients use the lock in every way,
// whether it keeps a hold from being handed over in memory or not.
func TestABusyLockIsExactWhateverItsHoldersDo(t *testing.T) {
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	sum, guarded, last := 0, 0, int64(0) // guarded by the lock
	var wg sync.WaitGroup
	clients := []*lock.Client{fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})}
	for i := range 16 {
		m, random := clients[i%2].Mutex("m"), rand.New(rand.NewPCG(1, uint64(i)))
		turn := func() error {
			take, wait := m.Lock, ctx
			switch random.IntN(8) {
			case 0:
				take = func(ctx context.Context) (*lock.Held, error) { return m.LockFor(ctx, time.Minute) }
			case 1:
				take = m.TryLock
			case 2:
				short, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(2000))*time.Microsecond)
				defer cancel()
				wait = short
			}
			held, err := take(wait)
			if err != nil {
				return nil // refused, or its time was too short
			}
			before := sum
			if held.Token() <= last {
				return fmt.Errorf("token %d after %d", held.Token(), last)
			}
			last = held.Token()
			switch random.IntN(8) {
			case 0:
				inner, err := m.Lock(held.Context(ctx))
				if err != nil {
					return err
				}
				if err := inner.Unlock(ctx); err != nil {
					return err
				}
			case 1:
				if _, err := held.Guard(ctx, "INCR", []string{"guarded"}); err != nil {
					return err
				}
				guarded++
			case 2:
				if err := held.Extend(ctx, time.Minute); err != nil {
					return err
				}
			}
			sum = before + 1
			return held.Unlock(ctx)
		}
		wg.Go(func() {
			for range 300 {
				if err := turn(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	bounded.Wait(t, &wg)
	t.Logf("%d turns, of them %d with a guard", sum, guarded)
	require.Greater(t, sum, 1000)
	require.EqualValues(t, guarded, fixture.Int(t, s, "GET", "guarded"))
	require.Eventually(t, func() bool { return !fixture.Exists(t, s, "m") }, time.Minute, time.Millisecond)
	for _, c := range clients {
		require.Eventually(t, func() bool { return c.Stats().Held == 0 }, time.Minute, time.Millisecond)
	}
}

// TestARefusalByAHoldOfThisClientHasTheRestOfItsLease, although Redis is not asked. If the
// lease is not renewed, the refusal has the time until trust ends.
func TestARefusalByAHoldOfThisClientHasTheRestOfItsLease(t *testing.T) {
	ctx := context.Background()
	const lease, margin = 30 * time.Second, 7 * time.Second
	for left, take := range map[time.Duration]func(*busy) (*lock.Held, error){
		lease:          func(b *busy) (*lock.Held, error) { return b.m.Lock(ctx) },
		lease - margin: func(b *busy) (*lock.Held, error) { return b.m.LockFor(ctx, lease) },
	} {
		withBusy(t, lock.Config{Lease: lease, Margin: margin}, func(b *busy) {
			held, err := take(b)
			require.NoError(b, err)
			b.addWaiters(1, b.m.Lock)
			_, err = b.m.TryLock(ctx)
			var refused *lock.HeldError
			require.ErrorAs(b, err, &refused)
			require.Equal(b, left, refused.TTL)
			require.NoError(b, b.handOver(held).Unlock(ctx))
		})
	}
}
