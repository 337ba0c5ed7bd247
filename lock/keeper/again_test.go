package keeper_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/keeper"
	"github.com/wheellock/wheellock/lock/locktest"
)

// A name is given up, and its lock is lost before Taken has returned. Then another process may have the
// lock, and Ended must not write what that process reads.
func TestANameThatIsLostWhileItIsGivenUpIsToldAsLost(t *testing.T) {
	for what, giveUp := range map[string]func(*program){
		"dropped":  func(p *program) { p.Drop("a", "b") },
		"too many": func(p *program) { p.SetMost(1); p.Drop("a", "b") },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *locktest.Server) {
				leave := make(chan struct{})
				p := start(t, srv.Client(lock.Config{}), keeper.Config{}, func(ctx context.Context, _ string) {
					<-ctx.Done()
					<-leave
				})
				p.Want("a", "b")
				time.Sleep(time.Second)
				giveUp(p)
				srv.Delete("a")
				time.Sleep(time.Minute)
				require.Equal(t, []string{"b"}, p.kept())
				close(leave)
				time.Sleep(time.Second)
				require.Equal(t, []string{"taken", "returned", "lost"}, p.toldOf("a"))
				require.Equal(t, []string{"taken", "returned", "given up"}, p.toldOf("b"))
				require.Empty(t, srv.Locks())
			})
		})
	}
}

// requireFollowed checks that b hears the release of "a", which another owner has held for long.
func requireFollowed(t *testing.T, b *program, other *lock.Held) {
	t.Helper()
	time.Sleep(2 * time.Hour)
	require.Empty(t, b.kept())
	require.NoError(t, other.Unlock(t.Context()))
	time.Sleep(10 * time.Millisecond)
	require.Equal(t, []string{"a"}, b.kept())
}

// mutedConn is a connection that cannot subscribe while muted is true.
type mutedConn struct {
	redis.ConnWithTimeout
	muted *atomic.Bool
}

func (c mutedConn) Send(command string, args ...any) error {
	if command == "SUBSCRIBE" && c.muted.Load() {
		return errors.New("NOPERM")
	}
	return c.ConnWithTimeout.Send(command, args...)
}

// A Keeper whose messages came loses its connection, and cannot subscribe any more.
func TestAReleaseIsNoticedWithinALookWhenMessagesComeNoMore(t *testing.T) {
	for _, test := range []struct {
		what   string
		lease  time.Duration // 0: the leases are renewed, and the names are released
		hears  time.Duration // how long messages come
		pause  time.Duration // before the names are free
		within time.Duration // all are taken then
	}{
		{"released at once", 0, time.Hour, 0, 10*time.Second + 160*time.Millisecond}, // the slack of timers
		{"released later", 0, time.Hour, time.Minute, 10*time.Second + 160*time.Millisecond},
		{"leases end", time.Minute, 55 * time.Second, 5 * time.Second, 300 * time.Millisecond},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *locktest.Server) {
				other, link := srv.Client(lock.Config{}), srv.Link()
				var held []*lock.Held
				for _, name := range sorted(20) {
					lockIt := other.Mutex(name).TryLock
					if test.lease > 0 {
						lockIt = func(ctx context.Context) (*lock.Held, error) { return other.Mutex(name).TryLockFor(ctx, test.lease) }
					}
					h, err := lockIt(t.Context())
					require.NoError(t, err)
					held = append(held, h)
				}
				var muted atomic.Bool
				client, err := lock.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
					conn, err := link.Pool().DialContext(ctx)
					if err != nil {
						return nil, err
					}
					return mutedConn{conn.(redis.ConnWithTimeout), &muted}, nil
				}}, lock.Config{})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
				b := start(t, client, keeper.Config{Look: 10 * time.Second}, nil)
				b.Want(sorted(20)...)
				time.Sleep(test.hears)
				require.Equal(t, 20, countListened(t, srv))
				muted.Store(true)
				link.Cut()
				link.Mend()
				time.Sleep(test.pause)
				require.Empty(t, b.kept())
				if test.lease == 0 {
					for _, h := range held {
						require.NoError(t, h.Unlock(t.Context()))
					}
				}
				time.Sleep(test.within)
				require.Equal(t, sorted(20), b.kept())
				require.Zero(t, countListened(t, srv))
			})
		})
	}
}

