package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// beside is a lock of another library, on the same key as a lock of wheellock.
type beside struct {
	name string
	// once tries once to take the lock, and returns false if another has it. unlock releases the lock.
	once func(ctx context.Context, key string) (unlock func() error, ok bool, err error)
}

// besides returns the locks of other libraries, and one by hand-written commands.
func besides(t *testing.T, s *redistest.Server) []beside {
	pool := s.Pool(0)
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() {
		_ = pool.Close()
		_ = client.Close()
	})
	const ttl = time.Minute
	sync, locker := redsync.New(redsyncredigo.NewPool(pool)), redislock.New(client)
	return []beside{
		{"by hand", func(ctx context.Context, key string) (func() error, bool, error) {
			id := rand.Text()
			do := func(command string, args ...any) (any, error) {
				conn := pool.Get()
				defer conn.Close()
				return redis.DoContext(conn, ctx, command, args...)
			}
			reply, err := do("SET", key, id, "NX", "PX", ttl.Milliseconds())
			return func() error {
				n, err := redis.Int(do("EVAL", "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0", 1, key, id))
				if err == nil && n != 1 {
					err = errors.New("it was not there any more")
				}
				return err
			}, reply != nil, err
		}},
		{"redsync", func(ctx context.Context, key string) (func() error, bool, error) {
			m := sync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1))
			err := m.LockContext(ctx)
			var taken *redsync.ErrTaken
			if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
				return nil, false, nil
			}
			return func() error {
				ok, err := m.UnlockContext(ctx)
				if err == nil && !ok {
					err = errors.New("it was not there any more")
				}
				return err
			}, err == nil, err
		}},
		{"redislock", func(ctx context.Context, key string) (func() error, bool, error) {
			l, err := locker.Obtain(ctx, key, ttl, nil)
			// If the key is a hash, Obtain returns WRONGTYPE instead of ErrNotObtained.
			if errors.Is(err, redislock.ErrNotObtained) || err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
				return nil, false, nil
			}
			return func() error { return l.Release(ctx) }, err == nil, err
		}},
	}
}

// server starts a server, with a pool and a client of it.
func server(t *testing.T) (*redistest.Server, *redis.Pool, *lock.Client) {
	t.Helper()
	s, err := redistest.Start(context.Background(), redistest.Options{})
	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	pool := s.Pool(0)
	t.Cleanup(func() { _ = pool.Close() })
	c, err := lock.New(pool, lock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return s, pool, c
}

// TestOthersOnTheSameKey: callers of another library and ours exclude each other on
// one key, both ways, so a counter that is read and written without any other care is
// exact; and all get their turns.
func TestOthersOnTheSameKey(t *testing.T) {
	s, _, c := server(t)
	ours := map[string]func(context.Context, string) (*lock.Held, error){
		"mutex":  func(ctx context.Context, key string) (*lock.Held, error) { return c.Mutex(key).Lock(ctx) },
		"fenced": func(ctx context.Context, key string) (*lock.Held, error) { return c.FencedMutex(key).Lock(ctx) },
		"fair":   func(ctx context.Context, key string) (*lock.Held, error) { return c.FairMutex(key).Lock(ctx) },
		"writer": func(ctx context.Context, key string) (*lock.Held, error) { return c.RWMutex(key).Writer().Lock(ctx) },
	}
	const callers, each = 3, 15 // of each side
	for _, other := range besides(t, s) {
		for kind, take := range ours {
			t.Run(other.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				key := fmt.Sprintf("{%s}:%s", t.Name(), kind)
				var counter atomic.Int64 // read and written apart: only the lock makes the sum right
				var count sync.WaitGroup
				work := func() {
					was := counter.Load()
					time.Sleep(mathrand.N(2 * time.Millisecond))
					counter.Store(was + 1)
				}
				for range callers {
					count.Go(func() {
						for range each {
							held, err := take(ctx, key)
							if err != nil {
								t.Error(err)
								return
							}
							work()
							if err := held.Unlock(ctx); err != nil {
								t.Error(err)
							}
						}
					})
					count.Go(func() {
						for n := 0; n < each; {
							unlock, ok, err := other.once(ctx, key)
							if err != nil {
								t.Error(err)
								return
							}
							if !ok {
								time.Sleep(mathrand.N(3 * time.Millisecond))
								continue
							}
							n++
							work()
							if err := unlock(); err != nil {
								t.Error(err)
							}
							time.Sleep(mathrand.N(5 * time.Millisecond)) // so that ours get it too
						}
					})
				}
				count.Wait()
				if n := counter.Load(); n != 2*callers*each {
					t.Errorf("the counter is %d after %d turns", n, 2*callers*each)
				}
			})
		}
	}
}

// TestRedsyncsQuorumBesideARedLock: on the same masters a quorum of redsync and a
// RedLock refuse each other, and each can be had after the other.
func TestRedsyncsQuorumBesideARedLock(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var theirs []redsyncredis.Pool
	var members []*lock.Mutex
	for range 3 {
		_, pool, c := server(t)
		theirs, members = append(theirs, redsyncredigo.NewPool(pool)), append(members, c.Mutex(t.Name()))
	}
	red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
	if err != nil {
		t.Fatal(err)
	}
	quorum := redsync.New(theirs...)
	once := func() *redsync.Mutex {
		return quorum.NewMutex(t.Name(), redsync.WithExpiry(time.Minute), redsync.WithTries(1))
	}

	old := once()
	if err := old.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := red.TryLock(ctx); !errors.Is(err, lock.ErrNotAcquired) {
		t.Error("a RedLock where redsync has the quorum:", err)
	}
	if ok, err := old.UnlockContext(ctx); !ok || err != nil {
		t.Error(ok, err)
	}
	held, err := red.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var taken *redsync.ErrTaken
	if err := once().LockContext(ctx); !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
		t.Error("redsync where a RedLock is held:", err)
	}
	if err := held.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if err := once().LockContext(ctx); err != nil {
		t.Error(err)
	}
}
