package lock_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func fairKeys(key string) (queue, scores, signs, channel string) {
	return "redisson_lock_queue:{" + key + "}", "redisson_lock_timeout:{" + key + "}", "{" + key + "}:wheellock_waiters", "redisson_lock__channel:{" + key + "}"
}

func queueOf(t *testing.T, s *redistest.Server, key string) []string {
	t.Helper()
	queue, _, _, _ := fairKeys(key)
	return fixture.Strings(t, s, "LRANGE", queue, 0, -1)
}

func scoreOf(t *testing.T, s *redistest.Server, key, field string) float64 {
	t.Helper()
	_, scores, _, _ := fairKeys(key)
	score, err := redis.Float64(fixture.Do(t, s, "ZSCORE", scores, field), nil)
	require.NoError(t, err)
	return score
}

// javaHolds puts a holder of key into Redis, as a Redisson client leaves it there.
func javaHolds(t *testing.T, s *redistest.Server, key string) {
	fixture.Do(t, s, "HSET", key, javaOwner, 1)
	fixture.Do(t, s, "PEXPIRE", key, 30_000)
}

// javaWaits puts a waiter for key into the queue, as a Redisson client does. Others let it go first
// until the given time.
func javaWaits(t *testing.T, s *redistest.Server, key, field string, until time.Time) {
	queue, scores, _, _ := fairKeys(key)
	fixture.Do(t, s, "ZADD", scores, until.UnixMilli(), field)
	fixture.Do(t, s, "RPUSH", queue, field)
}

const javaOwner = "0b1c1a5e-9a9a-4c7b-8d1e-111111111111:42"

// javaID returns the id of a permit as Redisson gives it to a caller, and its member in Redis.
func javaID(n byte) (id, member string) {
	member = string(bytes.Repeat([]byte{n}, 16))
	return hex.EncodeToString([]byte(member)), member
}

// javaNever is Redisson's deadline of a permit without a lease.
const javaNever int64 = 922337203685477

// requirePermits checks how many permits of a semaphore are available and taken.
func requirePermits(t *testing.T, sem *lock.PermitSemaphore, available, taken int64) {
	t.Helper()
	info, err := sem.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, lock.PermitInfo{Exists: true, Available: available, Taken: taken}, info)
}

// requireGone checks that err says of exactly those permits that they are not taken.
func requireGone(t require.TestingT, err error, ids ...string) {
	var gone *lock.PermitIDError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, ids, gone.IDs)
	require.ErrorIs(t, err, lock.ErrNotHeld)
	require.NotErrorIs(t, err, lock.ErrUnknown)
	for _, id := range ids {
		require.ErrorContains(t, err, id)
	}
}
