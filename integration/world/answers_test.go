package world_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func TestPassingAnswersAreUnknownAndRetried(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		begin func(*testing.T, *redistest.Server)
		end   []any
	}{
		"READONLY": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "REPLICAOF", "127.0.0.1", "1") },
			[]any{"REPLICAOF", "NO", "ONE"},
		},
		"OOM": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1") },
			[]any{"CONFIG", "SET", "maxmemory", "0"},
		},
		"MISCONF": {breakSaves, []any{"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			c := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			state.begin(t, s)
			_, err := c.Mutex("m").TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrUnknown)
			require.ErrorContains(t, err, name)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			got := make(chan error, 1)
			go func() {
				held, err := c.Mutex("m").Lock(ctx)
				if err == nil {
					err = held.Unlock(ctx)
				}
				got <- err
			}()
			fixture.Do(t, s, state.end[0].(string), state.end[1:]...)
			require.NoError(t, bounded.Receive(t, got))
		})
	}
}

// breakSaves makes the server refuse writes because a background save failed.
func breakSaves(t *testing.T, s *redistest.Server) {
	fixture.Do(t, s, "CONFIG", "SET", "save", "3600 1")
	fixture.Do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
	conn := fixture.Dial(t, s)
	dir, err := redis.Strings(conn.Do("CONFIG", "GET", "dir"))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir[1]))
	_, err = conn.Do("SET", "x", 1)
	require.NoError(t, err)
	_, err = conn.Do("BGSAVE")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := s.Info("persistence")
		return err == nil && info["rdb_last_bgsave_status"] == "err"
	}, time.Minute, 5*time.Millisecond)
}

func TestAServerThatLoadsIsWaitedFor(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.SlowLoading)
	s := fixture.Server(t, append(redistest.DebugArgs(), "--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")...)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	before := fixture.Hold(t, c.Mutex("before").Lock)
	fixture.Do(t, s, "DEBUG", "POPULATE", 3000)
	loaded := make(chan error, 1)
	conn := fixture.Dial(t, s)
	go func() {
		_, err := conn.Do("DEBUG", "RELOAD")
		loaded <- err
	}()
	require.Eventually(t, func() bool {
		_, err := c.Mutex("m").TryLock(ctx)
		return fixture.IsAny(err, lock.ErrUnknown) && strings.Contains(err.Error(), "LOADING") && !fixture.IsAny(err, lock.ErrNotAcquired)
	}, time.Minute, time.Millisecond)
	held := fixture.Hold(t, c.Mutex("m2").Lock)
	require.NoError(t, bounded.Receive(t, loaded))
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, before.Err())
	require.NoError(t, before.Unlock(ctx))
}

func TestABusyServerIsWaitedFor(t *testing.T) {
	s := fixture.Server(t, "--lua-time-limit", "1")
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	conn := fixture.Dial(t, s)
	require.NoError(t, conn.Send("EVAL", "while true do end", 0))
	require.NoError(t, conn.Flush())
	require.Eventually(t, func() bool {
		_, err := c.Mutex("m").TryLock(ctx)
		return err != nil && fixture.IsAny(err, lock.ErrUnknown)
	}, time.Minute, time.Millisecond)
	fixture.Do(t, s, "SCRIPT", "KILL")
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.NoError(t, held.Unlock(ctx))
}

func TestTokensRiseOverAnEmptyRestartAndOneWithAOF(t *testing.T) {
	t.Parallel()
	for _, aof := range []string{"no", "yes"} {
		t.Run("appendonly="+aof, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t, "--appendonly", aof, "--appendfsync", "always")
			c := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			held := fixture.Hold(t, c.Mutex("m").Lock)
			last := held.Token()
			require.NoError(t, held.Unlock(ctx))
			require.NoError(t, s.Kill())
			require.NoError(t, s.Restart(ctx))
			held = fixture.Hold(t, c.Mutex("m").Lock)
			require.Greater(t, held.Token(), last)
			require.NoError(t, held.Unlock(ctx))
		})
	}
}

