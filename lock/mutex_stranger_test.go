package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/integration/stranger"
	"github.com/wheellock/wheellock/lock"
)

const contended = "contended"

// newStranger is a JVM with so many threads.
func newStranger(t *testing.T, s *redistest.Server, threads int, hold, delay time.Duration) *stranger.Stranger {
	j, err := stranger.New(stranger.Config{
		Dial: func() (redis.Conn, error) { return s.Dial() }, Key: contended, Threads: threads, Lease: 30 * time.Second, Wait: 5 * time.Second, Hold: hold, Again: time.Millisecond,
		Delay: func() time.Duration { return delay + rand.N(time.Millisecond) },
	})
	require.NoError(t, err)
	return j
}

// gophers lets goroutines of c lock and unlock until ctx ends, and returns what waits for
// them and how many turns they had.
func gophers(ctx context.Context, t *testing.T, c *lock.Client, n int, hold time.Duration) func() int {
	var wg sync.WaitGroup
	turns := make([]int, n)
	for i := range turns {
		wg.Go(func() {
			for ctx.Err() == nil {
				held, err := c.Mutex(contended).Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				turns[i]++
				time.Sleep(hold)
				if err := held.Unlock(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() (sum int) {
		wg.Wait()
		for _, n := range turns {
			sum += n
		}
		return sum
	}
}

// TestAStrangerHasEverySecondRelease at which it waits, whoever contends with it, and is
// hardly ever refused. The numbers of threads
// are odd, because each of its own releases wakes a thread in vain: of an even number, it
// would be the same ones again and again.
func TestAStrangerHasEverySecondRelease(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name          string
		clients, each int // goroutines of a client
		threads       int
		hold, its     time.Duration
		delay         time.Duration // of the JVM; up to a millisecond more
		unknown       time.Duration // so long the stranger waits before it is known at most
	}{
		{"eight clients", 8, 8, 15, 5 * ms, 5 * ms, ms, time.Second},
		{"one client", 1, 64, 15, 5 * ms, 5 * ms, ms, time.Second},
		{"one thread", 4, 4, 1, 5 * ms, 5 * ms, ms, time.Second},
		{"a slow JVM", 4, 4, 5, 5 * ms, 5 * ms, 3 * ms, time.Second},
		{"one goroutine", 1, 1, 3, 5 * ms, 5 * ms, ms, time.Second},
		{"eight of one goroutine", 8, 1, 5, 5 * ms, 5 * ms, ms, time.Second},
		{"long holds", 4, 4, 1, 1500 * ms, 5 * ms, ms, 10 * time.Second},
		{"its long holds", 4, 4, 3, 5 * ms, 500 * ms, ms, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tt.clients*tt.each > 1 || fixture.Briefly() && (tt.clients > 4 || tt.each > 4) {
				t.Skip("WHEELLOCK_FAULTS=all and not -short, for it takes long")
			}
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+tt.unknown)
				defer cancel()
				var clients []*lock.Client
				var turns []func() int
				for range tt.clients {
					c, err := lock.New(s.Pool(0), lock.Config{})
					require.NoError(t, err)
					clients = append(clients, c)
					turns = append(turns, gophers(ctx, t, c, tt.each, tt.hold))
				}
				j := newStranger(t, s, tt.threads, tt.its, tt.delay)
				known := make(chan stranger.Counts, 1)
				time.AfterFunc(tt.unknown, func() { known <- j.Counts() })
				require.NoError(t, j.Run(ctx))
				sum := 0
				for _, of := range turns {
					sum += of()
				}
				n := j.Counts()
				t.Logf("%+v, ours %d", n, sum)
				for _, c := range clients {
					require.NoError(t, c.Close(context.Background()))
				}
				require.NoError(t, j.Close())
				require.Greater(t, 3*sum, n.Turns, "nor are others kept out")
				n = n.Sub(<-known)
				require.Greater(t, float64(n.Won+2), 0.49*float64(n.Releases))
				require.LessOrEqual(t, 50*n.Refused, n.Turns)
			})
		})
	}
}

