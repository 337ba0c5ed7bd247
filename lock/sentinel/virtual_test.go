package sentinel_test

import (
	"bufio"
	"cmp"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/lock/topology"
)

// virtual has servers in memory, by their addresses, for bubbles of testing/synctest. A server
// gets a command and returns its answer; a nil server never answers.
type virtual struct {
	servers map[string]func(command []string) any
	wg      sync.WaitGroup

	mu    sync.Mutex
	dials []time.Time
}

func (v *virtual) dial(_ context.Context, _, addr string) (net.Conn, error) {
	v.mu.Lock()
	v.dials = append(v.dials, time.Now())
	v.mu.Unlock()
	here, there := net.Pipe()
	if serve := v.servers[addr]; serve != nil {
		v.wg.Go(func() {
			defer there.Close()
			for r := bufio.NewReader(there); ; {
				command, err := faultproxy.ReadCommand(r)
				if err != nil {
					return
				}
				if _, err := there.Write(faultproxy.AppendReply(nil, serve(command))); err != nil {
					return
				}
			}
		})
	}
	return here, nil
}

func (v *virtual) topology(t *testing.T, cfg sentinel.Config) *sentinel.Topology {
	t.Helper()
	cfg.Master, cfg.NetDial = "mymaster", v.dial
	s, err := sentinel.New(cfg)
	require.NoError(t, err)
	return s
}

// TestAQuestionLeavesHalfOfTheTimeForTheDial of the last known master, if sentinels hang.
func TestAQuestionLeavesHalfOfTheTimeForTheDial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &virtual{servers: map[string]func([]string) any{
			"good:1": func([]string) any { return faultproxy.Bulks("ip", "redis", "port", "1", "config-epoch", "1") },
			"redis:1": func([]string) any {
				time.Sleep(400 * time.Millisecond)
				return faultproxy.Bulks("master")
			},
		}}
		defer v.wg.Wait()
		s := v.topology(t, sentinel.Config{Sentinels: []string{"good:1", "hung:1", "hung:2"}, Timeout: time.Minute})
		for range 2 { // the first time one sentinel answers, and none the next time
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			conn, err := s.GetContext(ctx)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			v.servers["good:1"] = nil
		}
	})
}

// TestSentinelsThatRefuseSUBSCRIBEAreDialledRarely: the pause grows to a minute.
func TestSentinelsThatRefuseSUBSCRIBEAreDialledRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &virtual{servers: map[string]func([]string) any{"s:1": func(command []string) any {
			if strings.EqualFold(command[0], "SUBSCRIBE") {
				return redis.Error("NOPERM this user has no permissions to run the 'subscribe' command")
			}
			return faultproxy.Bulks("ip", "redis", "port", "1", "config-epoch", "1")
		}}}
		defer v.wg.Wait()
		s := v.topology(t, sentinel.Config{Sentinels: []string{"s:1"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s.Follow(ctx, 2*time.Hour, nil, func(topology.Layout) {})
		require.Less(t, len(v.dials), 75)
		require.Greater(t, len(v.dials), 55)
	})
}

// TestAMasterThatTurnsTheConnectionAwaySaysWhy: its text is no refusal of ROLE, so nothing else is asked.
func TestAMasterThatTurnsTheConnectionAwaySaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		v := &virtual{servers: map[string]func([]string) any{
			"s:1": func([]string) any { return faultproxy.Bulks("ip", "redis", "port", "1", "config-epoch", "1") },
			"redis:1": func([]string) any {
				asked++
				return redis.Error("ERR max number of clients reached")
			},
		}}
		defer v.wg.Wait()
		_, err := v.topology(t, sentinel.Config{Sentinels: []string{"s:1"}}).GetContext(t.Context())
		require.ErrorContains(t, err, "max number of clients")
		require.Equal(t, 1, asked)
	})
}

// TestAMajorityMustStayWithAnOlderConfiguration: what a minority said before does not count.
func TestAMajorityMustStayWithAnOlderConfiguration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := func([]string) any { return faultproxy.Bulks("ip", "old", "port", "1", "config-epoch", "1") }
		later := func([]string) any { return faultproxy.Bulks("ip", "later", "port", "1", "config-epoch", "2") }
		v := &virtual{servers: map[string]func([]string) any{"a:1": old, "b:1": old, "c:1": later}}
		defer v.wg.Wait()
		s := v.topology(t, sentinel.Config{Sentinels: []string{"a:1", "b:1", "c:1"}, Timeout: time.Second})
		requireMaster := func(addr string) {
			t.Helper()
			got, err := s.MasterAddr(t.Context())
			if addr == "" {
				require.ErrorIs(t, err, sentinel.ErrNoSentinel)
				return
			}
			require.NoError(t, err)
			require.Equal(t, addr, got)
		}
		requireMaster("later:1")
		v.servers["b:1"], v.servers["c:1"] = nil, nil
		requireMaster("") // one has missed the failover
		v.servers["b:1"] = old
		time.Sleep(20 * time.Second)
		requireMaster("") // now a majority has
		v.servers["b:1"] = nil
		time.Sleep(9 * time.Second)
		requireMaster("")
		v.servers["b:1"] = old
		time.Sleep(2 * time.Second)
		requireMaster("") // a majority again, but not for 10 s
		time.Sleep(11 * time.Second)
		requireMaster("old:1")
	})
}

// TestADialOfAHungMasterEndsWithDialTimeout, in the login as well as in the question for the role, although
// the context of GetContext has no end.
func TestADialOfAHungMasterEndsWithDialTimeout(t *testing.T) {
	t.Parallel()
	login := []redis.DialOption{redis.DialPassword("password")}
	for name, cfg := range map[string]sentinel.Config{
		"role":        {DialTimeout: time.Second},
		"login":       {DialTimeout: time.Second, DialOptions: login},
		"credentials": {DialTimeout: time.Second, Credentials: func(context.Context) (user, password string, err error) { return "", "password", nil }},
		"by default":  {DialOptions: login},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &virtual{servers: map[string]func([]string) any{
					"s:1": func([]string) any { return faultproxy.Bulks("ip", "hung", "port", "1", "config-epoch", "1") },
				}}
				defer v.wg.Wait()
				cfg.Sentinels = []string{"s:1"}
				began := time.Now()
				_, err := v.topology(t, cfg).GetContext(t.Context())
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, cmp.Or(cfg.DialTimeout, 5*time.Second), time.Since(began))
			})
		})
	}
}

// TestTheRoleIsAskedForWithinTheTimeOfAURL: the dial is over when the master is asked.
func TestTheRoleIsAskedForWithinTheTimeOfAURL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &virtual{servers: map[string]func([]string) any{
			"s:1": func([]string) any { return faultproxy.Bulks("ip", "hung", "port", "1", "config-epoch", "1") },
		}}
		defer v.wg.Wait()
		s, err := sentinel.Open("redis-sentinel://s:1?master=mymaster&dial_timeout=1s", sentinel.Config{NetDial: v.dial})
		require.NoError(t, err)
		began := time.Now()
		_, err = s.GetContext(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
	})
}
