package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// virtualFair is a server in the bubble of a test.
type virtualFair struct {
	t    *testing.T
	s    *redistest.Server
	conn redis.Conn
}

func startVirtualFair(t *testing.T) *virtualFair {
	s := fixture.Virtual(t)
	conn := fixture.Dial(t, s)
	return &virtualFair{t, s, conn}
}

func (v *virtualFair) client(cfg lock.Config) *lock.Client {
	c := fixture.Client(v.t, v.s.Pool(0), cfg)
	return c
}

// do runs a plain command, as Redisson does.
func (v *virtualFair) do(args ...any) any {
	return fixture.DoOn(v.t, v.conn, args[0].(string), args[1:]...)
}

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

// queue returns the fields of those who wait for m.
func (v *virtualFair) queue() []string { return queueOf(v.t, v.s, "m") }

// holds makes a Redisson holder of m, for as long as no test lasts.
func (v *virtualFair) holds() {
	v.do("HSET", "m", javaOwner, 1)
	v.do("PEXPIRE", "m", (24 * 365 * time.Hour).Milliseconds())
}

// waits lets a FairMutex of c wait for m. It returns the waiter's field, what
// makes the waiter leave, and what becomes of it.
func (v *virtualFair) waits(c *lock.Client) (field string, leave func(), got chan *lock.Held) {
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

// gets returns what a waiter gets, within a minute.
func (v *virtualFair) gets(got chan *lock.Held) *lock.Held {
	select {
	case held := <-got:
		require.NotNil(v.t, held)
		return held
	case <-time.After(time.Minute):
		require.Fail(v.t, "a waiter did not get the lock")
		return nil
	}
}

// dies puts a waiter into the queue that never gave but one sign of life, the
// last of a process that died.
func (v *virtualFair) dies(field, sign string) {
	queue, scores, signs, _ := fairKeys("m")
	v.do("RPUSH", queue, field)
	v.do("ZADD", scores, time.Now().Add(time.Hour).UnixMilli(), field)
	v.do("HSET", signs, field, sign)
}

// TestFairWaitersWithOtherPeriodsKeepTheirPlaces: one looks each 20 ms, the
// others each 2 s.
func TestFairWaitersWithOtherPeriodsKeepTheirPlaces(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.holds()
		slow := v.client(lock.Config{})
		quick := v.client(lock.Config{Lease: 100 * time.Millisecond, MaxPoll: 20 * time.Millisecond})
		first, _, gotFirst := v.waits(slow)
		second, _, gotSecond := v.waits(slow)
		third, leave, gotThird := v.waits(quick)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
			require.Equal(t, []string{first, second, third}, v.queue(), "all of them live")
		}
		// The quick one goes: what it said of its next sign is not true for the others.
		leave()
		require.Nil(t, <-gotThird)
		synctest.Wait()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
			require.Equal(t, []string{first, second}, v.queue(), "those who wait longer live on")
		}
		v.do("DEL", "m")
		held := v.gets(gotFirst)
		require.NoError(t, held.Unlock(context.Background()))
		held = v.gets(gotSecond)
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// TestADeadFairWaiterIsPassedAfterThreePeriodsOfItsOwn, whatever the period of
// who waits behind it, and never later than after three of two seconds.
func TestADeadFairWaiterIsPassedAfterThreePeriodsOfItsOwn(t *testing.T) {
	fixture.Slow(t)
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
				if fixture.Briefly() && poll < second/10 {
					t.Skip("WHEELLOCK_FAULTS=all, for it takes seconds")
				}
				synctest.Test(t, func(t *testing.T) {
					v := startVirtualFair(t)
					v.holds()
					v.dies("dead", sign)
					alive, _, got := v.waits(v.client(lock.Config{MaxPoll: poll}))
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
					held := v.gets(got)
					require.NoError(t, held.Unlock(context.Background()))
				})
			})
		}
	}
}

// TestAnOutageOfRedisMakesNoFairWaiterDead: nobody can give a sign then.
func TestAnOutageOfRedisMakesNoFairWaiterDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.holds()
		var gots []chan *lock.Held
		for _, poll := range []time.Duration{5 * time.Second, 300 * time.Millisecond, 5 * time.Second} {
			_, _, got := v.waits(v.client(lock.Config{MaxPoll: poll}))
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
			held := v.gets(got)
			require.NoError(t, held.Unlock(context.Background()))
		}
	})
}

// TestAFairWaiterThatComesBackAfterAnOutageIsNotDead: the time in which Redis did not answer is
// no time in which a sign was missed, so it has three periods after that.
func TestAFairWaiterThatComesBackAfterAnOutageIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.holds()
		v.dies("slow", "7/2000")
		second, leave, got := v.waits(v.client(lock.Config{}))
		_, _, signs, _ := fairKeys("m")
		time.Sleep(time.Second) // it has asked who is the first
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

// TestTheFirstFairWaiterLooksSoonWhetherAnotherLibrarysLockIsGone, of which nobody tells it.
func TestTheFirstFairWaiterLooksSoonWhetherAnotherLibrarysLockIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		v.do("SET", "m", "theirs", "PX", 60_000)
		_, _, got := v.waits(v.client(lock.Config{}))
		time.Sleep(5 * time.Second)
		v.do("DEL", "m")
		gone := time.Now()
		held := v.gets(got)
		require.Less(t, time.Since(gone), 300*time.Millisecond)
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// TestACallOfAFairMutexIsToldWhenItsOwnerIsHandedTheLock: it would wait for its own owner.
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
		held := v.gets(got)
		synctest.Wait()
		require.Len(t, refused, 1)
		require.ErrorContains(t, <-refused, "another kind of lock")
		require.NoError(t, held.Unlock(context.Background()))
	})
}
