package lock_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestTheFirstFairWaiterHasTheLockWhenTheLeaseEnds, wherever in a millisecond it
// looks: a TTL of 0 says that the lease ends now, not that its end is unknown.
func TestTheFirstFairWaiterHasTheLockWhenTheLeaseEnds(t *testing.T) {
	const lease = 3 * time.Second
	for _, after := range []time.Duration{0, time.Microsecond, 500 * time.Microsecond, 999 * time.Microsecond, 1700 * time.Millisecond} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := startVirtualFair(t)
				c := v.client(lock.Config{})
				v.do("HSET", "m", javaOwner, 1)
				v.do("PEXPIRE", "m", lease.Milliseconds())
				end := time.Now().Add(lease)
				time.Sleep(after)
				held, err := c.FairMutex("m").Lock(context.Background())
				require.NoError(t, err)
				require.False(t, time.Now().Before(end))
				require.Less(t, time.Since(end), 10*time.Millisecond)
				require.NoError(t, held.Unlock(context.Background()))
			})
		})
	}
}

// queue returns the fields of the waiters for m, in their order.
func (v *virtualFair) queue() []string { return queueOf(v.t, v.s, "m") }

// javaHoldsForAYear makes a Redisson thread the holder of m, for longer than any test lasts.
func (v *virtualFair) javaHoldsForAYear() {
	v.do("HSET", "m", javaOwner, 1)
	v.do("PEXPIRE", "m", (24 * 365 * time.Hour).Milliseconds())
}

// startWaiter lets a FairMutex of c wait for m. It returns the waiter's field, a function that ends
// the wait, and a channel for the Held, which is nil if the wait was ended.
func (v *virtualFair) startWaiter(c *lock.Client) (field string, leave func(), got chan *lock.Held) {
	before := v.queue()
	ctx, cancel := context.WithCancel(context.Background())
	got = make(chan *lock.Held, 1)
	go func() {
		held, _ := c.FairMutex("m").Lock(ctx)
		got <- held
	}()
	synctest.Wait()
	after := v.queue()
	require.Len(v.t, after, len(before)+1)
	return after[len(before)], cancel, got
}

// receiveHeld returns the Held of a waiter, which must get the lock within a minute.
func (v *virtualFair) receiveHeld(got chan *lock.Held) *lock.Held {
	select {
	case held := <-got:
		require.NotNil(v.t, held)
		return held
	case <-time.After(time.Minute):
		require.Fail(v.t, "a waiter did not get the lock")
		return nil
	}
}

// addDead puts a dead waiter into the queue. sign is its last sign of life.
func (v *virtualFair) addDead(field, sign string) {
	queue, scores, signs, _ := fairKeys("m")
	v.do("RPUSH", queue, field)
	v.do("ZADD", scores, time.Now().Add(time.Hour).UnixMilli(), field)
	v.do("HSET", signs, field, sign)
}

