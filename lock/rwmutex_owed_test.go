package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// TestAnOwedWriterLeavesTheLockToItsReaders: the field of a writer whose Unlock was not answered is
// owed, so the next acquire script removes it.
func TestAnOwedWriterLeavesTheLockToItsReaders(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	c := fixture.ClientOver(t, st, lock.Config{IOTimeout: 200 * time.Millisecond, UnlockTimeout: 300 * time.Millisecond})
	other := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mu := c.RWMutex(t.Name())
	w, err := mu.Writer().Lock(ctx)
	require.NoError(t, err)
	r, err := mu.Reader().Lock(w.Context(ctx))
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() {
		held, err := other.RWMutex(t.Name()).Reader().Lock(ctx)
		if err == nil {
			err = held.Unlock(ctx)
		}
		waits <- err
	}()
	fixture.AwaitSubscribers(t, s, "redisson_rwlock:{"+t.Name()+"}", 1)
	st.HoldBack("rw_write_release")
	require.ErrorIs(t, w.Unlock(ctx), lock.ErrUnknown)
	st.LetThrough()
	require.NoError(t, bounded.Receive(t, waits))
	require.Equal(t, "read", fixture.Hash(t, s, t.Name())["mode"])
	require.True(t, r.Valid())
	require.NoError(t, fixture.RetryUntilKnown(func() error { return r.Unlock(ctx) }))
	require.False(t, fixture.Exists(t, s, t.Name()))
}

// TestAWriteLeaseThatEndsWhileItsOwnerReadsLeavesTheLockToReaders: the reader
// renews the key, so the writer's field does not end with it.
func TestAWriteLeaseThatEndsWhileItsOwnerReadsLeavesTheLockToReaders(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	other := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mu := c.RWMutex(t.Name())
	w, err := mu.Writer().LockFor(ctx, time.Second)
	require.NoError(t, err)
	r, err := mu.Reader().Lock(w.Context(ctx))
	require.NoError(t, err)
	bounded.Receive(t, w.Done())
	held, err := other.RWMutex(t.Name()).Reader().Lock(ctx)
	require.NoError(t, err)
	require.True(t, r.Valid())
	hash := fixture.Hash(t, s, t.Name())
	require.Len(t, hash, 3)
	require.Equal(t, "read", hash["mode"])
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, r.Unlock(ctx))
	require.ErrorIs(t, w.Unlock(ctx), lock.ErrLost)
	fixture.AwaitGone(t, s, t.Name())
}

// TestReadersWhoseLeasesEndLeaveNoFields, even while another reader keeps the key alive.
func TestReadersWhoseLeasesEndLeaveNoFields(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	mu := c.RWMutex(t.Name())
	r := fixture.Hold(t, mu.Reader().Lock)
	for range 5 {
		short, err := mu.Reader().LockFor(ctx, 100*time.Millisecond)
		require.NoError(t, err)
		bounded.Receive(t, short.Done())
	}
	require.Eventually(t, func() bool { return len(fixture.Hash(t, s, t.Name())) == 2 }, time.Minute, 10*time.Millisecond)
	require.True(t, r.Valid())
	require.NoError(t, r.Unlock(ctx))
}

// putRW puts a read-write lock at key. timeouts are the leases of its readers, in ms.
func putRW(t *testing.T, s *redistest.Server, key, mode string, fields map[string]int, timeouts map[string]int) {
	fixture.Do(t, s, "DEL", key, "{"+key+"}:wheellock_writers")
	fixture.Do(t, s, "HSET", key, "mode", mode)
	for field, n := range fields {
		fixture.Do(t, s, "HSET", key, field, n)
		fixture.Do(t, s, "DEL", "{"+key+"}:"+field+":rwlock_timeout:1")
	}
	fixture.Do(t, s, "PEXPIRE", key, 500_000)
	for field, ms := range timeouts {
		fixture.Do(t, s, "SET", "{"+key+"}:"+field+":rwlock_timeout:1", 1, "PX", ms)
	}
}