// TestAnUnansweredInnerUnlockLeavesNothingBehind: the inner Unlock is unknown
// and never repeated. The outer Unlock still releases the lock.
func TestAnUnansweredInnerUnlockLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{IOTimeout: 100 * time.Millisecond, UnlockTimeout: 200 * time.Millisecond})
	for _, repeated := range []string{"", "before", "after"} {
		name := t.Name() + repeated
		outer := fixture.Hold(t, c.Mutex(name).Lock)
		inner, err := c.Mutex(name).Lock(outer.Context(ctx))
		require.NoError(t, err)
		require.Equal(t, 2, outer.Count())
		require.NoError(t, s.Pause())
		require.ErrorIs(t, inner.Unlock(ctx), lock.ErrUnknown)
		require.NoError(t, s.Resume())
		require.Equal(t, 1, outer.Count())
		require.True(t, outer.Valid())
		require.False(t, inner.Valid())
		if repeated == "before" {
			require.NoError(t, fixture.RetryUntilKnown(func() error { return inner.Unlock(ctx) }))
			require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
		}
		require.NoError(t, fixture.RetryUntilKnown(func() error { return outer.Unlock(ctx) }))
		require.False(t, fixture.Exists(t, s, name))
		if repeated == "after" {
			require.NoError(t, inner.Unlock(ctx))
			require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
		}
	}
	require.Zero(t, c.Stats().Held)
}

// TestEveryVersionsWordsAreUnderstood: only the text of an error says what it means, and the texts differ
// between versions.
func TestEveryVersionsWordsAreUnderstood(t *testing.T) {
	t.Parallel()
	const (
		old   = "ERR Error running script (call to f_6d2bd0f3b1a6e1f1c1b9f7b4a9e9b6f7a3a7c0de): @user_script:9: "
		at    = "@user_script: 9: "
		seven = " script: 6d2bd0f3b1a6e1f1c1b9f7b4a9e9b6f7a3a7c0de, on @user_script:9."
	)
	type kind int
	const (
		passing kind = iota // the outcome is unknown; the client tries again
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
			c := fixture.ClientOver(t, p, lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Minute})
			_, err := c.Mutex("m").TryLock(t.Context())
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			switch want {
			case passing:
				require.ErrorIs(t, err, lock.ErrUnknown)
			case final:
				require.NotErrorIs(t, err, lock.ErrUnknown)
				require.NotErrorIs(t, err, lock.ErrNotALock)
				require.ErrorContains(t, err, "Redis refused")
				require.Regexp(t, adviceFor(text), err.Error())
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

// adviceFor returns the last part of an error whose cause is this refusal of Redis.
func adviceFor(refusal string) string {
	switch {
	case strings.Contains(strings.ToLower(refusal), "pass") || strings.HasPrefix(refusal, "NOAUTH"):
		return ": log in: .*redis.DialPassword"
	case strings.Contains(refusal, "permission") || strings.Contains(refusal, "executing the script can't"):
		return ": give the user the rights that lock/SERVERS.md lists$"
	}
	return ": fix the cause, because retrying will not help$"
}

// TestAMasterThatIsNoneIsLeftWhateverItsVersion: the client closes its connections to a demoted master,
// so that the next dial can find the new one.
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
		require.Eventually(t, func() bool { // a try during the pause between two dials does not dial
			_, err := c.Mutex("m").TryLock(t.Context())
			require.ErrorIs(t, err, lock.ErrUnknown)
			require.ErrorContains(t, err, text)
			return p.Accepted() >= 3
		}, time.Minute, time.Millisecond)
	}
}

