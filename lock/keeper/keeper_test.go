package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/keeper"
	"github.com/wheellock/wheellock/lock/locktest"
)

// program is a program that keeps names. It records the calls of its functions.
type program struct {
	*keeper.Keeper
	client *lock.Client

	mu   sync.Mutex
	now  map[string]*lock.Held // kept, as the program was told
	told map[string][]string   // by name, in order
}

// start starts a program with a client of its own. body, if not nil, runs in Taken.
func start(t *testing.T, client *lock.Client, cfg keeper.Config, body func(ctx context.Context, name string)) *program {
	t.Helper()
	p := &program{client: client, now: map[string]*lock.Held{}, told: map[string][]string{}}
	cfg.Taken = func(ctx context.Context, name string, held *lock.Held) {
		p.note(name, "taken", held)
		if body != nil {
			body(ctx, name)
			p.note(name, "returned", held)
		}
	}
	cfg.Ended = func(name string, err error) {
		what := "given up"
		if err != nil {
			what = "lost"
		}
		p.note(name, what, nil)
	}
	k, err := keeper.New(client, cfg)
	require.NoError(t, err)
	p.Keeper = k
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, k.Close(ctx))
	})
	return p
}

func (p *program) note(name, what string, held *lock.Held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told[name] = append(p.told[name], what)
	if held == nil {
		delete(p.now, name)
	} else {
		p.now[name] = held
	}
}

// kept returns the names that the program believes to keep, sorted.
func (p *program) kept() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for name, held := range p.now {
		if held.Valid() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *program) toldOf(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told[name])
}

// sorted returns n names in the order of kept.
func sorted(n int) []string {
	names := fixture.Names("n", n)
	slices.Sort(names)
	return names
}

func bubble(t *testing.T, f func(t *testing.T, srv *locktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, locktest.NewServer(t)) })
}

// countListened returns on how many names' channels clients listen.
func countListened(t *testing.T, srv *locktest.Server) int {
	t.Helper()
	channels, err := redis.Strings(srv.Do("PUBSUB", "CHANNELS", "redisson_lock__channel:*"))
	require.NoError(t, err)
	return len(channels)
}

func TestFreeNamesAreTaken(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{KeyPrefix: "app:"}), keeper.Config{}, nil)
		p.Want(sorted(20)...)
		time.Sleep(time.Second)
		require.Equal(t, sorted(20), p.kept(), "names have no prefix")
		require.Len(t, srv.Locks(), 20)
		s := p.Stats()
		require.Equal(t, []int{20, 20, 0, 0, 0}, []int{s.Wanted, s.Kept, s.Waiting, s.Asking, s.Ending})
		require.EqualValues(t, 20, s.Taken)
		p.Want(sorted(20)...)
		time.Sleep(time.Hour)
		require.Equal(t, 20, srv.Calls()["acquire"], "what is kept is not asked for")
	})
}

func TestALostNameIsToldAndRetaken(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, func(ctx context.Context, _ string) {
			<-ctx.Done()
			var lost *lock.LostError
			if cause := context.Cause(ctx); !errors.As(cause, &lost) && !errors.Is(cause, keeper.ErrGivenUp) {
				t.Errorf("the cause is %v", cause)
			}
		})
		p.Want("a", "b")
		time.Sleep(time.Minute)
		srv.Delete("a")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"taken", "returned", "lost", "taken"}, p.toldOf("a"))
		require.Equal(t, []string{"taken"}, p.toldOf("b"))
		require.Equal(t, []string{"a", "b"}, p.kept())
		require.EqualValues(t, 1, p.Stats().Lost)
		require.Zero(t, p.Stats().GivenUp)
	})
}

func TestAllNamesAreRetakenFromAnEmptyServer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want(sorted(100)...)
		time.Sleep(time.Minute)
		srv.Restart()
		time.Sleep(time.Minute)
		require.Equal(t, sorted(100), p.kept())
		require.EqualValues(t, 100, p.Stats().Lost)
	})
}

