package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/wheellock/wheellock/lock/script"
)

// problems returns the problems that an error of Check lists.
func problems(t *testing.T, err error) []string {
	t.Helper()
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n  - ")
	require.Regexp(t, `^lock: Check found (a problem|[0-9]+ problems|no problem)( before it ended: .*)?:?$`, lines[0])
	return lines[1:]
}

// onlyProblem returns the only problem that an error of Check lists.
func onlyProblem(t *testing.T, err error) string {
	t.Helper()
	found := problems(t, err)
	require.Len(t, found, 1, err.Error())
	return found[0]
}

func TestCheckFindsNothingWrongAndLeavesNothing(t *testing.T) {
	for name, s := range map[string]*redistest.Server{"real": fixture.Server(t), "in memory": fixture.Mini(t), "virtual": fixture.Virtual(t)} {
		t.Run(name, func(t *testing.T) {
			var log fixture.Log
			c := fixture.ClientOf(t, s, lock.Config{Logger: log.Logger()})
			log.Flush = lock.FlushLog(c)
			ctx := bounded.Context(t)
			held := fixture.Hold(t, c.Mutex("m").Lock)
			keys := fixture.Keys(t, s, "*")
			for range 2 {
				require.NoError(t, c.Check(ctx))
			}
			require.ElementsMatch(t, keys, fixture.Keys(t, s, "*"))
			require.NoError(t, held.Unlock(ctx))
			require.NotContains(t, log.String(), "WARN")
			require.Contains(t, log.String(), `level=INFO msg="lock: Check has advice"`)
			if name == "real" {
				require.Contains(t, log.String(), "appendonly yes")
				require.NotContains(t, log.String(), "error", "who searches logs for errors finds none")
			} else { // which tells little
				require.Contains(t, log.String(), "does not tell its maxmemory-policy")
			}
		})
	}
}

// TestCheckNeedsTheRightsOfThePageAlone, and needs each of them.
func TestCheckNeedsTheRightsOfThePageAlone(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	var log fixture.Log
	ctx := bounded.Context(t)
	client := func() *lock.Client {
		c := fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("secret"))
		}}, lock.Config{KeyPrefix: "app:", Logger: log.Logger()})
		log.Flush = lock.FlushLog(c)
		return c
	}
	rights := fixture.RightsOfPage(t, "SERVERS.md")
	fixture.GiveRights(t, s, rights[0])
	require.NoError(t, client().Check(ctx))
	require.Equal(t, 1, strings.Count(log.String(), "if you use these, give it the second list in lock/SERVERS.md"))
	fixture.Do(t, s, "ACL", "LOG", "RESET")

	fixture.GiveRights(t, s, rights[1])
	require.NoError(t, client().Check(ctx))
	require.Equal(t, 1, strings.Count(log.String(), "the second list in lock/SERVERS.md"), "not again")
	require.Empty(t, fixture.Do(t, s, "ACL", "LOG"), "nothing was refused")

	all := append(slices.Clone(rights[0]), rights[1][1:]...)
	for i, word := range all {
		var want string
		switch right, _ := strings.CutPrefix(word, "+"); {
		case strings.HasPrefix(word, "+"):
			want = "the user may not run " + right
		case strings.HasPrefix(word, "~"):
			want = "the user may not use keys such as "
		case strings.HasPrefix(word, "&"):
			want = "the user may not use channels such as "
		default:
			continue // the user and its password
		}
		if word == "+wait" {
			continue // for Config.Replicas alone
		}
		t.Run(word, func(t *testing.T) {
			fixture.Do(t, s, "SCRIPT", "FLUSH")
			fixture.Do(t, s, "ACL", "DELUSER", "locker")
			less := slices.Delete(slices.Clone(all), i, i+1)
			if word == "~{app:*}:wheellock_polls" { // the second list has it too
				less = slices.Delete(slices.Clone(rights[0]), i, i+1)
			}
			fixture.GiveRights(t, s, less)
			found := problems(t, client().Check(ctx))
			require.Contains(t, found[0], want)
			switch word {
			case "+eval", "~app:*": // nothing else can be tried
				require.Len(t, found, 2)
				require.Contains(t, found[1], "the other rights were not tried")
			case "~{app:*": // wheellock_polls has a right of its own
				require.Len(t, found, 1)
				require.Contains(t, found[0], "}:timeout")
				require.NotContains(t, found[0], "wheellock_polls")
			default:
				require.Len(t, found, 1, found)
			}
			require.Contains(t, strings.Join(found, "\n"), "give it the")
			if word != "+del" {
				require.Empty(t, fixture.Keys(t, s, "*"))
			} else {
				for _, key := range fixture.Keys(t, s, "*") {
					ttl := fixture.PTTL(t, s, key)
					require.True(t, ttl == -2 || ttl > 0 && ttl <= 10_000, "%s %d", key, ttl)
					fixture.Do(t, s, "DEL", key)
				}
			}
		})
	}
}

