package integration_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// The fuzz targets have a miniredis each, which is fast and needs no program.
// Their corpus is in testdata/fuzz.

// arena has the server of a fuzz target.
type arena struct {
	server *redistest.Server
	conn   redis.Conn // of the test, not of a client
}

func newArena(f *testing.F) *arena {
	s := fixture.Mini(f)
	return &arena{s, fixture.Dial(f, s)}
}

func (a *arena) do(t *testing.T, name string, args ...any) any {
	t.Helper()
	return fixture.DoOn(t, a.conn, name, args...)
}

// client empties the server and returns a client of it that is closed after the input.
func (a *arena) client(t *testing.T, cfg lock.Config) (*lock.Client, error) {
	t.Helper()
	a.do(t, "FLUSHALL")
	pool := a.server.Pool(0)
	t.Cleanup(func() { _ = pool.Close() })
	c, err := lock.New(pool, cfg)
	if err == nil {
		t.Cleanup(func() { _ = c.Close(bounded.Context(t)) })
	}
	return c, err
}

// keys returns the keys on the server. It leaves out the token counters, which must stay, and, if
// memory is not empty, the keys with a TTL that have memory in their names.
func (a *arena) keys(t *testing.T, memory string) []string {
	t.Helper()
	all, err := redis.Strings(a.do(t, "KEYS", "*"), nil)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(key string) bool {
		return strings.HasSuffix(key, "wheellock_token") || strings.HasPrefix(key, "redisson_lock_token:") ||
			memory != "" && strings.Contains(key, memory) && a.do(t, "PTTL", key).(int64) > 0
	})
}

// requireClearError checks that an error is one of this package, and a definite one.
func requireClearError(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.True(t, strings.HasPrefix(err.Error(), "lock: "), "%q", err)
	require.NotErrorIs(t, err, lock.ErrUnknown)
	require.NotErrorIs(t, err, lock.ErrLost)
}

// keyOfAnother matches the names that are keys of other locks, or counters of tokens, or
// have their keys in common with other names.
var keyOfAnother = regexp.MustCompile(`(?s)^redisson_(?:lock_queue|lock_timeout|lock_token|unlock_latch):.*\{|` +
	`\{.*:(?:timeout|wheellock_(?:waiters|writers|polls|result)|rwlock_timeout:\d+)$|^\{[^{]+\}$|wheellock_token(?::\{\d+\})?$`)

// hashTag matches a prefix that decides the slot of the keys that begin with it.
var hashTag = regexp.MustCompile(`^[^{}]*\{[^}]+\}`)

func isValidName(prefix, name string) bool {
	key := prefix + name
	return name != "" && len(key) <= 1<<16 && !keyOfAnother.MatchString(key)
}

func isValidLease(d time.Duration) bool {
	return d >= lock.MinLease && d <= lock.MaxLease && d%time.Millisecond == 0
}