func TestADroppedNameIsGivenBackAfterItsFunctions(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		work := make(chan struct{})
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, func(ctx context.Context, _ string) {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), keeper.ErrGivenUp) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			<-work
		})
		p.Want("a")
		time.Sleep(time.Second)
		p.Drop("a", "unknown")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"a"}, srv.Locks(), "Taken has not returned")
		require.Equal(t, 1, p.Stats().Ending)
		close(work)
		time.Sleep(time.Second)
		require.Empty(t, srv.Locks())
		require.Equal(t, []string{"taken", "returned", "given up"}, p.toldOf("a"))
		require.EqualValues(t, 1, p.Stats().GivenUp)
		require.Zero(t, p.Stats().Lost)
	})
}

func TestANameThatIsWantedAgainWhileItEndsIsRetaken(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		work := make(chan struct{}, 1)
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, func(ctx context.Context, _ string) {
			<-ctx.Done()
			<-work
		})
		p.Want("a")
		time.Sleep(time.Second)
		for range 5 {
			p.Drop("a")
			p.Want("a")
		}
		work <- struct{}{}
		time.Sleep(time.Second)
		require.Equal(t, []string{"taken", "returned", "given up", "taken"}, p.toldOf("a"))
		require.Equal(t, []string{"a"}, p.kept())
		close(work)
	})
}

// The server carries the try out late, when the name is not wanted any more.
func TestANameThatIsDroppedWhileItIsAskedForIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want("first") // which makes the connection
		time.Sleep(time.Second)
		srv.SetDelay(300 * time.Millisecond)
		p.Want("a", "b")
		time.Sleep(time.Millisecond)
		require.Equal(t, 2, p.Stats().Asking)
		p.Drop("a", "b")
		p.Want("b")
		time.Sleep(time.Minute)
		require.Empty(t, p.toldOf("a"))
		require.Equal(t, []string{"taken"}, p.toldOf("b"))
		require.Equal(t, []string{"b", "first"}, srv.Locks())
		require.Equal(t, 2, p.Stats().Wanted)
		require.Zero(t, p.Stats().Failed, "both tries took their lock")
	})
}

// The tries are under way when there is room for one name only.
func TestMostHoldsForTriesThatAreUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want("first") // which makes the connection
		time.Sleep(time.Second)
		srv.SetDelay(300 * time.Millisecond)
		p.Want("a", "b", "c")
		time.Sleep(time.Millisecond)
		require.Equal(t, 3, p.Stats().Asking)
		p.SetMost(2)
		time.Sleep(time.Minute)
		require.Len(t, p.kept(), 2)
		require.Equal(t, p.kept(), srv.Locks())
		require.Equal(t, uint64(2), p.Stats().Taken, "the others are released without a call of Taken")
		p.SetMost(0)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a", "b", "c", "first"}, p.kept())
	})
}

func TestASlowFunctionDelaysNoOtherName(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		work := make(chan struct{})
		p := start(t, srv.Client(lock.Config{}), keeper.Config{AtOnce: 1}, func(_ context.Context, name string) {
			if name == "slow" {
				<-work
			}
		})
		p.Want("slow")
		time.Sleep(time.Second)
		p.Want(sorted(20)...)
		time.Sleep(time.Second)
		require.Len(t, p.kept(), 21)
		p.Drop(append(sorted(20), "slow")...)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"slow"}, srv.Locks(), "the others are given back, and it is renewed")
		require.Equal(t, []string{"taken", "returned", "given up"}, p.toldOf("n7"))
		close(work)
	})
}

func TestCloseGivesAllBackWithinItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		work := make(chan struct{})
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, func(ctx context.Context, name string) {
			<-ctx.Done()
			if name == "n3" {
				<-work
			}
		})
		p.Want(sorted(10)...)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := p.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 names were not given back")
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, []string{"n3"}, srv.Locks())
		close(work)
		require.NoError(t, p.Close(t.Context()))
		require.Empty(t, srv.Locks())
		calls := srv.Calls()["acquire"]
		p.Want("late")
		time.Sleep(time.Hour)
		require.Equal(t, calls, srv.Calls()["acquire"])
	})
}

func TestCloseDoesNotWaitForAServerThatIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want(sorted(2000)...)
		time.Sleep(time.Second)
		require.Len(t, p.kept(), 2000)
		srv.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 2*lock.DefaultUnlockTimeout+time.Second)
		defer cancel()
		require.NoError(t, p.Close(ctx))
		require.EqualValues(t, 2000, p.Stats().Unreleased)
		srv.Resume()
	})
}

func TestANameThatIsReleasedIsTakenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		a := start(t, srv.Client(lock.Config{KeyPrefix: "app:"}), keeper.Config{}, nil)
		b := start(t, srv.Client(lock.Config{KeyPrefix: "app:"}), keeper.Config{Look: time.Hour}, nil)
		a.Want(sorted(50)...)
		time.Sleep(time.Second)
		b.Want(sorted(50)...)
		time.Sleep(10 * time.Minute)
		require.Empty(t, b.kept())
		tries := b.Stats().Tries
		a.Drop(sorted(50)...)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, sorted(50), b.kept())
		require.Empty(t, a.kept())
		require.EqualValues(t, 50, b.Stats().Heard)
		require.EqualValues(t, 50, b.Stats().Tries-tries, "each name is asked for once")
	})
}

// A release may come while the try that it refuses is on its way back.
func TestANameThatIsReleasedDuringATryIsTakenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		other := srv.Client(lock.Config{})
		held := fixture.LockAll(t, other, sorted(20))
		link := srv.Link()
		b := start(t, link.Client(lock.Config{}), keeper.Config{Look: time.Hour}, nil)
		b.Want(sorted(20)...)
		time.Sleep(time.Minute)
		srv.SetDelay(100 * time.Millisecond)
		for range 5 { // it hears of a release, and another one is first
			for name, h := range held {
				require.NoError(t, h.Unlock(t.Context()))
				again, err := other.Mutex(name).TryLock(t.Context())
				if err == nil {
					held[name] = again
				} else {
					delete(held, name)
				}
			}
		}
		for _, h := range held {
			require.NoError(t, h.Unlock(t.Context()))
		}
		srv.SetDelay(0)
		time.Sleep(time.Second)
		require.Equal(t, sorted(20), b.kept())
	})
}

func TestOnlyNamesThatOthersHoldAreListenedFor(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		a := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		b := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		a.Want(sorted(20)...)
		time.Sleep(time.Minute)
		require.Zero(t, countListened(t, srv))
		b.Want(sorted(20)...)
		time.Sleep(time.Minute)
		require.Equal(t, 20, countListened(t, srv))
		b.Drop(sorted(5)...)
		time.Sleep(time.Minute)
		require.Equal(t, 15, countListened(t, srv))
		a.Drop(sorted(20)...)
		time.Sleep(time.Minute)
		require.Len(t, b.kept(), 15)
		require.Zero(t, countListened(t, srv))
	})
}

// No message comes for a lock whose key vanished.
func TestANameThatIsFreeWithoutAMessageIsTakenAtALook(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		const look = 2 * time.Second
		fixture.LockAll(t, srv.Client(lock.Config{}), sorted(50))
		b := start(t, srv.Client(lock.Config{}), keeper.Config{Look: look}, nil)
		b.Want(sorted(50)...)
		time.Sleep(time.Minute)
		for _, name := range sorted(50) {
			srv.Delete(name)
		}
		time.Sleep(4*look + 100*time.Millisecond)
		require.Equal(t, sorted(50), b.kept())
	})
}

// The process that held the names has died. The names are taken when their leases end.
func TestTheNamesOfADeadHolderAreTakenWhenTheirLeasesEnd(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		link := srv.Link()
		a := start(t, link.Client(lock.Config{}), keeper.Config{}, nil)
		b := start(t, srv.Client(lock.Config{}), keeper.Config{Look: time.Hour}, nil)
		a.Want(sorted(20)...)
		time.Sleep(time.Second)
		b.Want(sorted(20)...)
		time.Sleep(10 * time.Minute)
		link.Cut()
		time.Sleep(lock.DefaultLease + 300*time.Millisecond)
		require.Equal(t, sorted(20), b.kept())
		require.Empty(t, a.kept(), "it was told")
		link.Mend()
	})
}

