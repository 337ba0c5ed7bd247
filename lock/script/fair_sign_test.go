package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// fairQueue is a fair mutex that another client holds, and its queue.
type fairQueue struct {
	t    *testing.T
	conn redis.Conn
	now  int64 // the clients' clock, by which the scripts go
}

func newFairQueue(t *testing.T) *fairQueue {
	q := &fairQueue{t: t, conn: fixture.Dial(t, fixture.Server(t)), now: now}
	fixture.DoOn(t, q.conn, "FLUSHALL")
	fixture.DoOn(t, q.conn, "HSET", costly, "holder:1:1", 1)
	fixture.DoOn(t, q.conn, "PEXPIRE", costly, 1_000_000)
	return q
}

func (q *fairQueue) run(s *script.Script, names []string, args ...any) []any {
	all := []any{byClientsClock(s), len(names)}
	for _, name := range names {
		all = append(all, name)
	}
	return fixture.DoOn(q.t, q.conn, "EVAL", append(append(all, args...), 0)...).([]any)
}

// take sends fair_take with the n-th sign of a waiter.
func (q *fairQueue) take(field string, n int) []any {
	return q.run(script.FairTake, append(fairKeys, keys.Counter), field, 30_000, 1, q.now, 300_000, fmt.Sprint(n, "/2000"), "", "", 100_000, "channel", "publish", 12_000, 0)
}

// sign sends fair_sign. It returns a digit for each waiter: 1 if nothing was done for it.
func (q *fairQueue) sign(places ...any) (left string) {
	args := append([]any{q.now, 300_000, 100_000, 12_000, "/2000"}, places...)
	return string(q.run(script.FairSign, fairKeys, args...)[3].([]byte))
}

// stands returns the last sign of a waiter, and how far its score is ahead.
func (q *fairQueue) stands(field string) (sign string, ahead int64) {
	score, err := redis.Int64(fixture.DoOn(q.t, q.conn, "ZSCORE", fairKeys[2], field), nil)
	if err != nil {
		return "", 0
	}
	text, _ := redis.String(fixture.DoOn(q.t, q.conn, "HGET", fairKeys[3], field), nil)
	return text, score - q.now
}

// TestARequestOfAWaiterThatComesLateChangesNothing: neither a sign of life nor an attempt to take the
// lock, which has become free.
func TestARequestOfAWaiterThatComesLateChangesNothing(t *testing.T) {
	q := newFairQueue(t)
	q.take("a:1:1", 1)
	q.take("b:1:1", 1)
	q.now += 1000
	require.Equal(t, "00", q.sign("a:1:1", 5, "b:1:1", 2))
	for field, last := range map[string]string{"a:1:1": "5@1001000/2000", "b:1:1": "2@1001000/2000"} {
		sign, ahead := q.stands(field)
		require.Equal(t, last, sign)
		require.EqualValues(t, 12_000, ahead)
	}
	fixture.DoOn(t, q.conn, "DEL", costly)
	q.now += 500
	for _, n := range []int{1, 4, 5} {
		require.Equal(t, "0", q.sign("a:1:1", n))
		require.Equal(t, []any{int64(0), int64(-2), []byte("a:1:1"), []byte("5@1001000/2000"), int64(0)}, q.take("a:1:1", n))
		require.Zero(t, fixture.DoOn(t, q.conn, "EXISTS", costly))
		sign, ahead := q.stands("a:1:1")
		require.Equal(t, "5@1001000/2000", sign)
		require.EqualValues(t, 11_500, ahead)
	}
	require.EqualValues(t, 1, q.take("a:1:1", 6)[0], "its next one takes the lock")
}

// TestASignOfLifeGivesNobodyAPlace: a waiter without a place must send fair_take.
func TestASignOfLifeGivesNobodyAPlace(t *testing.T) {
	q := newFairQueue(t)
	require.Equal(t, "1", q.sign("a:1:1", 1))
	q.take("b:1:1", 1)
	q.take("c:1:1", 1)
	fixture.DoOn(t, q.conn, "LREM", fairKeys[1], 1, "c:1:1")
	fixture.DoOn(t, q.conn, "ZREM", fairKeys[2], "c:1:1") // as Redisson sweeps it
	require.Equal(t, "111", q.sign("a:1:1", 1, "b:1:1", 2, "c:1:1", 2), "its sign is still there")
	fixture.DoOn(t, q.conn, "HDEL", fairKeys[3], "c:1:1")
	require.Equal(t, "101", q.sign("a:1:1", 1, "b:1:1", 3, "c:1:1", 3))
	require.Equal(t, []any{[]byte("b:1:1")}, fixture.DoOn(t, q.conn, "LRANGE", fairKeys[1], 0, -1))
}