// FuzzLock takes, enters again and releases a lock of any name for any owner and
// lease. Either all of it works and leaves nothing behind, or an error names the
// fault and nothing was done.
func FuzzLock(f *testing.F) {
	a := newArena(f)
	for kind := range byte(5) {
		f.Add("", "order:42", "", int64(10*time.Second), kind)
		f.Add("app:", "{order}:42", "worker-7", int64(lock.MinLease), kind)
		f.Add("{", "}", "a:b:1", int64(lock.MaxLease), kind)
		f.Add("", "wheellock_token", "owner", int64(time.Second), kind)
		f.Add("{t}:", "a:wheellock_writers", "owner", int64(time.Second), kind)
		f.Add("redisson_lock_queue:", "{a}", "owner", int64(time.Second), kind)
		f.Add("", "{a}", "owner", int64(time.Second), kind)
		f.Add("\x00\xff", "\r\n*1\r\n", "\x00", int64(time.Second), kind)
	}
	f.Add("prefix", "", "owner", int64(time.Second), byte(0))
	f.Add("", "m", strings.Repeat("o", 201), int64(time.Second), byte(0))
	f.Add("", strings.Repeat("m", 1<<16+1), "owner", int64(time.Second), byte(0))
	for _, d := range []int64{0, -1, 1, int64(lock.MinLease) - 1, int64(lock.MinLease) + 1, int64(lock.MaxLease) + 1, -1 << 63, 1<<63 - 1} {
		f.Add("", "m", "owner", d, byte(1))
	}
	f.Fuzz(func(t *testing.T, prefix, name, owner string, lease int64, kind byte) {
		d := time.Duration(lease)
		c, err := a.client(t, lock.Config{KeyPrefix: prefix})
		if strings.ContainsAny(prefix, "{}") && !hashTag.MatchString(prefix) {
			requireClearError(t, err)
			return
		}
		require.NoError(t, err)
		take := func(ctx context.Context, m interface {
			TryLockFor(context.Context, time.Duration) (*lock.Held, error)
		},
		) (*lock.Held, error) {
			return m.TryLockFor(ctx, d)
		}
		takes := []func(context.Context) (*lock.Held, error){
			func(ctx context.Context) (*lock.Held, error) { return take(ctx, c.Mutex(name)) },
			func(ctx context.Context) (*lock.Held, error) { return take(ctx, c.FencedMutex(name)) },
			func(ctx context.Context) (*lock.Held, error) { return take(ctx, c.FairMutex(name)) },
			func(ctx context.Context) (*lock.Held, error) { return take(ctx, c.RWMutex(name).Writer()) },
			func(ctx context.Context) (*lock.Held, error) { return c.RWMutex(name).Reader().TryLockFor(ctx, d) },
		}
		lockFor := takes[int(kind)%len(takes)]
		writeFor := takes[min(int(kind)%len(takes), 3)] // readers exclude no readers
		ctx, wellOwned := bounded.Context(t), true
		if owner != "" {
			ctx, wellOwned = lock.WithOwner(ctx, owner), len(owner) <= 200
		}
		held, err := lockFor(ctx)
		if !isValidName(prefix, name) || !isValidLease(d) || !wellOwned {
			requireClearError(t, err)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			require.Empty(t, a.do(t, "KEYS", "*"))
			return
		}
		if errors.Is(err, lock.ErrUnknown) && d < 10*time.Second { // the lease was over before a busy machine went on
			requireClearError(t, err)
			require.Eventually(t, func() bool { return len(a.keys(t, "")) == 0 }, time.Minute, 10*time.Millisecond)
			return
		}
		require.NoError(t, err)
		require.Equal(t, prefix+name, held.Name())
		pttl := a.do(t, "PTTL", prefix+name).(int64)
		require.Positive(t, pttl)
		require.LessOrEqual(t, pttl, d.Milliseconds())
		if d >= 10*time.Second { // a busy machine may let less expire
			inner, err := lockFor(held.Context(bounded.Context(t)))
			require.NoError(t, err)
			require.Equal(t, 2, inner.Count())
			_, err = writeFor(bounded.Context(t))
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			requireClearError(t, err)
			require.NoError(t, inner.Unlock(ctx))
			require.True(t, held.Valid())
			require.NoError(t, held.Unlock(ctx))
		} else if err := held.Unlock(ctx); err != nil {
			require.ErrorIs(t, err, lock.ErrLost)
		}
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
		require.Empty(t, a.keys(t, ""))
	})
}

// FuzzCounts sets, takes, adds and gives back any number of permits and counts.
// Either the sums are right, or an error names the fault and the sums stay the same.
func FuzzCounts(f *testing.F) {
	a := newArena(f)
	f.Add("s", int64(3), int64(2), int64(1), int64(2))
	f.Add("{s}", int64(0), int64(1), int64(-1), int64(1))
	f.Add("s{", int64(1<<31-1), int64(1<<31-1), int64(-(1<<31 - 1)), int64(1<<31-1))
	f.Add("", int64(1), int64(1), int64(1), int64(1))
	f.Add("s", int64(-1), int64(0), int64(0), int64(0))
	f.Add("s", int64(1000), int64(1001), int64(1<<31-1), int64(-1))
	f.Add("s", int64(1000), int64(1000), int64(1<<31-1001), int64(1))
	f.Add("wheellock_token", int64(1<<53), int64(-1<<63), int64(-1<<63), int64(1<<63-1))
	const most = 1<<31 - 1
	f.Fuzz(func(t *testing.T, name string, set, take, add, give int64) {
		c, err := a.client(t, lock.Config{})
		require.NoError(t, err)
		ctx := bounded.Context(t)
		s, free := c.Semaphore(name), int64(0)
		check := func(err error, ok bool, change int64) {
			t.Helper()
			if !ok {
				requireClearError(t, err)
			} else {
				require.NoError(t, err)
				free += change
			}
			if isValidName("", name) {
				n, err := s.Available(ctx)
				require.NoError(t, err)
				require.Equal(t, free, n)
			}
		}
		named := isValidName("", name)
		within := func(n, least int64) bool { return named && n >= least && n <= most }
		_, err = s.TrySet(ctx, set)
		check(err, within(set, 0), set)
		err = s.TryAcquire(ctx, take)
		if within(take, 1) && take > free {
			var permits *lock.PermitsError
			require.ErrorAs(t, err, &permits)
			require.Equal(t, []int64{take, free}, []int64{permits.Wanted, permits.Free})
		}
		check(err, within(take, 0) && (take == 0 || take <= free), -take) // none are always free
		check(s.Add(ctx, add), within(add, -most) && free+add <= most, add)
		check(s.Release(ctx, give), within(give, 0) && (give == 0 || free+give <= most), give)
		if named {
			drained, err := s.Drain(ctx)
			require.NoError(t, err)
			require.Equal(t, max(free, 0), drained)
		}

		a.do(t, "FLUSHALL")
		p := c.PermitSemaphore(name)
		_, err = p.TrySet(ctx, set)
		require.Equal(t, within(set, 0), err == nil, err)
		held, err := p.TryAcquire(ctx, take)
		switch {
		case !named || take < 1 || take > 1000:
			requireClearError(t, err)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
		case !within(set, 0) || take > set:
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			requireClearError(t, err)
		default:
			require.NoError(t, err)
			require.Len(t, held.Permits(), int(take))
			info, err := p.Inspect(ctx)
			require.NoError(t, err)
			require.Equal(t, set-take, info.Available)
			require.NoError(t, held.Unlock(ctx))
			info, err = p.Inspect(ctx)
			require.NoError(t, err)
			require.Equal(t, set, info.Available)
		}

		a.do(t, "FLUSHALL")
		l := c.CountDownLatch(name)
		_, err = l.TrySet(ctx, set)
		if !within(set, 1) {
			requireClearError(t, err)
			require.Empty(t, a.do(t, "KEYS", "*"))
			return
		}
		require.NoError(t, err)
		for left := set - 1; left >= max(set-3, 0); left-- {
			require.NoError(t, l.CountDown(ctx))
			n, err := l.Count(ctx)
			require.NoError(t, err)
			require.Equal(t, left, n)
		}
		_, err = l.Reset(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Wait(ctx))
		require.Empty(t, a.keys(t, c.ID()), "but for the answers to requests, for a while")
	})
}

