package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/wheellock/wheellock/lock"
)

// lease is the TTL of every lock: wheellock's default.
const lease = 30 * time.Second

// conns is the size of the pools of clients that use a connection a call: the best for 128
// goroutines on two cores of 16, 32, 64 and 128.
const conns = 64

// locker is a client library. lock waits for the lock of that name until ctx ends.
type locker interface {
	lock(ctx context.Context, name string) (unlocker, error)
	close()
}

type unlocker interface {
	unlock(context.Context) error
}

// newLocker returns the client of that name. One that polls waits between two tries for pause to twice
// that, at random.
func newLocker(impl string, pause time.Duration) locker {
	switch impl {
	case "wheellock":
		return ours{must(lock.Open("redis://"+*addr, lock.Config{Lease: lease}))}
	case "wheellock-pool": // a pool of the program's own, dialled by redigo
		return ours{must(lock.New(newPool(0), lock.Config{Lease: lease}))}
	case "redsync":
		return newRedsync(redsync.WithRetryDelayFunc(func(int) time.Duration { return between(pause) }))
	case "redsync-default": // 50 to 250 ms
		return newRedsync()
	case "redislock":
		return newRedislock(retry(pause))
	case "redislock-default": // does not wait by default; this is its README's way
		return newRedislock(redislock.LinearBackoff(100 * time.Millisecond))
	case "rueidislock":
		// As its README says for one Redis of 7.0.5 or later. Its 20 ms for the answer of one key would
		// give up on a busy server.
		return newRueidis(rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true, KeyValidity: lease, TryNextAfter: time.Second})
	case "rueidislock-default":
		return newRueidis(rueidislock.LockerOption{})
	}
	panic("no such implementation: " + impl)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newPool(size int) *redis.Pool {
	return &redis.Pool{
		Dial:      func() (redis.Conn, error) { return redis.Dial("tcp", *addr) },
		MaxActive: size, MaxIdle: size, Wait: true,
	}
}

// ours is wheellock with its defaults: a lease of 30 s, renewed; two connections for commands.
type ours struct{ c *lock.Client }

type ourHeld struct{ *lock.Held }

func (o ours) lock(ctx context.Context, name string) (unlocker, error) {
	held, err := o.c.Mutex(name).Lock(ctx)
	return ourHeld{held}, err
}

func (h ourHeld) unlock(ctx context.Context) error { return h.Unlock(ctx) }

func (o ours) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = o.c.Close(ctx)
}

// redSync is redsync over redigo; it tries until the context ends, as often as it takes. It does not
// renew.
type redSync struct {
	pool    *redis.Pool
	sync    *redsync.Redsync
	options []redsync.Option
}

type redsyncHeld struct{ *redsync.Mutex }

func newRedsync(options ...redsync.Option) locker {
	pool := newPool(conns)
	options = append(options, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
	return &redSync{pool, redsync.New(redsyncredigo.NewPool(pool)), options}
}

func (r *redSync) lock(ctx context.Context, name string) (unlocker, error) {
	m := r.sync.NewMutex(name, r.options...)
	return redsyncHeld{m}, m.LockContext(ctx)
}

func (h redsyncHeld) unlock(ctx context.Context) error {
	_, err := h.UnlockContext(ctx)
	return err
}

func (r *redSync) close() { _ = r.pool.Close() }

// redisLock is redislock over go-redis, likewise. It does not renew.
type redisLock struct {
	client *goredis.Client
	locker *redislock.Client
	opt    *redislock.Options
}

type redislockHeld struct{ *redislock.Lock }

func newRedislock(r redislock.RetryStrategy) locker {
	client := goredis.NewClient(&goredis.Options{Addr: *addr, PoolSize: conns})
	return &redisLock{client, redislock.New(client), &redislock.Options{RetryStrategy: r}}
}

// retry is a redislock.RetryStrategy.
type retry time.Duration

func (r retry) NextBackoff() time.Duration { return between(time.Duration(r)) }

func (r *redisLock) lock(ctx context.Context, name string) (unlocker, error) {
	l, err := r.locker.Obtain(ctx, name, lease, r.opt)
	return redislockHeld{l}, err
}

func (h redislockHeld) unlock(ctx context.Context) error { return h.Release(ctx) }

func (r *redisLock) close() { _ = r.client.Close() }

// rueidisLock is rueidislock, which waits by client-side caching and renews by itself, from a goroutine a lock.
type rueidisLock struct{ locker rueidislock.Locker }

type rueidisHeld context.CancelFunc

func newRueidis(option rueidislock.LockerOption) locker {
	option.ClientOption = rueidis.ClientOption{InitAddress: []string{*addr}}
	return rueidisLock{must(rueidislock.NewLocker(option))}
}

func (r rueidisLock) lock(ctx context.Context, name string) (unlocker, error) {
	_, cancel, err := r.locker.WithContext(ctx, name)
	return rueidisHeld(cancel), err
}

func (h rueidisHeld) unlock(context.Context) error {
	h()
	return nil
}

func (r rueidisLock) close() { r.locker.Close() }

// between is a time at random from d to twice that.
func between(d time.Duration) time.Duration { return d + rand.N(d) }