// TestTheLastOfOursThatTakesTheLockLeavesAQueueWithoutAnEnd, if Redisson waits behind it. Redisson's
// scripts keep the TTL that the queue has while all its waiters are ours.
func TestTheLastOfOursThatTakesTheLockLeavesAQueueWithoutAnEnd(t *testing.T) {
	for _, isJava := range []bool{false, true} {
		q := newFairQueue(t)
		q.take("a:1:1", 1)
		next, ends := "b:1:1", 0
		if isJava {
			next = "java:1"
			fixture.DoOn(t, q.conn, "RPUSH", fairKeys[1], next)
			fixture.DoOn(t, q.conn, "ZADD", fairKeys[2], q.now+312_000, next)
		} else {
			q.take(next, 1)
			ends = 2
		}
		fixture.DoOn(t, q.conn, "DEL", costly)
		require.EqualValues(t, 1, q.take("a:1:1", 2)[0])
		for _, key := range fairKeys[1:3] {
			if fixture.DoOn(t, q.conn, "PTTL", key).(int64) > 0 {
				ends--
			}
		}
		require.Zero(t, ends, "Redisson waits: %v", isJava)
		require.Equal(t, []any{[]byte(next)}, fixture.DoOn(t, q.conn, "LRANGE", fairKeys[1], 0, -1))
	}
}

// TestWhereRedissonWaitsNoSignIsGivenAlone: the score of a Redisson waiter depends on all scores before
// it. Redisson may have swept as many of our waiters as it has itself, so that the counts are equal.
func TestWhereRedissonWaitsNoSignIsGivenAlone(t *testing.T) {
	for _, swept := range []bool{false, true} {
		q := newFairQueue(t)
		q.take("a:1:1", 1)
		q.take("b:1:1", 1)
		if swept {
			fixture.DoOn(t, q.conn, "LREM", fairKeys[1], 1, "b:1:1")
			fixture.DoOn(t, q.conn, "ZREM", fairKeys[2], "b:1:1")
		}
		fixture.DoOn(t, q.conn, "RPUSH", fairKeys[1], "java:1")
		fixture.DoOn(t, q.conn, "ZADD", fairKeys[2], q.now+312_000, "java:1")
		q.now += 1000
		require.Equal(t, "1", q.sign("a:1:1", 2), "swept: %v", swept)
		sign, _ := q.stands("a:1:1")
		require.True(t, strings.HasPrefix(sign, "1@"), sign)
	}
}

// TestAQueueOfTheDeadEndsAlsoAfterSigns, and lives as long as signs are given.
func TestAQueueOfTheDeadEndsAlsoAfterSigns(t *testing.T) {
	q := newFairQueue(t)
	q.take("a:1:1", 1)
	for _, key := range fairKeys[1:] {
		fixture.DoOn(t, q.conn, "PEXPIRE", key, 1000)
	}
	require.Equal(t, "0", q.sign("a:1:1", 2))
	for _, key := range fairKeys[1:] {
		ttl, err := redis.Int64(fixture.DoOn(t, q.conn, "PTTL", key), nil)
		require.NoError(t, err)
		require.InDelta(t, 100_000, ttl, 50_000)
	}
	fixture.DoOn(t, q.conn, "PERSIST", fairKeys[1]) // as where Redisson has waited
	require.Equal(t, "0", q.sign("a:1:1", 3))
	require.NotEqualValues(t, -1, fixture.DoOn(t, q.conn, "PTTL", fairKeys[1]))
}

// TestASignOfLifeNeedsNoMemory: without a sign a living waiter would be passed over.
func TestASignOfLifeNeedsNoMemory(t *testing.T) {
	q := newFairQueue(t)
	q.take("a:1:1", 1)
	fixture.DoOn(t, q.conn, "CONFIG", "SET", "maxmemory", 1)
	require.Equal(t, "0", q.sign("a:1:1", 2))
	sign, _ := q.stands("a:1:1")
	require.Equal(t, "2@1000000/2000", sign)
}

// TestAFairTakeWithAnEarlierFieldNeedsLREM before it changes anything, even for one such field.
func TestAFairTakeWithAnEarlierFieldNeedsLREM(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	fixture.DoOn(t, conn, "FLUSHALL")
	args := []any{strings.ReplaceAll(byClientsClock(script.FairTake), "'lrem'", "'lrem0'"), 5}
	for _, key := range append(slices.Clone(fairKeys), keys.Counter) {
		args = append(args, key)
	}
	_, err := conn.Do("EVAL", append(append(args, fairTake("1 a", "c:1:9")...), 0)...)
	require.Error(t, err)
	require.Zero(t, fixture.DoOn(t, conn, "EXISTS", fairKeys[0], fairKeys[1], fairKeys[3]))
	_, err = conn.Do("EVAL", append(append(args, fairTake("1 a")...), 0)...)
	require.NoError(t, err)
}