func TestAnIdleHourCostsOneLookPerLease(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		holder := srv.Client(lock.Config{})
		fixture.LockAll(t, holder, sorted(10))
		link := srv.Link()
		p := start(t, link.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want(sorted(10)...)
		time.Sleep(time.Hour)
		synctest.Wait() // a look may be due right now
		require.Equal(t, 10, link.Calls()["acquire"])
		n := link.Calls()["ttl"]
		require.LessOrEqual(t, n, 10*(3600/20+2), "a lease that is renewed has 20 s left at the least")
		require.GreaterOrEqual(t, n, 10*3600/30, "and 30 s at the most")
		require.EqualValues(t, n, p.Stats().Looks)
	})
}

func TestAServerThatIsDownGetsOneProbeAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		const names = 500
		link := srv.Link()
		p := start(t, link.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want(sorted(names)...)
		time.Sleep(time.Minute)
		require.Len(t, p.kept(), names)
		link.Cut()
		time.Sleep(lock.DefaultLease + 10*time.Second) // all are lost
		require.Empty(t, p.kept())
		require.True(t, p.Stats().Failing)
		require.Error(t, p.Stats().LastError)
		before := p.Stats()
		time.Sleep(time.Minute)
		tries := p.Stats().Since(before).Tries
		require.NotZero(t, tries)
		require.LessOrEqual(t, tries, uint64(20), "a probe after at least 3.75 s, with what %d names have", names)
		link.Mend()
		time.Sleep(20 * time.Second)
		require.Equal(t, sorted(names), p.kept())
		require.False(t, p.Stats().Failing)
	})
}

func TestAServerThatIsSilentForAMinuteCostsFewTries(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		srv.Pause()
		p.Want(sorted(500)...)
		time.Sleep(time.Minute)
		require.Empty(t, p.kept())
		require.LessOrEqual(t, p.Stats().Tries, uint64(64+30))
		srv.Resume()
		time.Sleep(20 * time.Second)
		require.Equal(t, sorted(500), p.kept())
	})
}

// Another caller of the client waits for each name. So the client refuses the tries without asking
// Redis, and the end of the lease is not known.
func TestNamesThatOthersOfTheClientWaitForAreNoLoop(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		link := srv.Link()
		client := link.Client(lock.Config{})
		p := start(t, client, keeper.Config{}, nil)
		names := sorted(20)
		link.Cut()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, name := range names {
			all.Go(func() {
				if held, err := client.Mutex(name).Lock(ctx); err == nil {
					_ = held.Unlock(context.Background())
				}
			})
		}
		time.Sleep(time.Second)
		p.Want(names...)
		time.Sleep(time.Minute)
		st := p.Stats()
		require.LessOrEqual(t, st.Tries+st.Looks, uint64(2*20*60/7+20))
		cancel()
		link.Mend()
		all.Wait()
		time.Sleep(20 * time.Second)
		require.Equal(t, names, p.kept())
	})
}

// Another caller of the client waits for one of the names since before the outage, and knows the TTL of its
// lock. So the client refuses the tries of that name without asking Redis.
func TestARefusalThatDidNotAskRedisEndsNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		client := srv.Client(lock.Config{})
		names := sorted(31)
		_, err := srv.Client(lock.Config{}).Mutex(names[0]).LockFor(t.Context(), 24*time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var waiter sync.WaitGroup
		waiter.Go(func() { _, _ = client.Mutex(names[0]).Lock(ctx) })
		time.Sleep(time.Second)
		srv.Pause()
		p := start(t, client, keeper.Config{}, nil)
		p.Want(names...)
		time.Sleep(10 * time.Second)
		before, began := p.Stats(), time.Now()
		for p.Stats().Since(before).Refused < 5 { // the probe takes any name
			require.True(t, p.Stats().Failing)
			require.Less(t, time.Since(began), 12*time.Hour, "the name is not tried")
			time.Sleep(100 * time.Millisecond)
		}
		failed := p.Stats().Since(before).Failed
		require.NotZero(t, failed)
		require.LessOrEqual(t, failed, uint64(time.Since(began)/(3*time.Second)), "a probe after at least 3.75 s, whatever was refused")
		cancel()
		waiter.Wait()
		srv.Resume()
		time.Sleep(20 * time.Second)
		require.Equal(t, names[1:], p.kept())
		require.False(t, p.Stats().Failing)
	})
}

func TestTriesPerSecondAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{PerSecond: 100}, nil)
		p.Want(sorted(1000)...)
		for range 9 {
			before := p.Stats()
			time.Sleep(time.Second)
			tries := p.Stats().Since(before).Tries
			require.LessOrEqual(t, tries, uint64(110))
			require.GreaterOrEqual(t, tries, uint64(80))
		}
		time.Sleep(5 * time.Second)
		require.Len(t, p.kept(), 1000)
	})
}

func TestFewTriesPerSecondAreMadeToo(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{PerSecond: 1}, nil)
		p.Want(sorted(10)...)
		time.Sleep(4500 * time.Millisecond)
		require.Len(t, p.kept(), 5)
		time.Sleep(6 * time.Second)
		require.Equal(t, sorted(10), p.kept())
	})
}

// One probe finds that an outage is over. Then the names do not wait for each other.
func TestAfterAnOutageManyNamesAreAskedForAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		link := srv.Link()
		p := start(t, link.Client(lock.Config{}), keeper.Config{Look: time.Hour}, nil)
		link.Cut()
		p.Want(sorted(500)...)
		time.Sleep(time.Minute)
		require.True(t, p.Stats().Failing)
		left := 500 - int(p.Stats().Failed) // the others rest until their look
		require.Greater(t, left, 300)
		srv.SetDelay(50 * time.Millisecond)
		link.Mend()
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, len(p.kept()), left, "one after the other would take 15 s")
		srv.SetDelay(0)
	})
}

func TestTriesThatCloseEndsHaveNotFailed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want("first") // which makes the connection
		time.Sleep(time.Second)
		srv.SetDelay(300 * time.Millisecond)
		p.Want(sorted(10)...)
		time.Sleep(time.Millisecond)
		require.NotZero(t, p.Stats().Asking)
		require.NoError(t, p.Close(t.Context()))
		require.Zero(t, p.Stats().Failed)
		require.NoError(t, p.Stats().LastError)
		time.Sleep(time.Minute)
		srv.SetDelay(0)
		require.Empty(t, srv.Locks())
	})
}

// Two keepers share as many names as both may keep. A third one waits, and takes the place of one
// that leaves.
func TestMostIsKeptByTwoAndThreeKeepers(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		names := sorted(12)
		join := func() *program {
			p := start(t, srv.Client(lock.Config{}), keeper.Config{Most: 6}, nil)
			p.Want(names...)
			return p
		}
		a := join()
		time.Sleep(time.Second)
		require.Len(t, a.kept(), 6)
		b := join()
		time.Sleep(time.Minute)
		c := join()
		time.Sleep(time.Minute)
		require.Equal(t, []int{6, 6, 0}, []int{len(a.kept()), len(b.kept()), len(c.kept())})
		require.NoError(t, a.Close(t.Context()))
		time.Sleep(keeper.DefaultLook + time.Second)
		require.Equal(t, []int{0, 6, 6}, []int{len(a.kept()), len(b.kept()), len(c.kept())})
		d := join()
		for _, p := range []*program{b, c, d} {
			p.SetMost(4)
		}
		time.Sleep(keeper.DefaultLook + time.Second)
		require.Equal(t, []int{4, 4, 4}, []int{len(b.kept()), len(c.kept()), len(d.kept())})
		require.EqualValues(t, 2, b.Stats().GivenUp)
		require.Equal(t, 12, b.Stats().Wanted)
		require.Len(t, srv.Locks(), 12)
	})
}

// sizes returns how many names each keeps.
func sizes(programs ...*program) (n []int) {
	for _, p := range programs {
		n = append(n, len(p.kept()))
	}
	return n
}