// TestCheckFindsPatternsThatAreTooNarrow: each is a pattern of lock/SERVERS.md that was made a little
// narrower.
func TestCheckFindsPatternsThatAreTooNarrow(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	rights := fixture.RightsOfPage(t, "SERVERS.md")
	all := append(slices.Clone(rights[0]), rights[1][1:]...)
	for wide, narrow := range map[string]string{
		"&redisson_lock__channel:{app:*":            "&redisson_lock__channel:{app:*}", // waiters of a FairMutex have channels of their own
		"&redisson_lock__channel:app:*":             "&redisson_lock__channel:app:*}",
		"&redisson_rwlock:app:*":                    "&redisson_rwlock:app:{*}",
		"&redisson_sc:{app:*":                       "&redisson_sc:{app:*}:*",
		"&redisson_countdownlatch__channel__{app:*": "&redisson_countdownlatch__channel__{app:*}x",
		"~redisson_lock_token:app:*":                "~redisson_lock_token:{app:*}",
		"~redisson_lock_queue:{app:*":               "~redisson_lock_queue:app:*",
		"~redisson_lock_timeout:app:*":              "~redisson_lock_timeout:app:{*}",
		"~{app:*":                                   "~{app:*}:wheellock_*",
	} {
		t.Run(narrow, func(t *testing.T) {
			s := fixture.Server(t)
			args := []any{"SETUSER"}
			require.Contains(t, all, wide)
			for _, word := range all {
				if word == wide {
					word = narrow
				}
				args = append(args, word)
			}
			fixture.Do(t, s, "ACL", args...)
			c := fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
				return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("secret"))
			}}, lock.Config{KeyPrefix: "app:"})
			found := onlyProblem(t, c.Check(bounded.Context(t)))
			require.Contains(t, found, map[byte]string{'~': "may not use keys such as ", '&': "may not use channels such as "}[wide[0]])
			name, _, _ := strings.Cut(wide[1:], "*")
			require.Contains(t, found, " "+name)
		})
	}
}

// TestCheckWritesNothingThatItCannotRemove: SET alone gives a TTL.
func TestCheckWritesNothingThatItCannotRemove(t *testing.T) {
	s := fixture.Server(t)
	err := fixture.ClientWithout(t, s, "u", lock.Config{}, "-set", "-del").Check(bounded.Context(t))
	require.ErrorContains(t, err, "the user may not run set, del: ")
	require.ErrorContains(t, err, "first give the user +set +del")
	require.Empty(t, fixture.Keys(t, s, "*"))
	err = fixture.ClientWithout(t, s, "v", lock.Config{}, "-set", "-pexpire").Check(bounded.Context(t))
	require.Contains(t, onlyProblem(t, err), "the user may not run set, pexpire: ")
	require.Empty(t, fixture.Keys(t, s, "*"))
	err = fixture.ClientWithout(t, s, "w", lock.Config{}, "-del", "-pexpire").Check(bounded.Context(t))
	require.ErrorContains(t, err, "the user may not run pexpire, del: ")
	left := fixture.Keys(t, s, "*")
	require.LessOrEqual(t, len(left), 1)
	for _, key := range left {
		require.NotEqual(t, int64(-1), fixture.PTTL(t, s, key), "PERSIST took the TTL")
	}
	require.Empty(t, endlessStrings(t, s))
}

