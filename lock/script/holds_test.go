package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

// TestAReplicaDoesNotSayThatAHoldIsGone: it may not have got the hold yet.
func TestAReplicaDoesNotSayThatAHoldIsGone(t *testing.T) {
	s := fixture.Server(t)
	conn := fixture.Dial(t, s)
	fixture.DoOn(t, conn, "HSET", "there", "c:1:1", 1)
	fixture.DoOn(t, conn, "SET", "text", "x")
	reenter := func(key string) (int64, error) {
		return redis.Int64(conn.Do("EVAL", script.Reenter.Text(), 1, key, "c:1:1", 2, 1000, 0))
	}
	for _, key := range []string{"absent", "text"} {
		n, err := reenter(key)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	fixture.DoOn(t, conn, "REPLICAOF", "127.0.0.1", 1)
	_, err := reenter("absent")
	require.ErrorContains(t, err, "READONLY")
	renew := func(keys ...any) ([]any, error) {
		args := append([]any{script.Renew.Text(), len(keys)}, keys...)
		args = append(args, 1000, "c:")
		for range keys {
			args = append(args, "1:1")
		}
		return redis.Values(conn.Do("EVAL", append(args, 0)...))
	}
	_, err = renew("there", "absent", "text") // the answer is an error of the call, so that the connection is given up
	require.ErrorContains(t, err, "READONLY")
	_, err = conn.Do("EVAL", script.PermitExtend.Text(), 1, "absent", "aaaaaaaaaaaa1", now+1000, now, 0)
	require.ErrorContains(t, err, "READONLY")
}

// TestAReplicaDoesNotSayThatAHoldIsThere: a former master that lost its way to the new one may have a hold
// for long after the new one has given the lock to another. Nothing needs to be written for these holds.
func TestAReplicaDoesNotSayThatAHoldIsThere(t *testing.T) {
	s := fixture.Server(t)
	conn := fixture.Dial(t, s)
	fixture.DoOn(t, conn, "HSET", "k", "mode", "read", "c:1:1", 1)
	fixture.DoOn(t, conn, "PEXPIRE", "k", 1_000_000)
	fixture.DoOn(t, conn, "SET", "{k}:c:1:1:rwlock_timeout:1", "1", "PX", 1_000_000)
	fixture.DoOn(t, conn, "ZADD", "p", int64(1)<<50, "aaaaaaaaaaaa\x00\x00\x00\x01")
	older := strings.NewReplacer("'gt'", "'gt62'") // as a server before Redis 7
	calls := map[string]func() (any, error){}
	for _, lease := range []int{1, 1000} {
		for name, text := range map[string]string{"renew": script.Renew.Text(), "renew, older": older.Replace(script.Renew.Text()), "rw_renew": script.RwRenew.Text()} {
			calls[fmt.Sprint(name, lease)] = func() (any, error) { return conn.Do("EVAL", text, 1, "k", lease, "c:", "1:1", 0) }
		}
	}
	calls["permit_renew"] = func() (any, error) {
		return conn.Do("EVAL", script.PermitRenew.Text(), 1, "p", 1000, 500, "aaaaaaaaaaaa1", 0)
	}
	for name, call := range calls {
		reply, err := call()
		require.NoError(t, err, name)
		require.Empty(t, reply, name)
	}
	psc := redis.PubSubConn{Conn: fixture.Dial(t, s)}
	require.NoError(t, psc.Subscribe("guarded"))
	require.IsType(t, redis.Subscription{}, psc.Receive())
	for _, command := range [][]any{{"get", "other"}, {"PUBLISH", "guarded", "x"}, {"set", "other", 1}} {
		calls[fmt.Sprint("guard of ", command)] = func() (any, error) {
			return conn.Do("EVAL", append([]any{script.Guard.Text(), 2, "k", "{k}:c:1:1:rwlock_timeout:1", "c:1:1"}, append(command, 0)...)...)
		}
	}
	fixture.DoOn(t, conn, "REPLICAOF", "127.0.0.1", 1)
	for name, call := range calls {
		_, err := call()
		require.ErrorContains(t, err, "READONLY", name)
	}
	fixture.DoOn(t, conn, "PUBLISH", "guarded", "the last")
	require.Equal(t, redis.Message{Channel: "guarded", Data: []byte("the last")}, psc.Receive(), "nothing was published before")
}

// TestAReaderWhoseTimeIsOverIsGone, although another reader keeps the lock's hash, and with it the field.
func TestAReaderWhoseTimeIsOverIsGone(t *testing.T) {
	conn := fixture.Dial(t, fixture.RedisOrMini(t))
	const timeout, other = "{k}:c:1:1:rwlock_timeout:1", "{k}:c:1:2:rwlock_timeout:1"
	fixture.DoOn(t, conn, "HSET", "k", "mode", "read", "c:1:1", 1, "c:1:2", 1)
	fixture.DoOn(t, conn, "PEXPIRE", "k", 1_000_000)
	fixture.DoOn(t, conn, "SET", timeout, "1", "PX", 1_000_000)
	fixture.DoOn(t, conn, "SET", other, "1", "PX", 1_000_000)
	guard := func() any {
		return fixture.DoOn(t, conn, "EVAL", script.Guard.Text(), 3, "k", timeout, "x", "c:1:1", "incr", 0)
	}
	require.Equal(t, []any{int64(1), int64(1)}, guard())
	fixture.DoOn(t, conn, "DEL", timeout)
	require.Equal(t, []any{int64(0)}, guard())
	require.Equal(t, []byte("1"), fixture.DoOn(t, conn, "GET", "x"))
	release := func() any {
		return fixture.DoOn(t, conn, "EVAL", script.RwReadRelease.Text(), 3, "k", timeout, "{k}:wheellock_writers", "c:1:1", "channel", "{k}", "publish")
	}
	for range 2 {
		require.EqualValues(t, -1, release())
		require.Equal(t, int64(0), fixture.DoOn(t, conn, "HEXISTS", "k", "c:1:1"), "it is removed")
	}
	require.Equal(t, int64(1), fixture.DoOn(t, conn, "HEXISTS", "k", "c:1:2"))

	// The message of the end of the last reader is refused.
	fixture.DoOn(t, conn, "DEL", other)
	reply := fixture.DoOn(t, conn, "EVAL", script.RwReadRelease.Text(), 3, "k", other, "{k}:wheellock_writers", "c:1:2", "channel", "{k}", "nosuchcommand")
	require.EqualValues(t, -1, reply.([]any)[0])
	require.Equal(t, int64(0), fixture.DoOn(t, conn, "EXISTS", "k"))
}

// TestAQuestionGivesNoKeyAnEnd: a key without TTL has lost it to somebody. A renewal gives it one. A
// question with a lease of 1 ms, and the Unlock of a re-entry with the least lease, do not.
func TestAQuestionGivesNoKeyAnEnd(t *testing.T) {
	conn := fixture.Dial(t, fixture.RedisOrMini(t))
	fixture.DoOn(t, conn, "HSET", "k", "mode", "read", "c:1:1", 2)
	timeout := "{k}:c:1:1:rwlock_timeout:1"
	fixture.DoOn(t, conn, "SET", timeout, "1")
	for _, ask := range [][]any{
		{script.Renew.Text(), 1, "k", 1, "c:", "1:1", 0},
		{script.RwRenew.Text(), 1, "k", 1, "c:", "1:1", 0},
		{script.Reenter.Text(), 1, "k", "c:1:1", 1, 100, 0},
		{script.RwReadReenter.Text(), 2, "k", timeout, "c:1:1", 1, 100, 0},
	} {
		_, err := conn.Do("EVAL", ask...)
		require.NoError(t, err)
		require.EqualValues(t, -1, fixture.DoOn(t, conn, "PTTL", "k"))
		require.EqualValues(t, -1, fixture.DoOn(t, conn, "PTTL", timeout))
	}
	_, err := conn.Do("EVAL", script.RwRenew.Text(), 1, "k", 5000, "c:", "1:1", 0)
	require.NoError(t, err)
	require.Positive(t, fixture.DoOn(t, conn, "PTTL", "k"))
	require.Positive(t, fixture.DoOn(t, conn, "PTTL", timeout))
}

// TestARepeatedAcquisitionThatIsRefusedKeepsTheHold, because an earlier request was granted. Without
// an earlier request the script takes no lock, because it would never end.
func TestARepeatedAcquisitionThatIsRefusedKeepsTheHold(t *testing.T) {
	conn := fixture.Dial(t, fixture.RedisOrMini(t))
	acquire := func(text string, lease int) error {
		_, err := conn.Do("EVAL", text, 1, "x", "c:1:1", lease, 1, 0, 0, 0)
		return err
	}
	refused := strings.ReplaceAll(script.Acquire.Text(), "redis.pcall('pexpire'", "redis.pcall('pexpire62'")
	require.NotEqual(t, script.Acquire.Text(), refused)
	require.Error(t, acquire(refused, 1000))
	require.Zero(t, fixture.DoOn(t, conn, "EXISTS", "x"))
	require.NoError(t, acquire(script.Acquire.Text(), 10_000))
	require.Error(t, acquire(refused, 20_000))
	require.EqualValues(t, 1, fixture.DoOn(t, conn, "HEXISTS", "x", "c:1:1"))
}