// Keepers join and leave, by Close and by death. Each has its part afterwards.
func TestNamesAreSharedEvenly(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		names := sorted(60)
		join := func(client *lock.Client) *program {
			p := start(t, client, keeper.Config{Share: "set"}, nil)
			p.Want(names...)
			return p
		}
		const aLook = keeper.DefaultLook + time.Second
		a := join(srv.Client(lock.Config{}))
		time.Sleep(time.Second)
		require.Equal(t, []int{60}, sizes(a))
		link := srv.Link()
		b := join(link.Client(lock.Config{}))
		time.Sleep(2 * aLook)
		require.Equal(t, []int{30, 30}, sizes(a, b))
		c := join(srv.Client(lock.Config{}))
		time.Sleep(2 * aLook)
		require.Equal(t, []int{20, 20, 20}, sizes(a, b, c))
		require.Equal(t, 3, c.Stats().Sharers)
		before := []keeper.Stats{a.Stats(), b.Stats(), c.Stats()}
		time.Sleep(10 * time.Minute)
		for i, p := range []*program{a, b, c} {
			require.Zero(t, p.Stats().Since(before[i]).Taken+p.Stats().Since(before[i]).GivenUp, "names stay where they are")
		}
		require.NoError(t, a.Close(t.Context()))
		time.Sleep(time.Second) // the release of its place is heard
		require.Equal(t, []int{0, 30, 30}, sizes(a, b, c))
		link.Cut() // b has died
		time.Sleep(lock.DefaultLease + aLook)
		require.Equal(t, []int{0, 60}, sizes(b, c))
		link.Mend() // and comes back
		time.Sleep(3 * aLook)
		require.Equal(t, []int{30, 30}, sizes(b, c))
		srv.Restart()
		time.Sleep(3*aLook + lock.DefaultLease/3)
		require.Equal(t, []int{30, 30}, sizes(b, c))
		require.NoError(t, b.Close(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		time.Sleep(time.Second) // for what a try that Close has left has taken
		require.Empty(t, srv.Locks(), "the places too")
	})
}

// TestASharerThatClosesLeavesItsNamesToTheOthers: all but the one whose function still runs.
func TestASharerThatClosesLeavesItsNamesToTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		names := sorted(60)
		var slow atomic.Bool // a function is, or none will be
		slow.Store(true)
		join := func(body func(ctx context.Context, name string)) *program {
			p := start(t, srv.Client(lock.Config{}), keeper.Config{Share: "set"}, body)
			p.Want(names...)
			return p
		}
		a := join(func(ctx context.Context, _ string) {
			if <-ctx.Done(); !slow.Swap(true) {
				time.Sleep(5 * time.Minute)
			}
		})
		time.Sleep(time.Second)
		b := join(nil)
		time.Sleep(2 * keeper.DefaultLook)
		slow.Store(false) // for the first name that a gives back now
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- a.Close(ctx) }()
		time.Sleep(time.Second)
		require.Len(t, b.kept(), 59)
		require.ErrorIs(t, <-closed, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		require.Len(t, b.kept(), 59)
		time.Sleep(5 * time.Minute)
		require.Len(t, b.kept(), 60)
		require.NoError(t, a.Close(t.Context()))
	})
}

func TestASharerWithoutAPlaceKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		places := fixture.LockAll(t, srv.Client(lock.Config{}), fixture.Names("set:sharer:", keeper.MaxSharers))
		p := start(t, srv.Client(lock.Config{}), keeper.Config{Share: "set"}, nil)
		p.Want(sorted(100)...)
		time.Sleep(time.Minute)
		require.Empty(t, p.kept())
		require.NoError(t, places["set:sharer:7"].Unlock(t.Context()))
		time.Sleep(time.Second)
		require.Len(t, p.kept(), 2)
		require.Equal(t, keeper.MaxSharers, p.Stats().Sharers)
	})
}

func TestASharerThatLostItsPlaceKeepsItsPart(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{Share: "set", Look: time.Minute}, nil)
		p.Want(sorted(20)...)
		time.Sleep(10 * time.Second) // all connections are made
		require.Equal(t, 1, p.Stats().Sharers)
		other := srv.Client(lock.Config{})
		for _, place := range fixture.Names("set:sharer:", keeper.MaxSharers) {
			srv.Delete(place)
			_, err := other.Mutex(place).TryLock(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(5 * time.Minute) // the loss is known before the next count
		require.Equal(t, 1, p.Stats().Sharers)
		require.Len(t, p.kept(), 20)
	})
}