func endlessStrings(t *testing.T, s *redistest.Server) (found []string) {
	t.Helper()
	for _, key := range fixture.Keys(t, s, "*") {
		if fixture.PTTL(t, s, key) == -1 {
			found = append(found, key)
		}
	}
	return found
}

// TestCheckSaysWhatTheServerIs when it can take no lock, or loses them.
func TestCheckSaysWhatTheServerIs(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	ctx := bounded.Context(t)
	check := func(t *testing.T, s *redistest.Server, cfg lock.Config) string {
		return onlyProblem(t, fixture.ClientOf(t, s, cfg).Check(ctx))
	}
	t.Run("its memory is full", func(t *testing.T) {
		s := fixture.Server(t, "--maxmemory", "1")
		err := fixture.ClientOf(t, s, lock.Config{}).Check(ctx)
		require.Contains(t, onlyProblem(t, err), "memory is full")
		var said redis.Error
		require.ErrorAs(t, err, &said)
		require.Contains(t, string(said), "OOM")
		require.NotErrorIs(t, err, lock.ErrUnknown)
	})
	t.Run("it evicts", func(t *testing.T) {
		s := fixture.Server(t, "--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl")
		require.Contains(t, check(t, s, lock.Config{}), "set maxmemory-policy noeviction")
	})
	t.Run("it is a replica", func(t *testing.T) {
		s := fixture.Server(t, "--replicaof", "127.0.0.1", "1")
		require.Contains(t, check(t, s, lock.Config{}), "the server is a replica")
		fixture.Do(t, s, "CONFIG", "SET", "replica-serve-stale-data", "no")
		require.Contains(t, check(t, s, lock.Config{}), "lost its master")
	})
	t.Run("it wants replicas", func(t *testing.T) {
		fixture.NeedAbilities(t, redistest.ReplicasRule)
		s := fixture.Server(t, "--min-replicas-to-write", "1")
		require.Contains(t, check(t, s, lock.Config{}), "min-replicas-to-write")
	})
	t.Run("it has too few replicas", func(t *testing.T) {
		s := fixture.Server(t)
		err := fixture.ClientOf(t, s, lock.Config{Replicas: 1, ReplicaTimeout: 50 * time.Millisecond}).Check(ctx)
		require.Contains(t, onlyProblem(t, err), "Config.Replicas is 1, and 0 replicas answered")
		require.ErrorIs(t, err, lock.ErrNotReplicated)
		fixture.SetUserWithout(t, s, "nowait", "-wait")
		require.Contains(t, onlyProblem(t, fixture.ClientWithout(t, s, "nowait", lock.Config{Replicas: 1}, "-wait").Check(ctx)), "may not run wait: ")
	})
	t.Run("it is a node of a Cluster", func(t *testing.T) {
		s := fixture.Server(t, "--cluster-enabled", "yes")
		err := fixture.ClientOf(t, s, lock.Config{}).Check(ctx)
		require.Contains(t, onlyProblem(t, err), "the server's Cluster is down, or has slots that no master has")
		slots := []any{"ADDSLOTS"}
		for slot := range 16384 {
			slots = append(slots, slot)
		}
		fixture.Do(t, s, "CLUSTER", slots...)
		conn := fixture.Dial(t, s)
		bounded.Until(t, func() bool {
			_, err := conn.Do("GET", "x")
			return err == nil
		})
		require.Contains(t, check(t, s, lock.Config{}), "give a Topology of package lock/cluster to lock.NewTopology")
		var log fixture.Log
		c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "{app}:", Logger: log.Logger()})
		log.Flush = lock.FlushLog(c)
		require.NoError(t, c.Check(ctx), "as lock/SERVERS.md has it")
		require.Contains(t, log.String(), "the server is a node of a Redis Cluster")
	})
	t.Run("it wants a password", func(t *testing.T) {
		s := fixture.Start(t, redistest.Options{Password: "secret"})
		c := fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, s.Network(), s.Addr())
		}}, lock.Config{})
		require.Contains(t, onlyProblem(t, c.Check(ctx)), "the server requires a password")
		c = fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, s.Network(), s.Addr(), redis.DialPassword("wrong"))
		}}, lock.Config{})
		found := onlyProblem(t, c.Check(ctx))
		require.Contains(t, found, "password is wrong")
		require.Regexp(t, "WRONGPASS|ERR invalid password", found) // the latter before there were users
	})
	t.Run("it is not there", func(t *testing.T) {
		s := fixture.Server(t)
		c := fixture.ClientOf(t, s, lock.Config{})
		require.NoError(t, s.Stop())
		err := c.Check(ctx)
		require.Contains(t, onlyProblem(t, err), "the server cannot be reached")
		require.ErrorIs(t, err, lock.ErrUnknown)
	})
	t.Run("it keeps an AOF", func(t *testing.T) {
		s := fixture.Server(t, "--appendonly", "yes")
		for user, want := range map[string]string{"may": "appendfsync is everysec", "maynot": "does not tell its appendfsync"} {
			var log fixture.Log
			c := fixture.ClientWithout(t, s, user, lock.Config{Logger: log.Logger()}, map[string]string{"may": "+config", "maynot": "-config"}[user])
			log.Flush = lock.FlushLog(c)
			require.NoError(t, c.Check(ctx))
			require.Contains(t, log.String(), want)
			require.NotContains(t, log.String(), "appendonly yes")
		}
	})
}