// TestFairWaitersWithOtherPeriodsKeepTheirPlaces: one waiter gives a sign of life every
// 20 ms, the others every 2 s.
func TestFairWaitersWithOtherPeriodsKeepTheirPlaces(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		slow := v.client(lock.Config{})
		quick := v.client(lock.Config{Lease: 100 * time.Millisecond, MaxPoll: 20 * time.Millisecond})
		first, _, gotFirst := v.startWaiter(slow)
		second, _, gotSecond := v.startWaiter(slow)
		third, leave, gotThird := v.startWaiter(quick)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
			require.Equal(t, []string{first, second, third}, v.queue(), "all of them live")
		}
		// The quick waiter leaves. The others must not be judged by its period.
		leave()
		require.Nil(t, <-gotThird)
		synctest.Wait()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
			require.Equal(t, []string{first, second}, v.queue(), "those who wait longer live on")
		}
		v.do("DEL", "m")
		held := v.receiveHeld(gotFirst)
		require.NoError(t, held.Unlock(context.Background()))
		held = v.receiveHeld(gotSecond)
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// TestADeadFairWaiterIsPassedAfterThreePeriodsOfItsOwn, whatever the period of
// the waiter behind it. A period counts as two seconds at most.
func TestADeadFairWaiterIsPassedAfterThreePeriodsOfItsOwn(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	const second = time.Second
	for sign, period := range map[string]time.Duration{
		"7":                        2 * second, // of a client that names no period
		"7/2000":                   2 * second,
		"7/500":                    second / 2,
		"7/0":                      0,
		"7/-5":                     0,
		"7/3600000":                2 * second,
		"7/99999999999999999999":   2 * second,
		"7/":                       2 * second,
		"7/abc":                    2 * second,
		"the last words of a dead": 2 * second,
	} {
		for _, poll := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 5 * second} {
			t.Run(fmt.Sprint(sign, poll), func(t *testing.T) {
				if fixture.IsBrief() && poll < second/10 {
					t.Skip("WHEELLOCK_FAULTS=all, for it takes seconds")
				}
				synctest.Test(t, func(t *testing.T) {
					v := startVirtualFair(t)
					v.javaHoldsForAYear()
					v.addDead("dead", sign)
					alive, _, got := v.startWaiter(v.client(lock.Config{MaxPoll: poll}))
					since := time.Now()
					for len(v.queue()) == 2 {
						require.Less(t, time.Since(since), time.Minute)
						time.Sleep(10 * time.Millisecond)
					}
					took, looks := time.Since(since), min(poll, 2*second)
					require.Equal(t, []string{alive}, v.queue())
					require.GreaterOrEqual(t, took, 3*period-looks)
					require.LessOrEqual(t, took, 3*(period+looks)+second/10)
					v.do("DEL", "m")
					held := v.receiveHeld(got)
					require.NoError(t, held.Unlock(context.Background()))
				})
			})
		}
	}
}

// TestAnOutageOfRedisMakesNoFairWaiterDead, although no waiter can give a sign of life meanwhile.
func TestAnOutageOfRedisMakesNoFairWaiterDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		var gots []chan *lock.Held
		for _, poll := range []time.Duration{5 * time.Second, 300 * time.Millisecond, 5 * time.Second} {
			_, _, got := v.startWaiter(v.client(lock.Config{MaxPoll: poll}))
			gots = append(gots, got)
		}
		for _, length := range []time.Duration{700 * time.Millisecond, 3 * time.Second, 5 * time.Second} {
			require.NoError(t, v.s.Pause())
			time.Sleep(length)
			require.NoError(t, v.s.Resume())
			time.Sleep(20 * time.Second)
			require.Len(t, v.queue(), 3)
		}
		v.do("DEL", "m")
		for _, got := range gots {
			held := v.receiveHeld(got)
			require.NoError(t, held.Unlock(context.Background()))
		}
	})
}

// TestAFairWaiterThatComesBackAfterAnOutageIsNotDead: the time in which Redis did not answer does not
// count, so the waiter has three periods after it.
func TestAFairWaiterThatComesBackAfterAnOutageIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		v.addDead("slow", "7/2000")
		second, leave, got := v.startWaiter(v.client(lock.Config{}))
		_, _, signs, _ := fairKeys("m")
		time.Sleep(time.Second) // the second waiter has asked which waiter is the first
		before := fixture.Hash(t, v.s, signs)[second]
		require.NoError(t, v.s.Pause())
		time.Sleep(10 * time.Second)
		require.NoError(t, v.s.Resume())
		for fixture.Hash(t, v.s, signs)[second] == before {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		require.Len(t, v.queue(), 2)
		require.Equal(t, "slow", v.queue()[0])
		for sign := range 10 {
			v.do("HSET", signs, "slow", fmt.Sprintf("%d/2000", 8+sign))
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, "slow", v.queue()[0], "it lives")
		require.Len(t, v.queue(), 2, second)
		leave()
		require.Nil(t, <-got)
	})
}