// FuzzValue puts any text, or any hash, where a lock or a counter should be: a
// lock is not taken, nothing is changed, and the error is clear.
func FuzzValue(f *testing.F) {
	a := newArena(f)
	for _, h := range hostiles {
		for i, v := range h.put {
			if text, ok := v.(string); ok && i > 0 && len(text) < 100 {
				f.Add(text, javas, false, byte(i))
				f.Add(text, javas, true, byte(i))
				f.Add(text, "mode", true, byte(3+i%2))
			}
		}
	}
	f.Fuzz(func(t *testing.T, value, field string, hash bool, at byte) {
		c, err := a.client(t, lock.Config{})
		require.NoError(t, err)
		ctx := bounded.Context(t)
		key := "k"
		o := family(c, key)[int(at)%7]
		beside := int(at)/7%(len(o.others)+1) - 1
		if beside >= 0 {
			key = o.others[beside]
		} else if at%2 == 0 && o.kind == "mutex" {
			key = "wheellock_token"
		}
		if hash {
			a.do(t, "HSET", key, field, value)
		} else {
			a.do(t, "SET", key, value)
		}
		before := fmt.Sprint(a.do(t, "TYPE", key), a.content(t, key, hash))
		for _, d := range o.operations {
			if d.name == "Lock" || d.name == "RLock" || d.name == "Acquire" || d.name == "Wait" {
				continue // they take their time; the others say the same
			}
			err := d.do(ctx)
			if err != nil {
				require.True(t, strings.HasPrefix(err.Error(), "lock: "), "%s of a %s: %q", d.name, o.name, err)
				require.NotErrorIs(t, err, lock.ErrUnknown, "%s of a %s", d.name, o.name)
			}
			if key != "k" {
				continue
			}
			switch {
			case o.kind == "counter" && !hash:
			case o.kind == "rw" && hash && field == "mode": // with nobody in it: that is none
			default:
				require.Equal(t, before, fmt.Sprint(a.do(t, "TYPE", key), a.content(t, key, hash)), "%s of a %s: %v", d.name, o.name, err)
				require.False(t, err == nil && strings.HasPrefix(d.name, "Try") && d.name != "TrySet", "%s of a %s", d.name, o.name)
			}
		}
		if key != "k" {
			return
		}
		if o.force == nil || a.do(t, "EXISTS", key) == int64(0) {
			return
		}
		if was, err := o.force(ctx); !was {
			require.ErrorIs(t, err, lock.ErrNotALock)
			require.Equal(t, before, fmt.Sprint(a.do(t, "TYPE", key), a.content(t, key, hash)))
		}
	})
}

// content returns the value of a key, which is text or a hash.
func (a *arena) content(t *testing.T, key string, hash bool) any {
	t.Helper()
	if hash {
		return a.do(t, "HGETALL", key)
	}
	return a.do(t, "GET", key)
}