// TestAnAnswerThatIsNoneIsUnknownNotALoss: a proxy between client and server, or
// a program that is no Redis, may answer anything.
func TestAnAnswerThatIsNoneIsUnknownNotALoss(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	ctx := bounded.Context(t)
	for _, odd := range []any{"OK", []byte("1"), nil, int64(7), []any{}, []any{"1", "2"}, []any{[]byte("0")}, []any{int64(7), "x"}} {
		for _, name := range []string{"reenter", "guard", "extend"} {
			var mangled atomic.Pointer[string] // the script whose answer is odd
			st := fixture.StallThat(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if m := mangled.Load(); m != nil && *m == c.Script {
					return faultproxy.Mangle(odd)
				}
				return faultproxy.Pass
			})
			c := fixture.ClientOver(t, st, lock.Config{})
			held, err := c.Mutex(t.Name()).Lock(ctx)
			require.NoError(t, err)
			asked := map[string]string{"reenter": "reenter", "guard": "guard", "extend": "reenter"}[name]
			mangled.Store(&asked)
			call, cancel := context.WithTimeout(ctx, 5*time.Second)
			switch name {
			case "reenter":
				_, err = c.Mutex(t.Name()).TryLock(held.Context(call))
			case "guard":
				_, err = held.Guard(call, "SET", []string{t.Name() + ":x"}, "1")
			case "extend":
				err = held.Extend(call, time.Minute)
			}
			cancel()
			require.ErrorIs(t, err, lock.ErrUnknown, "%s %#v", name, odd)
			require.True(t, held.Valid(), "%s %#v", name, odd)
			require.NoError(t, held.Err(), "%s %#v", name, odd)
			require.Equal(t, 1, held.Count())
			mangled.Store(nil)
			require.NoError(t, held.Unlock(ctx))
		}
	}
}

// TestAnOddAnswerLosesNoReaderAndNoPermit: an odd answer to a script of a reader or a permit is unknown,
// too.
func TestAnOddAnswerLosesNoReaderAndNoPermit(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	ctx := bounded.Context(t)
	require.NoError(t, fixture.ClientOf(t, s, lock.Config{}).Semaphore(t.Name()+" permits").Add(ctx, 5))
	for _, odd := range []any{"OK", []byte("1"), nil, int64(7), []any{}, []any{"1", "2"}, []any{int64(7), "x"}} {
		for name, tc := range map[string]struct {
			take func(*lock.Client) (*lock.Held, error)
			call func(*lock.Client, context.Context, *lock.Held) error
		}{
			"rw_read_reenter": {
				func(c *lock.Client) (*lock.Held, error) { return c.RWMutex(t.Name()).Reader().Lock(ctx) },
				func(c *lock.Client, ctx context.Context, held *lock.Held) error {
					_, err := c.RWMutex(t.Name()).Reader().TryLock(held.Context(ctx))
					return err
				},
			},
			"permit_extend": {
				func(c *lock.Client) (*lock.Held, error) {
					return c.PermitSemaphore(t.Name()+" permits").Acquire(ctx, 1)
				},
				func(_ *lock.Client, ctx context.Context, held *lock.Held) error { return held.Extend(ctx, time.Minute) },
			},
		} {
			var asked atomic.Bool
			c := fixture.ClientOver(t, fixture.StallThat(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if c.Script == name && asked.Load() {
					return faultproxy.Mangle(odd)
				}
				return faultproxy.Pass
			}), lock.Config{})
			held, err := tc.take(c)
			require.NoError(t, err)
			asked.Store(true)
			call, cancel := context.WithTimeout(ctx, 5*time.Second)
			err = tc.call(c, call, held)
			cancel()
			require.ErrorIs(t, err, lock.ErrUnknown, "%s %#v", name, odd)
			require.True(t, held.Valid(), "%s %#v", name, odd)
			require.NoError(t, held.Err(), "%s %#v", name, odd)
			asked.Store(false)
			require.NoError(t, held.Unlock(ctx))
		}
	}
}