// TestAFieldThatGoesTakesTheModeAlong: every script that removes a field corrects the mode of the
// lock, on a server and in memory.
func TestAFieldThatGoesTakesTheModeAlong(t *testing.T) {
	const w, r, r2, dead = "c:1:1:write", "c:1:2", "c:2:3", "c:3:4"
	for where, s := range shared.MiniAndServer(t) {
		t.Run(where, func(t *testing.T) {
			key := t.Name()
			timeout := func(f string) string { return "{" + key + "}:" + f + ":rwlock_timeout:1" }
			writers, channel, prefix := "{"+key+"}:wheellock_writers", "redisson_rwlock:{"+key+"}", "{"+key+"}"
			run := func(sc *script.Script, keys int, args ...any) any {
				args = append([]any{sc.Text(), keys}, args...)
				if sc.Expires() {
					args = append(args, 0)
				}
				return fixture.Do(t, s, "EVAL", args...)
			}
			read := func(owed ...any) any {
				return run(script.RwRead, 3, append([]any{key, timeout("c:9:9"), writers, "c:9:9", 1000, "", 1, prefix, channel, "publish"}, owed...)...)
			}
			write := func(owed ...any) any {
				return run(script.RwWrite, 2, append([]any{key, writers, "c:9:9:write", 1000, "", 0, prefix, channel, "publish"}, owed...)...)
			}
			writeRelease := func(f string) any {
				return run(script.RwWriteRelease, 2, key, writers, f, channel, prefix)
			}
			readRelease := func(f string) any {
				return run(script.RwReadRelease, 3, key, timeout(f), writers, f, channel, prefix)
			}
			yes := func(t *testing.T, reply any, want int64) {
				values, err := redis.Values(reply, nil)
				require.NoError(t, err)
				require.Equal(t, want, values[0])
			}
			psc := listener(t, s, channel)
			mode := func(want string, fields ...string) {
				t.Helper()
				hash := fixture.Hash(t, s, key)
				require.Equal(t, want, hash["mode"])
				require.Len(t, hash, 1+len(fields))
				for _, f := range fields {
					require.Contains(t, hash, f)
				}
			}
			both := map[string]int{w: 1, r: 1, dead: 1}

			// An owed writer with a reader: a reader comes in, a writer does not.
			putRW(t, s, key, "write", both, map[string]int{r: 70_000})
			yes(t, read(w), 1)
			mode("read", r, dead, "c:9:9")
			requireMessage(t, psc, "1")
			require.LessOrEqual(t, fixture.PTTL(t, s, key), int64(70_000))
			putRW(t, s, key, "write", both, map[string]int{r: 70_000})
			yes(t, write(w), 0)
			mode("read", r, dead)
			requireMessage(t, psc, "1")
			require.LessOrEqual(t, fixture.PTTL(t, s, key), int64(70_000))
			require.Greater(t, fixture.PTTL(t, s, key), int64(50_000))
			require.EqualValues(t, -1, writeRelease(w), "a copy that is late")
			mode("read", r, dead)
			putRW(t, s, key, "write", both, map[string]int{r: 70_000})
			require.Positive(t, writeRelease(w))
			mode("read", r, dead)
			requireMessage(t, psc, "1")

			// An owed reader beside a writer: the mode stays write.
			putRW(t, s, key, "write", both, map[string]int{r: 70_000})
			yes(t, read(r), 0)
			yes(t, write(r), 0)
			mode("write", w, dead)
			require.Greater(t, fixture.PTTL(t, s, key), int64(400_000))
			require.EqualValues(t, -1, readRelease(dead), "its time was over")
			mode("write", w)

			// No field remains but the new one.
			for _, owed := range [][]any{{w, r}, {w, r, "x:1"}} {
				putRW(t, s, key, "write", map[string]int{w: 1, r: 1}, map[string]int{r: 70_000})
				yes(t, write(owed...), 1)
				mode("write", "c:9:9:write")
				putRW(t, s, key, "write", map[string]int{w: 1, r: 1}, map[string]int{r: 70_000})
				yes(t, read(owed...), 1)
				mode("read", "c:9:9")
			}
			// The remaining fields have no lease any more.
			putRW(t, s, key, "write", both, nil)
			yes(t, write(w), 1)
			mode("write", "c:9:9:write")
			putRW(t, s, key, "read", map[string]int{r: 1, r2: 1}, nil)
			yes(t, write(r), 1)
			mode("write", "c:9:9:write")

			// An owed reader among readers.
			putRW(t, s, key, "read", map[string]int{r: 1, r2: 1}, map[string]int{r: 70_000, r2: 60_000})
			yes(t, write(r), 0)
			mode("read", r2)
			require.LessOrEqual(t, fixture.PTTL(t, s, key), int64(60_000))
			require.Zero(t, fixture.Do(t, s, "EXISTS", timeout(r)))

			// What an earlier client has left without its writer.
			for name, heal := range map[string]func() any{
				"read": func() any { return read() }, "write": func() any { return write() },
				"read_release": func() any { return readRelease(r2) },
			} {
				putRW(t, s, key, "write", map[string]int{r: 1, r2: 1}, map[string]int{r: 70_000, r2: 60_000})
				heal()
				require.Equal(t, "read", fixture.Hash(t, s, key)["mode"], name)
				require.Contains(t, fixture.Hash(t, s, key), r)
			}

			// A lock of another sort is left as it is.
			fixture.Do(t, s, "DEL", key)
			fixture.Do(t, s, "HSET", key, r, 1)
			yes(t, read(w), 0)
			yes(t, write(w), 0)
			require.Equal(t, map[string]string{r: "1"}, fixture.Hash(t, s, key))
		})
	}
}
