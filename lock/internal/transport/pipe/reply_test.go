package pipe_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// A renewal of several locks that gets such an answer is sent again, one lock after the other.
func TestAKeyOnAnotherServerIsToldWhateverTheVersion(t *testing.T) {
	for _, text := range []string{
		"ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: Lua script attempted to access a non local key in a cluster node",
		"ERR Script attempted to access a non local key in a cluster node script: 6d2b, on @user_script:9.",
	} {
		requireVerdict(t, pipe.Parted, redis.Error(text))
		require.False(t, pipe.Definite(redis.Error(text)), text)
	}
	requireVerdict(t, pipe.Broken, errors.New("attempted to access a non local key"))
}

func TestOnlyAnAnswerThatStaysIsDefinite(t *testing.T) {
	for text, definite := range map[string]bool{
		"NOPERM this user has no permissions to run the 'hset' command":                                                                true,
		"NOPERM User app-OOM-1 has no permissions to run the 'hset' command":                                                           true,
		"WRONGTYPE Operation against a key":                                                                                            true,
		"ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation":                                                  true,
		"ERR READONLYISH is a word of its own":                                                                                         true,
		"ERR wheellock: jobs:BUSY is no counter":                                                                                       true,
		"ERR wheellock: max number of clients is no counter":                                                                           true,
		"WRONGTYPE wheellock: @user_script: 1: -OOM is no counter":                                                                     true,
		"ERR The user OOM can't run this command":                                                                                      true,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                      false,
		"@user_script: 65: -MISCONF Errors writing to the AOF file":                                                                    false,
		"ERR Script attempted to execute a write command while the cluster is down and readonly":                                       false,
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: Lua script attempted to execute a command while the": false,
		"ERR Error running script (call to f_1): @user_script:1: Script killed by user with SCRIPT KILL...":                            false,
		"ERR Script killed by user with SCRIPT KILL. script: 6d2b, on @user_script:1.":                                                 false,
		"READONLY You can't write against a read only replica.":                                                                        false,
		"ERR Error running script (call to f_1): @user_script:1: -READONLY You can't":                                                  false,
		"LOADING Redis is loading":                                                                                                     false,
		"ERR max number of clients reached":                                                                                            false,
	} {
		require.Equal(t, definite, pipe.Definite(redis.Error(text)), text)
		require.Equal(t, definite, pipe.Definite(fmt.Errorf("lock: %w", redis.Error(text))), text)
	}
	require.False(t, pipe.Definite(io.EOF))
	require.False(t, pipe.Definite(nil))
}

// TestAReplyThatNothingRanIsReadFromItsCodeAlone: a script that has written something may end with any
// other error, and the rest of a reply may have a key.
func TestAReplyThatNothingRanIsReadFromItsCodeAlone(t *testing.T) {
	for text, ran := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                                        false,
		"BUSY Redis is busy running a script.":                                                                  false,
		"MASTERDOWN Link with MASTER is down":                                                                   false,
		"READONLY You can't write against a read only replica.":                                                 false,
		"MISCONF Errors writing to the AOF file: No space left on device":                                       false,
		"NOREPLICAS Not enough good replicas to write. script: 6d2b, on @user_script:12.":                       false,
		"@user_script: 65: -MISCONF Errors writing to the AOF file":                                             false,
		"ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: -READONLY You can't write": false,
		"NOAUTH Authentication required.":                                                                       false,
		"CLUSTERDOWN The cluster is down":                                                                       false,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                               false,
		"ERR max number of clients + cluster connections reached":                                               false,
		"DENIED Redis is running in protected mode":                                                             false,

		"OOM command not allowed when used memory > 'maxmemory'.":                     true,
		"NOPERM User u has no permissions to run the 'hdel' command script: 6d2b":     true,
		"ERR Script attempted to access a non local key in a cluster node":            true,
		"ERR Script attempted to execute a command while the cluster is down":         true,
		"ERR Script killed by user with SCRIPT KILL.":                                 true,
		"WRONGTYPE Operation against a key":                                           true,
		"WRONGTYPE wheellock: jobs:LOADING is no counter":                             true,
		"ERR wheellock: @user_script: 1: -MISCONF is no counter":                      true,
		"ERR Error running script (call to f_1): @user_script:1: user_script:1: BUSY": true,
		"BUSYKEY Target key name already exists.":                                     true,
		"UNBLOCKED client unblocked":                                                  true,
	} {
		require.Equal(t, ran, !pipe.NotRun(redis.Error(text)), text)
	}
	require.False(t, pipe.NotRun(errors.New("LOADING")), "it is no reply")
	require.False(t, pipe.NotRun(fmt.Errorf("the connection was given up: %w", redis.Error("READONLY"))), "another request was refused")
	require.False(t, pipe.NotRun(nil))
}

func TestRedirectionsAreRead(t *testing.T) {
	for text, want := range map[string]pipe.Redirection{
		"MOVED 3999 127.0.0.1:6381": {Slot: 3999, Server: "127.0.0.1:6381"},
		"ASK 16383 [::1]:6381":      {Ask: true, Slot: 16383, Server: "[::1]:6381"},
		"MOVED 0 :6381":             {Slot: 0, Server: "here:6381"},
		"ASK 1 host.example.com:1":  {Ask: true, Slot: 1, Server: "host.example.com:1"},
		"MOVED 7 fd00::5:33011":     {Slot: 7, Server: "[fd00::5]:33011"}, // as Redis writes it
		"ASK 7 ?:33011":             {Ask: true, Slot: 7, Server: "?:33011"},
	} {
		verdict, got := pipe.VerdictOf(redis.Error(text), true, "here:1")
		require.Equal(t, pipe.Elsewhere, verdict, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"MOVED", "MOVED 1", "MOVED x a:1", "MOVED 16384 a:1", "MOVED -1 a:1", "ERR MOVED 1 a:1", "OK 1 a:1", "MOVED 1 a:1 more", "MOVED 1 a:0", "MOVED 1 a:x", "MOVED 1 a:65536"} {
		requireVerdict(t, pipe.Final, redis.Error(text))
	}
	_, to := pipe.VerdictOf(redis.Error("MOVED 0 :6381"), true, "[fd00::5]:1")
	require.Equal(t, "[fd00::5]:6381", to.Server)
	verdict, _ := pipe.VerdictOf(redis.Error("MOVED 0 :6381"), true, "unix socket")
	require.Equal(t, pipe.Final, verdict)
	requireVerdict(t, pipe.Broken, errors.New("MOVED 3999 127.0.0.1:6381"))
}

func TestWhatLastsNoConnectionAndWhatDidNotRun(t *testing.T) {
	requireVerdict(t, pipe.Demoted, redis.Error("READONLY You can't write against a read only replica."))
	requireVerdict(t, pipe.Demoted, redis.Error("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't"))
	requireVerdict(t, pipe.Broken, errors.New("READONLY"))
	requireVerdict(t, pipe.Final, redis.Error("WRONGTYPE wheellock: READONLY is no counter"))
	requireVerdict(t, pipe.Final, redis.Error("WRONGTYPE wheellock: NOSCRIPT is no counter"))
	require.True(t, pipe.TryAgain(redis.Error("TRYAGAIN Multiple keys request during rehashing of slot")))
	require.True(t, pipe.OfCluster(redis.Error("CROSSSLOT Keys in request don't hash to the same slot")))
	require.True(t, pipe.OfCluster(redis.Error("MOVED 3999 127.0.0.1:6381")))
	require.False(t, pipe.OfCluster(redis.Error("ERR")))
	require.True(t, pipe.WrongType(redis.Error("WRONGTYPE Operation against a key")))
}