// TestOneGuardOfAHoldIsNotSentBeforeAnotherIsAnswered, because Redis could carry
// them out in the other order.
func TestOneGuardOfAHoldIsNotSentBeforeAnotherIsAnswered(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	c := fixture.ClientOver(t, st, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	st.HoldBack("guard")
	first := make(chan error, 1)
	go func() {
		_, err := held.Guard(ctx, "SET", []string{t.Name() + ":x"}, "first")
		first <- err
	}()
	fixture.AwaitArrived(t, st, "guard", 1)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := held.Guard(short, "SET", []string{t.Name() + ":x"}, "second")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrUnknown, "it is known that it was not run")
	require.NotErrorIs(t, err, lock.ErrNotHeld)
	require.ErrorContains(t, err, "not run")
	err = held.Extend(short, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrUnknown, "it is known that it was not sent")
	st.LetThrough()
	require.NoError(t, bounded.Receive(t, first))
	require.Equal(t, []byte("first"), fixture.Do(t, s, "GET", t.Name()+":x"))
	_, err = held.Guard(ctx, "SET", []string{t.Name() + ":x"}, "third")
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	require.Equal(t, []byte("third"), fixture.Do(t, s, "GET", t.Name()+":x"))
	_, err = held.Guard(ctx, "SET", []string{t.Name() + ":x"}, "fourth")
	require.ErrorIs(t, err, lock.ErrNotHeld)
}

// hostile are answers that would crash a careless client, or fill its memory.
var hostile = []string{
	"*4000000000\r\n",
	"$1099511627776\r\n",
	"*99999999999999999999\r\n",
	strings.Repeat("*1\r\n", 10_000),
	"+" + strings.Repeat("x", 1<<20),
	"-ERR " + strings.Repeat("x", 1<<20),
	"*60\r\n" + strings.Repeat("*1000000\r\n", 60),
	"%1000000000\r\n",
	"HTTP/1.1 400 Bad Request\r\n\r\n",
}

// TestAHostileAnswerEndsNoProcess: whatever the request and the hostile answer are, the client closes the
// connection and goes on with another one.
func TestAHostileAnswerEndsNoProcess(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for _, command := range []string{
		"AUTH", "SELECT", "TIME", "EVALSHA", "acquire", "guard", "inspect", "renew", "release", "fair_take", "rw_read", "SUBSCRIBE",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			other, err := lock.Open("redis://"+s.Addr()+"/3", lock.Config{})
			require.NoError(t, err)
			defer fixture.CloseNow(other)
			for _, text := range hostile {
				var said atomic.Bool
				p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
					switch {
					case (c.Script == command || c.Args[0] == command) && !said.Swap(true):
						return faultproxy.Answer(faultproxy.Raw(text))
					case c.Args[0] == "AUTH": // the server has no password
						return faultproxy.Answer("OK")
					}
					return faultproxy.Pass
				})
				c, err := lock.Open("redis://:secret@"+p.Addr()+"/3", lock.Config{Lease: 3 * time.Second})
				require.NoError(t, err)
				bounded.Until(t, func() bool { return useAll(t, c, other, command == "renew") == nil && said.Load() })
				fixture.CloseNow(c)
				p.Close()
			}
		})
	}
}

// useAll makes a client send every kind of request, with a renewal if renewed is set. It also waits for
// a lock that another client holds.
func useAll(t *testing.T, c, other *lock.Client, renewed bool) error {
	ctx := bounded.Context(t)
	if _, err := other.Mutex(t.Name()).LockFor(ctx, lock.MinLease); err != nil {
		return err
	}
	m := c.Mutex(t.Name())
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	_, guarded := held.Guard(ctx, "SET", []string{t.Name() + " beside"}, "1")
	_, inspected := m.Inspect(ctx)
	before := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool { return !renewed || c.Stats().Renewal.Renewed > before || held.Err() != nil })
	errs := []error{guarded, inspected, held.Unlock(ctx)}
	for _, m := range []*lock.Mutex{c.FairMutex(t.Name() + " fair"), c.RWMutex(t.Name() + " rw").Reader()} {
		held, err := m.Lock(ctx)
		if err == nil {
			err = held.Unlock(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