// The first try of a name fails, and another process has it when the Keeper looks again: its release is
// heard.
func TestANameWhoseTryFailedIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		link := srv.Link()
		b := start(t, link.Client(lock.Config{}), keeper.Config{Look: keeper.MaxLook}, nil)
		link.Cut()
		b.Want("a")
		time.Sleep(time.Second)
		other, err := srv.Client(lock.Config{}).Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		link.Mend()
		requireFollowed(t, b, other)
	})
}

// The same after a loss within a second of Taken.
func TestANameThatWasLostAtOnceIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		b := start(t, srv.Client(lock.Config{Lease: 2 * time.Second}), keeper.Config{Look: keeper.MaxLook}, nil)
		b.Want("a")
		time.Sleep(10 * time.Millisecond)
		srv.Delete("a")
		other, err := srv.Client(lock.Config{}).Mutex("a").TryLock(t.Context())
		require.NoError(t, err)
		requireFollowed(t, b, other)
	})
}

// TestANameWhoseTryFailedIsTakenSoonAfter the outage, however rare looks are.
func TestANameWhoseTryFailedIsTakenSoonAfter(t *testing.T) {
	for _, n := range []int{1, 10} {
		bubble(t, func(t *testing.T, srv *locktest.Server) {
			link := srv.Link()
			p := start(t, link.Client(lock.Config{}), keeper.Config{Look: keeper.MaxLook}, nil)
			p.Want(sorted(n)...)
			time.Sleep(time.Second)
			require.Len(t, p.kept(), n)
			link.Cut()
			time.Sleep(2 * time.Minute)
			require.Empty(t, p.kept())
			link.Mend()
			time.Sleep(20 * time.Second)
			require.Len(t, p.kept(), n)
		})
	}
}

func TestANameThatIsDroppedDuringATryThatFailsIsListenedForNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		fixture.LockAll(t, srv.Client(lock.Config{}), []string{"a", "b"})
		b := start(t, srv.Client(lock.Config{}), keeper.Config{}, nil)
		b.Want("a", "b")
		time.Sleep(time.Minute)
		require.Equal(t, 2, countListened(t, srv))
		srv.Delete("a")
		_, err := srv.Do("PUBLISH", "redisson_lock__channel:{a}", "0")
		require.NoError(t, err)
		srv.Pause() // it answers no try
		time.Sleep(100 * time.Millisecond)
		b.Drop("a")
		time.Sleep(10 * time.Second)
		srv.Resume()
		time.Sleep(time.Minute)
		require.Equal(t, 1, countListened(t, srv))
	})
}

// TestDropEndsTheContextOfANameThatEnds: SetMost has made the name end, and has not ended its context
// yet.
func TestDropEndsTheContextOfANameThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		const n = 2000
		var mu sync.Mutex
		contexts := map[string]context.Context{}
		k, err := keeper.New(srv.Client(lock.Config{}), keeper.Config{Taken: func(ctx context.Context, name string, _ *lock.Held) {
			mu.Lock()
			defer mu.Unlock()
			contexts[name] = ctx
		}})
		require.NoError(t, err)
		require.NoError(t, k.Want(sorted(n)...))
		time.Sleep(time.Minute)
		var drops sync.WaitGroup
		drops.Go(func() { k.SetMost(1) })
		for _, name := range sorted(n) {
			drops.Go(func() {
				k.Drop(name)
				mu.Lock()
				defer mu.Unlock()
				if contexts[name].Err() == nil {
					t.Errorf("the context of %s lives after Drop", name)
				}
			})
		}
		drops.Wait()
		require.NoError(t, k.Close(t.Context()))
	})
}

// TestDropOfASharerGivesUpWhatIsMoreThanItsPart at once.
func TestDropOfASharerGivesUpWhatIsMoreThanItsPart(t *testing.T) {
	bubble(t, func(t *testing.T, srv *locktest.Server) {
		var programs []*program
		for range 2 {
			p := start(t, srv.Client(lock.Config{}), keeper.Config{Share: "set"}, nil)
			p.Want(sorted(10)...)
			programs = append(programs, p)
		}
		time.Sleep(2 * time.Minute)
		require.Equal(t, []int{5, 5}, sizes(programs...))
		gone := programs[1].kept()[:4]
		for _, p := range programs {
			p.Drop(gone...)
		}
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, []int{3, 3}, sizes(programs...))
	})
}