// TestAStrangerThatHasGoneIsForgotten: after a second and a pause in vain, clients go on as
// before.
func TestAStrangerThatHasGoneIsForgotten(t *testing.T) {
	fixture.Slow(t)
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var clients []*lock.Client
		var turns []func() int
		for range 2 {
			c, err := lock.New(s.Pool(0), lock.Config{})
			require.NoError(t, err)
			clients = append(clients, c)
			turns = append(turns, gophers(ctx, t, c, 2, time.Millisecond))
		}
		j := newStranger(t, s, 3, time.Millisecond, time.Millisecond)
		gone, cancelIt := context.WithTimeout(ctx, 3*time.Second)
		defer cancelIt()
		require.NoError(t, j.Run(gone))
		require.NoError(t, j.Close())
		begun := clients[0].Stats().Released + clients[1].Stats().Released
		time.Sleep(2 * time.Second)
		before := clients[0].Stats().Released + clients[1].Stats().Released
		time.Sleep(4 * time.Second)
		after := clients[0].Stats().Released + clients[1].Stats().Released
		t.Log(begun, before, after)
		cancel()
		for i, of := range turns {
			of()
			require.NoError(t, clients[i].Close(context.Background()))
		}
		require.Greater(t, after-before, uint64(2800), "a millisecond each, and some more; beside a stranger it is a third of that")
	})
}

// TestATryDoesNotPassAStranger: TryLock, and Lock, right after a release of this client, leave it
// to the stranger; but a Lock that has no time for that takes what is free.
func TestATryDoesNotPassAStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		mu, ctx := c.Mutex(contended), context.Background()
		conn, err := s.Dial()
		require.NoError(t, err)
		theirs := func(f func()) {
			fixture.DoOn(t, conn, "HSET", contended, "8743c9c0-0795-4907-87fd-6c719a6b4586:7", 1)
			fixture.DoOn(t, conn, "PEXPIRE", contended, 30_000)
			f()
			fixture.DoOn(t, conn, "DEL", contended)
		}
		release := func() {
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, held.Unlock(ctx))
		}
		theirs(func() {
			_, err := mu.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		})
		began := time.Now()
		release() // it is known to be free: nobody was heard to release it
		require.Zero(t, time.Since(began))
		// It is nobody's after that release.
		held, err := mu.TryLock(ctx)
		require.NoError(t, err)
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		require.NoError(t, held.Unlock(ctx))
		short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
		defer cancel()
		held, err = mu.Lock(short)
		require.NoError(t, err)
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		require.NoError(t, held.Unlock(ctx))
		time.AfterFunc(2*time.Millisecond, func() { fixture.DoOn(t, conn, "HSET", contended, "java:8", 1) })
		_, err = mu.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.Equal(t, 10*time.Millisecond, time.Since(began))
		fixture.DoOn(t, conn, "DEL", contended)
		time.Sleep(2 * time.Minute)
		release()
		began = time.Now()
		release()
		require.Zero(t, time.Since(began), "it is forgotten")
		require.NoError(t, conn.Close())
		require.NoError(t, c.Close(ctx))
	})
}

// TestWhatIsKnownOfStrangersIsBounded, however many names they have.
func TestWhatIsKnownOfStrangersIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		conn, err := s.Dial()
		require.NoError(t, err)
		for i := range 10_000 {
			name := fmt.Sprint("m", i)
			fixture.DoOn(t, conn, "HSET", name, "java:7", 1)
			fixture.DoOn(t, conn, "PEXPIRE", name, 30_000)
			_, err := c.Mutex(name).TryLock(context.Background())
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		}
		require.Equal(t, 64*64, lock.Table(c).Counts().Strangers)
		require.NoError(t, conn.Close())
		require.NoError(t, c.Close(context.Background()))
	})
}