// While Redis does not answer, it is not known how many Keepers there are.
func TestASilentServerChangesNoShare(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		var programs []*program
		for range 2 {
			p := start(t, srv.Client(lock.Config{}), keeper.Config{Share: "set", Look: 2 * time.Second}, nil)
			p.Want(sorted(20)...)
			programs = append(programs, p)
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, []int{10, 10}, sizes(programs...))
		srv.Pause()
		for range 10 { // less than a lease
			time.Sleep(time.Second)
			for _, p := range programs {
				require.Equal(t, 2, p.Stats().Sharers)
			}
		}
		srv.Resume()
		time.Sleep(10 * time.Second)
		for _, p := range programs {
			require.Equal(t, 2, p.Stats().Sharers)
			require.LessOrEqual(t, p.Stats().GivenUp, uint64(10), "only when the other one joined")
		}
		require.Equal(t, []int{10, 10}, sizes(programs...))
	})
}

// A count may find no place at all, before the Keeper learns that it has lost its own.
func TestASharerWhosePlaceWasDeletedGivesNothingUp(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{Share: "set", Look: 2 * time.Second}, nil)
		p.Want(sorted(20)...)
		time.Sleep(21 * time.Second) // a renewal has just been
		require.Len(t, p.kept(), 20)
		for _, name := range srv.Locks() {
			if strings.HasPrefix(name, "set:sharer:") {
				srv.Delete(name)
			}
		}
		time.Sleep(20 * time.Second)
		require.Equal(t, 1, p.Stats().Sharers)
		require.Len(t, p.kept(), 20)
		require.Zero(t, p.Stats().GivenUp)
	})
}

func TestAKeeperWithoutARoomAsksForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		link := srv.Link()
		p := start(t, link.Client(lock.Config{}), keeper.Config{Most: 2}, nil)
		p.Want(sorted(30)...)
		time.Sleep(time.Hour)
		require.Len(t, p.kept(), 2)
		require.Equal(t, 2, link.Calls()["acquire"])
	})
}

// A name that ends counts for Most, because it is still held.
func TestANameThatEndsKeepsItsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		work := make(chan struct{})
		p := start(t, srv.Client(lock.Config{}), keeper.Config{Most: 1}, func(ctx context.Context, _ string) {
			<-ctx.Done()
			<-work
		})
		p.Want("a")
		time.Sleep(time.Second)
		p.Drop("a")
		p.Want("b")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, srv.Locks())
		close(work)
		time.Sleep(time.Second)
		require.Equal(t, []string{"b"}, srv.Locks())
	})
}

func TestANameThatIsNoLockDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		names := sorted(20)
		for _, name := range names {
			_, err := srv.Do("LPUSH", name, "x")
			require.NoError(t, err)
		}
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want(names...)
		time.Sleep(time.Second)
		require.False(t, p.Stats().Failing)
		require.ErrorIs(t, p.Stats().LastError, lock.ErrNotALock)
		p.Want("free")
		time.Sleep(time.Minute) // their channels are subscribed to
		require.Equal(t, []string{"free"}, p.kept())
		for _, name := range names {
			_, err := srv.Do("DEL", name)
			require.NoError(t, err)
		}
		time.Sleep(11 * time.Second) // a Look
		require.Len(t, p.kept(), 21)
	})
}

func TestAClosedClientEndsAllNames(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		p.Want("a", "b")
		time.Sleep(time.Second)
		require.NoError(t, p.client.Close(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"taken", "lost"}, p.toldOf("a"))
		time.Sleep(time.Hour)
		require.LessOrEqual(t, p.Stats().Failed, uint64(1000))
		require.NoError(t, p.Close(t.Context()))
	})
}

