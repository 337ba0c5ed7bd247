package keys_test

import (
	"strings"
	"testing"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// derivedNames returns the names of keys and channels that belong to an object, for sharded or for
// plain pub/sub.
func derivedNames(name string, sharded bool) map[string]string {
	return map[string]string{
		"channel of a lock":        keys.Channel(name),
		"the same, appended":       string(keys.AppendChannel(nil, name)),
		"channel of a fair waiter": keys.FairChannel(name, "owner:1"),
		"fair queue":               keys.FairQueue(name),
		"fair scores":              keys.FairScores(name),
		"fenced counter":           keys.FencedCounter(name),
		"channel of a RWMutex":     keys.RWChannel(name),
		"reader's key":             keys.RWReader(name, "owner:1"),
		"channel of a semaphore":   keys.SemaphoreChannel(name),
		"permits taken":            keys.PermitsTaken(name),
		"channel of a latch":       keys.LatchChannel(name, sharded),
	}
}

// TestDerivedNamesAreRedissons, with sharded channels and without them, with a hash tag and without one.
func TestDerivedNamesAreRedissons(t *testing.T) {
	plain := map[string]string{
		"channel of a lock":        "redisson_lock__channel:{x}",
		"the same, appended":       "redisson_lock__channel:{x}",
		"channel of a fair waiter": "redisson_lock__channel:{x}:owner:1",
		"fair queue":               "redisson_lock_queue:{x}",
		"fair scores":              "redisson_lock_timeout:{x}",
		"fenced counter":           "redisson_lock_token:{x}",
		"channel of a RWMutex":     "redisson_rwlock:{x}",
		"reader's key":             "{x}:owner:1:rwlock_timeout:1",
		"channel of a semaphore":   "redisson_sc:{x}",
		"permits taken":            "{x}:timeout",
		"channel of a latch":       "redisson_countdownlatch__channel__{x}",
	}
	tagged := map[string]string{
		"channel of a lock":        "redisson_lock__channel:a{x}b",
		"the same, appended":       "redisson_lock__channel:a{x}b",
		"channel of a fair waiter": "redisson_lock__channel:a{x}b:owner:1",
		"fair queue":               "redisson_lock_queue:a{x}b",
		"fair scores":              "redisson_lock_timeout:a{x}b",
		"fenced counter":           "redisson_lock_token:a{x}b",
		"channel of a RWMutex":     "redisson_rwlock:a{x}b",
		"reader's key":             "a{x}b:owner:1:rwlock_timeout:1",
		"channel of a semaphore":   "redisson_sc:a{x}b",
		"permits taken":            "a{x}b:timeout",
		"channel of a latch":       "redisson_countdownlatch__channel__:a{x}b",
	}
	require.Equal(t, plain, derivedNames("x", true))
	require.Equal(t, plain, derivedNames("x", false))
	require.Equal(t, tagged, derivedNames("a{x}b", true))
	tagged["channel of a latch"] = "redisson_countdownlatch__channel__{a{x}b}"
	require.Equal(t, tagged, derivedNames("a{x}b", false))
	for _, name := range []string{"x", "{x}", "{x}y", "a{x}b", "x{y}{"} {
		for what, derived := range derivedNames(name, true) {
			require.Equal(t, redisc.Slot(name), redisc.Slot(derived), "%s of %s", what, name)
			require.True(t, strings.Contains(derived, name))
		}
	}
}

// TestOurOwnNamesShareTheSlotOfTheirLock. The names must never change, because clients of different
// versions of this library use the same keys.
func TestOurOwnNamesShareTheSlotOfTheirLock(t *testing.T) {
	require.Equal(t, "{x}:wheellock_waiters", keys.FairSigns("x"))
	require.Equal(t, "a{x}b:wheellock_waiters", keys.FairSigns("a{x}b"))
	require.Equal(t, "{x}:wheellock_writers", keys.RWWriters("x"))
	require.Equal(t, "{x}:client:7:wheellock_result", keys.Result("x", "client", 7))
	require.Equal(t, "{x}:wheellock_polls", keys.Polls("x"))
	for _, name := range []string{"x", "{x}y", "a{x}b"} {
		for _, derived := range []string{keys.FairSigns(name), keys.RWWriters(name), keys.Result(name, "c", 1), keys.Polls(name)} {
			require.Equal(t, redisc.Slot(name), redisc.Slot(derived), derived)
		}
		require.True(t, keys.IsBeside(keys.FairSigns(name)))
		require.True(t, keys.IsBeside(keys.RWWriters(name)))
		require.False(t, keys.IsBeside(name))
	}
}

// TestAChannelHasOneNameOfEachKind, sharded and plain, and no two channels share a name.
func TestAChannelHasOneNameOfEachKind(t *testing.T) {
	for _, name := range []string{"a", "{a}", "{a}b", "a{b}c", "x{a}{", "x{a}}", ":a", ":{a}", "{:a}"} {
		for what, channel := range derivedNames(name, false) {
			sharded := keys.ShardedChannel(channel)
			require.Equal(t, channel, keys.PlainChannel(sharded), "%s %q", what, name)
			require.Equal(t, derivedNames(name, true)[what], sharded, "%s %q", what, name)
			require.Equal(t, sharded, keys.ShardedChannel(sharded), "%s %q", what, name)
		}
	}
}
