package script_test

import (
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