// Something deletes the lock as often as it is taken.
func TestANameThatIsLostAgainAndAgainIsNotAskedForWithoutAPause(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		link := srv.Link()
		p := start(t, link.Client(lock.Config{Lease: 300 * time.Millisecond}), keeper.Config{}, nil)
		p.Want("a")
		for range 600 {
			time.Sleep(50 * time.Millisecond)
			srv.Delete("a")
		}
		require.LessOrEqual(t, link.Calls()["acquire"], 31)
		require.GreaterOrEqual(t, p.Stats().Lost, uint64(20))
	})
}

// Ended may write what the next holder reads, because it is called under the lock.
func TestEndedOfADroppedNameIsCalledUnderTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		var held *lock.Held
		ended := make(chan bool, 1)
		k, err := keeper.New(srv.Client(lock.Config{}), keeper.Config{
			Taken: func(_ context.Context, _ string, h *lock.Held) { held = h },
			Ended: func(string, error) {
				time.Sleep(time.Minute)
				ended <- held.Valid()
			},
		})
		require.NoError(t, err)
		k.Want("a")
		time.Sleep(time.Second)
		k.Drop("a")
		require.True(t, <-ended)
		require.NoError(t, k.Close(t.Context()))
		require.False(t, held.Valid())
	})
}

func TestFaultsOfAConfigAreToldAtOnce(t *testing.T) {
	_, err := keeper.New(nil, keeper.Config{Most: -1, Look: 1, AtOnce: 513, PerSecond: -1})
	for _, text := range []string{"client", "Taken", "Most", "Look is 1ns", "AtOnce is 513", "PerSecond is -1"} {
		require.ErrorContains(t, err, text)
	}
	bubble(t, func(t *testing.T, srv *locktest.Server) { // and it leaves no goroutine
		_, err := keeper.New(srv.Client(lock.Config{}), keeper.Config{Share: "redisson_lock_queue:{x}"})
		for _, text := range []string{"Taken", "Share", "key of another lock"} {
			require.ErrorContains(t, err, text)
		}
	})
}

func TestNamesThatMutexRefusesAreNotWanted(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		long := strings.Repeat("x", 65<<10)
		p := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		require.ErrorContains(t, p.Want("a", "", long, "b"), "2 of 4 names are refused")
		time.Sleep(time.Second)
		require.Equal(t, []string{"a", "b"}, p.kept())
		require.Equal(t, 2, p.Stats().Wanted)
		require.Zero(t, p.Stats().Failed)
	})
}

// TestManyChangesAtOnce wants and drops the same names from many goroutines in two programs, while the
// server deletes locks. No name is ever kept twice, and all that is wanted at the end is kept.
func TestManyChangesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		names := sorted(10)
		var mu sync.Mutex
		inside := map[string]*lock.Held{}
		var programs []*keeper.Keeper
		for range 2 {
			k, err := keeper.New(srv.Client(lock.Config{}), keeper.Config{
				Look: time.Second,
				Taken: func(ctx context.Context, name string, held *lock.Held) {
					mu.Lock()
					if other := inside[name]; other != nil && other.Valid() && held.Valid() {
						t.Errorf("%s is kept twice", name)
					}
					inside[name] = held
					mu.Unlock()
				},
				Ended: func(name string, err error) {
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						if inside[name] == nil {
							t.Errorf("%s ended before it was taken", name)
						}
						delete(inside, name)
					}
				},
			})
			require.NoError(t, err)
			programs = append(programs, k)
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 200 {
					name := names[(i*7+j*3)%len(names)]
					if k := programs[i%2]; (i+j)%3 == 0 {
						k.Drop(name)
					} else {
						k.Want(name)
					}
					time.Sleep(time.Duration(1+(i*j)%50) * time.Millisecond)
				}
			})
		}
		all.Wait()
		for _, k := range programs {
			k.Want(names...)
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, len(names), programs[0].Stats().Kept+programs[1].Stats().Kept)
		require.Len(t, srv.Locks(), len(names))
		for i, k := range programs {
			require.NoError(t, k.Close(t.Context()), fmt.Sprint(i))
		}
		time.Sleep(time.Second) // for the client's release of what a try that Close has left has taken
		require.Empty(t, srv.Locks())
		require.Empty(t, inside)
	})
}