// TestCheckFindsProxies: what stands between a client and Redis keeps something back.
func TestCheckFindsProxies(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	var turn atomic.Int64
	for name, test := range map[string]struct {
		decide func(faultproxy.Command) faultproxy.Fate
		want   string
	}{
		"INFO ends the connection": {func(c faultproxy.Command) faultproxy.Fate {
			if c.Args[0] == "INFO" {
				return faultproxy.HangUp
			}
			return faultproxy.Pass
		}, "when it is asked for INFO, as do proxies"},
		"no SUBSCRIBE": {func(c faultproxy.Command) faultproxy.Fate {
			if c.Args[0] == "SUBSCRIBE" {
				return faultproxy.Answer(redis.Error("ERR unknown command 'SUBSCRIBE'"))
			}
			return faultproxy.Pass
		}, "the server does not know subscribe: "},
		"SUBSCRIBE ends the connection": {func(c faultproxy.Command) faultproxy.Fate {
			if c.Args[0] == "SUBSCRIBE" {
				return faultproxy.HangUp
			}
			return faultproxy.Pass
		}, "SUBSCRIBE got no answer"},
		"several servers": {func(c faultproxy.Command) faultproxy.Fate {
			if c.Args[0] == "EVAL" && c.Args[1] == script.Uptime.Text() {
				return faultproxy.Answer([]any{int64(1), fmt.Sprint("run", turn.Add(1)%2)})
			}
			return faultproxy.Pass
		}, "several servers answer at this address"},
		"no scripts": {func(c faultproxy.Command) faultproxy.Fate {
			if strings.HasPrefix(c.Args[0], "EVAL") {
				return faultproxy.Answer(redis.Error("ERR unknown command 'EVAL'"))
			}
			return faultproxy.Pass
		}, "the server does not know evalsha, eval: "},
		"no undeclared keys": {func(c faultproxy.Command) faultproxy.Fate {
			if c.Script == "rw_renew" { // as Dragonfly's answer is
				return faultproxy.Answer([]any{[]any{int64(1), []byte("script tried accessing undeclared key")}})
			}
			return faultproxy.Pass
		}, "so a RWMutex cannot have readers"},
		"no script with undeclared keys": {func(c faultproxy.Command) faultproxy.Fate {
			if c.Script == "rw_renew" {
				return faultproxy.Answer(redis.Error("ERR script accesses keys that are not declared"))
			}
			return faultproxy.Pass
		}, "so a RWMutex cannot have readers"},
		"TIME is not answered": {func(c faultproxy.Command) faultproxy.Fate {
			if c.Args[0] == "TIME" {
				return faultproxy.LoseRequest
			}
			return faultproxy.Pass
		}, "TIME got no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fixture.ClientOver(t, fixture.Proxy(t, s, test.decide), lock.Config{IOTimeout: 200 * time.Millisecond})
			bounded.Until(t, func() bool { // the machine may be slow
				err := c.Check(ctx)
				return err != nil && strings.Contains(err.Error(), test.want)
			})
		})
	}
}