// TestTheFirstFairWaiterLooksSoonWhetherAnotherLibrarysLockIsGone, because the other
// library publishes no message.
func TestTheFirstFairWaiterLooksSoonWhetherAnotherLibrarysLockIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.do("SET", "m", "theirs", "PX", 60_000)
		_, _, got := v.startWaiter(v.client(lock.Config{}))
		time.Sleep(5 * time.Second)
		v.do("DEL", "m")
		gone := time.Now()
		held := v.receiveHeld(got)
		require.Less(t, time.Since(gone), 300*time.Millisecond)
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// TestACallOfAFairMutexIsToldWhenItsOwnerIsHandedTheLock, because it
// would wait for a lock of its own owner for ever.
func TestACallOfAFairMutexIsToldWhenItsOwnerIsHandedTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		c := v.client(lock.Config{})
		before, err := c.Mutex("m").Lock(context.Background())
		require.NoError(t, err)
		ctx := lock.WithOwner(context.Background(), "the same")
		got, refused := make(chan *lock.Held, 1), make(chan error, 1)
		go func() {
			held, _ := c.Mutex("m").Lock(ctx)
			got <- held
		}()
		go func() {
			_, err := c.FairMutex("m").Lock(ctx)
			refused <- err
		}()
		synctest.Wait()
		require.NoError(t, before.Unlock(context.Background()))
		held := v.receiveHeld(got)
		synctest.Wait()
		require.Len(t, refused, 1)
		require.ErrorContains(t, <-refused, "another kind of lock")
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// crowd lets n callers of c wait for m, one after the other, until leave is called.
func (v *virtualFair) crowd(c *lock.Client, n int) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if held, err := c.FairMutex("m").Lock(ctx); err == nil {
				_ = held.Unlock(context.Background())
			}
		})
		synctest.Wait()
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// signs returns when each waiter gave its last sign of life, by the server's clock.
func (v *virtualFair) signs() map[string]time.Time {
	_, _, signs, _ := fairKeys("m")
	all := map[string]time.Time{}
	for field, sign := range fixture.Hash(v.t, v.s, signs) {
		_, at, _ := strings.Cut(sign, "@")
		at, _, _ = strings.Cut(at, "/")
		ms, err := strconv.ParseInt(at, 10, 64)
		require.NoError(v.t, err, sign)
		all[field] = time.UnixMilli(ms)
	}
	return all
}

// TestAFairWaiterKeepsItsFieldAfterAnOutage: a waiter with another field would have to look for
// its place, which is a walk along the queue.
func TestAFairWaiterKeepsItsFieldAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		leave := v.crowd(v.client(lock.Config{}), 5)
		before := v.queue()
		for range 3 {
			require.NoError(t, v.s.Pause())
			time.Sleep(3 * time.Second)
			require.NoError(t, v.s.Resume())
			time.Sleep(5 * time.Second)
			require.Equal(t, before, v.queue())
		}
		for field, at := range v.signs() {
			require.Less(t, time.Since(at), 3*time.Second, field)
		}
		leave()
		synctest.Wait()
		require.Empty(t, v.queue())
	})
}

// TestSignsOfLifeOfOneClientGoTogether: the first in the queue alone sends the script that takes
// the lock.
func TestSignsOfLifeOfOneClientGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		const waiters = 300 // more than fit into one request
		c := v.client(lock.Config{})
		leave := v.crowd(c, waiters)
		time.Sleep(3 * time.Second)
		before := c.Stats().Tries
		for range 5 {
			time.Sleep(4 * time.Second)
			signs := v.signs()
			require.Len(t, signs, waiters)
			for field, at := range signs {
				require.Less(t, time.Since(at), 2100*time.Millisecond, field)
				require.Greater(t, scoreOf(t, v.s, "m", field), float64(time.Now().Add(8*time.Second).UnixMilli()))
			}
		}
		require.LessOrEqual(t, c.Stats().Tries-before, uint64(12))
		leave()
	})
}

// TestAServerThatStallsGetsOneRequestOfAllFairWaiters, and not one of each.
func TestAServerThatStallsGetsOneRequestOfAllFairWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		const waiters = 200
		c := v.client(lock.Config{})
		leave := v.crowd(c, waiters)
		before := v.queue()
		unanswered, tries := c.Stats().Unanswered, c.Stats().Tries
		const length = 10 * time.Second
		require.NoError(t, v.s.Pause())
		time.Sleep(length)
		require.LessOrEqual(t, c.Stats().Unanswered-unanswered, uint64(2*length/lock.DefaultIOTimeout))
		require.LessOrEqual(t, c.Stats().Tries-tries, uint64(length/lock.DefaultIOTimeout))
		require.NoError(t, v.s.Resume())
		time.Sleep(5 * time.Second)
		require.Equal(t, before, v.queue())
		for field, at := range v.signs() {
			require.Less(t, time.Since(at), 2100*time.Millisecond, field)
		}
		leave()
	})
}

