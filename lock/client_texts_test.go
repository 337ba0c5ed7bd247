package lock_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// What Redis says is told by its words alone, and these differ from version to
// version.
func TestEveryVersionsWordsAreUnderstood(t *testing.T) {
	t.Parallel()
	const (
		old   = "ERR Error running script (call to f_6d2bd0f3b1a6e1f1c1b9f7b4a9e9b6f7a3a7c0de): @user_script:9: "
		at    = "@user_script: 9: "
		seven = " script: 6d2bd0f3b1a6e1f1c1b9f7b4a9e9b6f7a3a7c0de, on @user_script:9."
	)
	type kind int
	const (
		passing kind = iota // not known what became of it; tried again
		final               // a refusal
		notALock
		forgotten // the script is sent as text
	)
	for text, want := range map[string]kind{
		// Redis 4 to 6, KeyDB; then 7, Valkey.
		old + at + "Lua script attempted to access a non local key in a cluster node":                         passing,
		"ERR Script attempted to access a non local key in a cluster node" + seven:                            passing,
		old + at + "Lua script attempted to execute a write command while the cluster is down and readonly":   passing,
		"ERR Script attempted to execute a command while the cluster is down" + seven:                         passing,
		"READONLY You can't write against a read only slave.":                                                 passing,
		old + at + "-READONLY You can't write against a read only slave.":                                     passing,
		old + "-READONLY You can't write against a read only replica.":                                        passing,
		"READONLY You can't write against a read only replica." + seven:                                       passing,
		old + at + "-OOM command not allowed when used memory > 'maxmemory'.":                                 passing,
		"OOM command not allowed when used memory > 'maxmemory'." + seven:                                     passing,
		"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'":          passing,
		old + at + "-MISCONF Redis is configured to save RDB snapshots, but is currently not able to persist": passing,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":    passing,
		"MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.":   passing,
		old + at + "-NOREPLICAS Not enough good slaves to write.":                                             passing,
		"NOREPLICAS Not enough good replicas to write." + seven:                                               passing,
		"LOADING Redis is loading the dataset in memory":                                                      passing,
		"LOADING Valkey is loading the dataset in memory":                                                     passing,
		"MASTERDOWN Link with MASTER is down and slave-serve-stale-data is set to 'no'.":                      passing,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                    passing,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":              passing,
		"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":             passing,
		old + "Script killed by user with SCRIPT KILL...":                                                     passing,
		"ERR Error running script: Script killed by user with SCRIPT KILL." + seven:                           passing,
		"ERR max number of clients reached":                                                                   passing,
		"ERR max number of clients + cluster connections reached":                                             passing,
		"CLUSTERDOWN The cluster is down":                                                                     passing,
		"CLUSTERDOWN Hash slot not served":                                                                    passing,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                             passing,
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)":        passing,

		"NOSCRIPT No matching script. Please use EVAL.": forgotten,
		"NOSCRIPT No matching script.":                  forgotten,

		old + "WRONGTYPE Operation against a key holding the wrong kind of value":      notALock,
		"WRONGTYPE Operation against a key holding the wrong kind of value" + seven:    notALock,
		old + at + "WRONGTYPE Operation against a key holding the wrong kind of value": notALock,

		"NOAUTH Authentication required.":                                                                                   final,
		"ERR invalid password":                                                                                              final,
		"WRONGPASS invalid username-password pair":                                                                          final,
		"WRONGPASS invalid username-password pair or user is disabled.":                                                     final,
		"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand":                                final,
		"NOPERM User locker has no permissions to run the 'evalsha' command":                                                final,
		"NOPERM No permissions to access a key":                                                                             final,
		"NOPERM this user has no permissions to access one of the keys used as arguments":                                   final,
		old + at + "The user executing the script can't run this command or subcommand":                                     final,
		old + at + "The user executing the script can't access at least one of the keys mentioned in the command arguments": final,
		"ERR ACL failure in script: User locker has no permissions to run the 'hset' command" + seven:                       final,
		"ERR unknown command `EVALSHA`, with args beginning with: ":                                                         final,
		old + at + "Write commands not allowed after non deterministic commands":                                            final,
		old + "script tried accessing undeclared key":                                                                       final,
		"BUSYKEY Target key name already exists.":                                                                           final,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var asText atomic.Bool
			p := fixture.Proxy(t, nil, func(c faultproxy.Command) faultproxy.Fate {
				switch {
				case c.Args[0] == "EVAL" && want == forgotten:
					asText.Store(true)
					return faultproxy.Answer([]any{int64(1), int64(7)})
				case strings.HasPrefix(c.Args[0], "EVAL"):
					return faultproxy.Answer(redis.Error(text))
				}
				return faultproxy.Answer(redis.Error("ERR unknown command"))
			})
			c := fixture.ClientOver(t, p, lock.Config{})
			_, err := c.Mutex("m").TryLock(t.Context())
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			switch want {
			case passing:
				require.ErrorIs(t, err, lock.ErrUnknown)
			case final:
				require.NotErrorIs(t, err, lock.ErrUnknown)
				require.NotErrorIs(t, err, lock.ErrNotALock)
				require.ErrorContains(t, err, "Redis refused")
				require.Regexp(t, advice(text), err.Error())
			case notALock:
				require.ErrorIs(t, err, lock.ErrNotALock)
				require.ErrorContains(t, err, ": use another name")
			case forgotten:
				require.NoError(t, err)
				require.True(t, asText.Load())
			}
		})
	}
}

// advice is how an error ends that Redis' refusal is the cause of.
func advice(refusal string) string {
	switch {
	case strings.Contains(strings.ToLower(refusal), "pass") || strings.HasPrefix(refusal, "NOAUTH"):
		return ": log in: .*redis.DialPassword"
	case strings.Contains(refusal, "permission") || strings.Contains(refusal, "executing the script can't"):
		return ": give the user the rights that lock/SERVERS.md lists$"
	}
	return ": fix the cause, because retrying will not help$"
}

// A demoted master is left, so that the next dial can find the new one.
func TestAMasterThatIsNoneIsLeftWhateverItsVersion(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: -READONLY You can't write against a read only slave.",
	} {
		p := fixture.Proxy(t, nil, func(c faultproxy.Command) faultproxy.Fate {
			if c.Args[0] == "EVALSHA" {
				return faultproxy.Answer(redis.Error(text))
			}
			return faultproxy.Answer(redis.Error("ERR unknown command"))
		})
		c := fixture.ClientOver(t, p, lock.Config{Connections: 1})
		for range 2 {
			_, err := c.Mutex("m").TryLock(t.Context())
			require.ErrorIs(t, err, lock.ErrUnknown)
		}
		require.Eventually(t, func() bool { return p.Accepted() >= 2 }, time.Minute, time.Millisecond)
	}
}