// TestCheckFindsAProxyThatAnswersInRESP3, and takes it for no other.
func TestCheckFindsAProxyThatAnswersInRESP3(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	for command, answer := range map[string]faultproxy.Raw{
		"INFO":      "=18\r\ntxt:redis_mode:ok\r\n\r\n",
		"SUBSCRIBE": ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
	} {
		p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
			if c.Args[0] == command {
				return faultproxy.Answer(answer)
			}
			return faultproxy.Pass
		})
		for _, c := range []*lock.Client{fixture.ClientOver(t, p, lock.Config{}), opened(t, lock.Endpoint{URL: "redis://" + p.Addr()}, lock.Config{})} {
			found := problems(t, c.Check(bounded.Context(t)))
			require.Contains(t, found[0], "the answer to "+command+" cannot be read: ")
			require.NotContains(t, strings.Join(found, "\n"), "twemproxy")
		}
	}
}

// TestCheckLeavesNothingWhateverEndsIt, at whatever request.
func TestCheckLeavesNothingWhateverEndsIt(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := fixture.Server(t)
	over := errors.New("the program ends")
	ended, requests := 0, int64(1<<62)
	for at := int64(1); at <= requests; at++ {
		for _, ends := range []bool{true, false} { // the context, or the connection, without an answer
			ctx, cancel := context.WithCancelCause(bounded.Context(t))
			var n atomic.Int64
			p := fixture.Proxy(t, s, func(faultproxy.Command) faultproxy.Fate {
				if n.Add(1) != at {
					return faultproxy.Pass
				}
				if ends {
					cancel(over)
					return faultproxy.Pass
				}
				return faultproxy.LoseReply
			})
			c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
			err := c.Check(ctx)
			if ctx.Err() != nil {
				ended++
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, over)
				require.ErrorContains(t, err, "before it ended: context canceled; the program ends")
			}
			require.Empty(t, fixture.Keys(t, s, "*"))
			if ends && err == nil { // one that a slow machine has cut short says nothing
				requests = n.Load()
			}
			cancel(nil)
			fixture.CloseNow(c)
			p.Close()
		}
	}
	require.Greater(t, ended, 25)
}

// TestChecksAndLocksGoOnTogether.
func TestChecksAndLocksGoOnTogether(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	checked := make(chan error)
	for range 8 {
		go func() { checked <- c.Check(ctx) }()
	}
	for range 50 {
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, held.Unlock(ctx))
	}
	for range 8 {
		require.NoError(t, bounded.Receive(t, checked))
	}
	require.Equal(t, []string{"wheellock_token"}, fixture.Keys(t, s, "*"))
}

func TestCheckOfAClosedClientSaysSo(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	fixture.CloseNow(c)
	require.ErrorIs(t, c.Check(bounded.Context(t)), lock.ErrClosed)

	// One that is closed meanwhile.
	asked := make(chan struct{})
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "EVAL" {
			close(asked)
			return faultproxy.LoseRequest
		}
		return faultproxy.Pass
	})
	c = fixture.ClientOver(t, p, lock.Config{Lease: time.Hour, IOTimeout: time.Minute})
	checked := make(chan error)
	go func() { checked <- c.Check(context.Background()) }()
	bounded.Receive(t, asked)
	fixture.CloseNow(c)
	require.ErrorIs(t, bounded.Receive(t, checked), lock.ErrClosed)
}