// TestOneFairWaiterPassesADeadOneForAll of its client, after three periods of the dead one.
func TestOneFairWaiterPassesADeadOneForAll(t *testing.T) {
	for _, waiters := range []int{1, 100} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) { oneFairWaiterPassesADeadOne(t, waiters) })
	}
}

func oneFairWaiterPassesADeadOne(t *testing.T, waiters int) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		v.addDead("dead", "7/2000")
		_, scores, _, _ := fairKeys("m")
		v.do("ZADD", scores, time.Now().Add(10*time.Second).UnixMilli(), "dead") // as its last sign has left it
		c := v.client(lock.Config{})
		leave := v.crowd(c, waiters)
		tries := c.Stats().Tries
		for began := time.Now(); v.queue()[0] == "dead"; time.Sleep(10 * time.Millisecond) {
			require.Less(t, time.Since(began), 9*time.Second)
		}
		require.LessOrEqual(t, c.Stats().Tries-tries, uint64(3))
		leave()
	})
}

// TestADeadFairWaiterIsPassedThoughSignsComeSooner than its periods end, because answers get faster.
func TestADeadFairWaiterIsPassedThoughSignsComeSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.NewServer(t)
		queue, scores, signs, _ := fairKeys("m")
		for _, command := range [][]any{
			{"HSET", "m", javaOwner, 1},
			{"PEXPIRE", "m", time.Hour.Milliseconds()},
			{"RPUSH", queue, "dead"},
			{"ZADD", scores, time.Now().Add(10 * time.Second).UnixMilli(), "dead"},
			{"HSET", signs, "dead", "7@1/2000"},
		} {
			_, err := s.Do(command[0].(string), command[1:]...)
			require.NoError(t, err)
		}
		const slowest = 100 * time.Millisecond
		s.SetDelay(slowest)
		ctx, cancel := context.WithCancel(context.Background())
		c, done := s.Client(lock.Config{}), make(chan struct{})
		go func() {
			_, _ = c.FairMutex("m").Lock(ctx)
			close(done)
		}()
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			s.SetDelay(slowest - time.Since(began)/200)
			if first, err := redis.String(s.Do("LINDEX", queue, 0)); err == nil && first != "dead" {
				break
			}
			require.Less(t, time.Since(began), 11*time.Second)
		}
		cancel()
		<-done
	})
}

// TestSignsOfLifeAreSentInGroups, although each waiter came at another time.
func TestSignsOfLifeAreSentInGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.NewServer(t)
		s.SetDelay(5 * time.Millisecond)
		link := s.Link()
		c := link.Client(lock.Config{})
		held, err := c.FairMutex("m").Lock(context.Background())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() { _, _ = c.FairMutex("m").Lock(ctx) })
			time.Sleep(7 * time.Millisecond)
		}
		before := link.Calls()["fair_sign"]
		time.Sleep(20 * time.Second) // ten periods, of which each has 16 groups
		require.InDelta(t, 10*16, link.Calls()["fair_sign"]-before, 10*16*3/2)
		cancel()
		wg.Wait()
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// TestAFailFastFairWaiterHearsOfAnOutage, although it asks with others.
func TestAFailFastFairWaiterHearsOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.javaHoldsForAYear()
		c := v.client(lock.Config{FailFast: true})
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() {
				_, err := c.FairMutex("m").Lock(context.Background())
				errs <- err
			}()
			synctest.Wait()
		}
		require.NoError(t, v.s.Pause())
		began := time.Now()
		for range cap(errs) {
			require.ErrorIs(t, <-errs, lock.ErrUnknown)
		}
		require.Less(t, time.Since(began), 5*time.Second)
		require.NoError(t, v.s.Resume())
	})
}

