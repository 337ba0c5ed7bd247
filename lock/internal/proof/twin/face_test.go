package twin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/script"
)

// TestAServerIsAValueThatOthersCanUse: Redis is the exported type. It gives replies as a client reads them,
// and keys as they are at a given time.
func TestAServerIsAValueThatOthersCanUse(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	hear := func(channel string) int64 { return int64(len(channel)) }
	var r Redis
	require.False(t, r.Delete(now, "m"))
	require.Empty(t, r.String())
	require.Empty(t, r.Text(now, "m"))
	call := func(s *script.Script, keys int, last time.Time, args ...any) (any, []Message, error) {
		return r.Run(now, s, keys, args, last, false, hear)
	}
	reply, told, err := call(script.Acquire, 2, now, "m", []byte("t"), "c:1", 1000, 5, 0)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(1_700_000_000<<20 + 10486)}, reply)
	require.Empty(t, told)
	fields, ttl := r.Fields(now.Add(300*time.Millisecond), "m")
	require.Equal(t, []string{"c:1"}, fields)
	require.Equal(t, 700*time.Millisecond, ttl)
	copied := r

	_, _, err = call(script.Acquire, 2, now.Add(-time.Millisecond), "m", "t", "c:2", 1000, 5, 0)
	require.Equal(t, Refusal("LATE 1700000000000"), err)
	reply, _, err = call(script.Count, 1, time.Time{}, "t")
	require.NoError(t, err)
	require.IsType(t, []byte{}, reply)

	reply, told, err = call(script.Release, 1, time.Time{}, "m", "c:1", "channel", "publish")
	require.NoError(t, err)
	require.Equal(t, int64(1+len("channel")), reply)
	require.Equal(t, []Message{{"channel", "0"}}, told)
	fields, ttl = r.Fields(now, "m")
	require.Empty(t, fields)
	require.Negative(t, ttl)
	fields, _ = copied.Fields(now, "m")
	require.Equal(t, []string{"c:1"}, fields, "the copy is as it was")
	require.Equal(t, []string{"m", "t"}, copied.Keys(now))
	require.True(t, copied.Exists(now, "m"))
	require.False(t, copied.Exists(now.Add(1001*time.Millisecond), "m"))
	require.True(t, copied.Delete(now, "m"))
	fields, _ = copied.Fields(now, "m")
	require.Empty(t, fields)

	r.SetText(now, "s", "3")
	require.Equal(t, "3", r.Text(now, "s"))
	_, ttl = r.Fields(now, "s")
	require.Negative(t, ttl, "it does not end")
	_, _, err = call(script.Acquire, 2, time.Time{}, "m", "t", "c:1", 0, 5, 0)
	require.IsType(t, Refusal(""), err)
	_, _, err = call(script.Reenter, 2, time.Time{}, "s")
	require.ErrorContains(t, err, "fewer arguments")
}

// TestOtherClientsOfAServer: Enter, Leave and SetNew do what clients of other libraries do.
func TestOtherClientsOfAServer(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	var r Redis
	require.False(t, r.Leave(now, "m", "j:1"))
	require.Zero(t, r.Enter(now, "m", "j:1", time.Second))
	require.Equal(t, time.Second, r.Enter(now, "m", "j:2", time.Second))
	require.False(t, r.Leave(now, "m", "j:2"))
	require.False(t, r.SetNew(now, "m", "x", time.Second))
	reply, _, err := r.Run(now, script.Acquire, 2, []any{"m", "t", "c:1", 1000, 5, 0}, time.Time{}, false, func(string) int64 { return 0 })
	require.NoError(t, err)
	require.Equal(t, int64(0), reply.([]any)[0], "it is another's")
	require.True(t, r.Leave(now, "m", "j:1"))
	require.False(t, r.Exists(now, "m"))
	require.True(t, r.SetNew(now, "m", "x", time.Second))
	require.Equal(t, time.Second, r.Enter(now, "m", "j:1", time.Second))
	require.False(t, r.Leave(now, "m", "x"))
	require.Equal(t, "x", r.Text(now, "m"))
	require.False(t, r.Exists(now.Add(1001*time.Millisecond), "m"))
}

// TestKeysCanBeCarriedToAnotherServer with their fields and leases; the others stay.
func TestKeysCanBeCarriedToAnotherServer(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	var from, to Redis
	from.Carry(now, &to, now, func(string) bool { return true })
	require.Empty(t, to.Keys(now))
	require.Zero(t, from.Enter(now, "m", "j:1", time.Second))
	from.SetText(now, "n", "1")
	to.SetText(now, "z", "2")
	from.Carry(now.Add(time.Millisecond), &to, now.Add(time.Minute), func(key string) bool { return key == "m" })
	require.Equal(t, []string{"n"}, from.Keys(now))
	require.Equal(t, []string{"m", "z"}, to.Keys(now))
	fields, ttl := to.Fields(now.Add(time.Minute), "m")
	require.Equal(t, []string{"j:1"}, fields)
	require.Equal(t, 999*time.Millisecond, ttl)
}

// TestAScriptEndsAtAKeyThatHasGoneAhead of its slot, and a renewal returns that error for its key. A server
// that does not know that the slot is leaving would let a writer in beside a reader.
func TestAScriptEndsAtAKeyThatHasGoneAhead(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for _, leaving := range []bool{true, false} {
		var r Redis
		run := func(s *script.Script, keys int, args ...any) (any, error) {
			reply, _, err := r.Run(now, s, keys, args, time.Time{}, leaving, func(string) int64 { return 0 })
			return reply, err
		}
		for _, field := range []string{"c:1:1", "c:1:2"} {
			timeout := "{rw}:" + field + ":rwlock_timeout:1"
			_, err := run(script.RwRead, 3, "rw", timeout, "w", field, 1000, "", 1, "{rw}", "channel", "publish")
			require.NoError(t, err)
			require.True(t, r.Delete(now, timeout))
		}
		gone, err := run(script.RwRenew, 1, "rw", 1000, "c:1:", "1")
		require.NoError(t, err)
		reply, err := run(script.RwWrite, 2, "rw", "w", "c:1:3:write", 1000, "", 0, "{rw}", "channel", "publish", "c:1:2")
		if leaving {
			require.Equal(t, Refusal(nonLocal), err)
			require.Equal(t, []any{[]any{int64(1), []byte(nonLocal)}}, gone)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), int64(1)}, reply, "a writer beside a reader")
		require.Equal(t, []any{int64(1)}, gone)
	}
}