// TestManyFairWaitersStandBesideOneOfRedissons: what a server answers is bounded where the library
// dials, and then the answer has news for each of them.
func TestManyFairWaitersStandBesideOneOfRedissons(t *testing.T) {
	s := onRedis(t)
	key := fixture.KeyOf(t)
	javaHolds(t, s, key)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 100 * time.Millisecond, Lease: 10 * time.Minute, IOTimeout: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	const waiters = 300
	for range waiters {
		wg.Go(func() { _, _ = c.FairMutex(key).Lock(ctx) })
	}
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) == waiters }, time.Minute, time.Millisecond)
	javaWaits(t, s, key, javaOwner+"1", time.Now().Add(time.Hour))
	before := c.Stats()
	require.Eventually(t, func() bool { return c.Stats().Tries > before.Tries+5*waiters }, time.Minute, time.Millisecond, "each sends its own")
	require.Equal(t, before.Unanswered, c.Stats().Unanswered)
	cancel()
	wg.Wait()
}

// TestManyFairWaitersSurviveAStall, a cut, and both at once: the lock goes on to them in their order.
// With -v it prints what bench/BENCHMARKS.md has.
func TestManyFairWaitersSurviveAStall(t *testing.T) {
	if fixture.IsBrief() {
		t.Skip("WHEELLOCK_FAULTS=all, because it needs 10,000 waiters and both cores")
	}
	for _, waiters := range []int{5000, 10_000} {
		for _, clients := range []int{1, 50} {
			for _, trouble := range []string{"a stall", "a cut", "a stall and a cut"} {
				t.Run(fmt.Sprint(waiters, " waiters of ", clients, ", ", trouble), func(t *testing.T) {
					manyFairWaiters(t, waiters, clients, strings.Contains(trouble, "stall"), strings.Contains(trouble, "cut"))
				})
			}
		}
	}
}

func manyFairWaiters(t *testing.T, waiters, clients int, stall, cut bool) {
	s := fixture.Start(t, redistest.Options{Args: []string{"--maxclients", "20000"}})
	ctx := context.Background()
	held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).FairMutex("m").Lock)
	var mu sync.Mutex
	var order []string
	var times []time.Time
	var wg sync.WaitGroup
	began := time.Now()
	for i := range clients {
		c := fixture.ClientOf(t, s, lock.Config{})
		for j := range waiters / clients {
			wg.Go(func() {
				name := fmt.Sprint(i, "-", j)
				held, err := c.FairMutex("m").Lock(lock.WithOwner(ctx, name))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order, times = append(order, name), append(times, time.Now())
				mu.Unlock()
				if err := held.Unlock(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	require.Eventually(t, func() bool { return len(queueOf(t, s, "m")) == waiters }, time.Minute, 50*time.Millisecond)
	joined := time.Since(began)
	time.Sleep(3 * time.Second) // all listen
	cpu, quiet := cpuOf(t, s), time.Now()
	time.Sleep(5 * time.Second)
	share := (cpuOf(t, s) - cpu) / time.Since(quiet).Seconds()
	queue := queueOf(t, s, "m")
	conn := fixture.Dial(t, s)
	if stall {
		require.NoError(t, s.Pause())
		time.Sleep(3 * lock.DefaultIOTimeout / 2)
		require.NoError(t, s.Resume())
	}
	if cut {
		fixture.DoOn(t, conn, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		fixture.DoOn(t, conn, "CLIENT", "KILL", "TYPE", "pubsub")
	}
	released := time.Now()
	require.NoError(t, held.Unlock(ctx))
	wg.Wait()
	require.Len(t, order, waiters)
	require.True(t, slices.EqualFunc(queue, order, func(field, name string) bool { return strings.Contains(field, ":"+name+":") }))
	gap := times[0].Sub(released)
	for i := range times[1:] {
		gap = max(gap, times[i+1].Sub(times[i]))
	}
	t.Logf("all in the queue after %v, Redis works %.1f %% of the time; the first had the lock %v after its release, the last %v, nobody later than %v after the one before",
		joined.Round(time.Millisecond), 100*share, times[0].Sub(released).Round(time.Millisecond), times[waiters-1].Sub(released).Round(time.Millisecond), gap.Round(time.Millisecond))
}

// cpuOf returns the CPU time of a server, in seconds.
func cpuOf(t *testing.T, s *redistest.Server) (sum float64) {
	t.Helper()
	info, err := redis.String(fixture.Do(t, s, "INFO", "cpu"), nil)
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if text, found := strings.CutPrefix(line, name); found {
				seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				require.NoError(t, err)
				sum += seconds
			}
		}
	}
	return sum
}
