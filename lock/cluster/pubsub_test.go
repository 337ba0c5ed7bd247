package cluster_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// view is a Cluster as one client sees it. The test chooses the version that INFO tells.
type view struct {
	rc      *redistest.Cluster
	proxies map[string]*faultproxy.Proxy // by the address of the server
	version atomic.Value                 // string; "" if INFO is refused
	asked   atomic.Int32                 // how often the version was asked for
	busy    atomic.Int32                 // how many of the next such questions are answered with BUSY
	log     fixture.Log
}

func viewOf(t *testing.T, rc *redistest.Cluster, version string) *view {
	t.Helper()
	v := &view{rc: rc, proxies: map[string]*faultproxy.Proxy{}}
	v.version.Store(version)
	for _, s := range rc.Servers {
		v.proxies[s.Addr()] = fixture.Proxy(t, s, v.decide)
	}
	return v
}

func (v *view) decide(c faultproxy.Command) faultproxy.Fate {
	if c.Args[0] != "INFO" || len(c.Args) < 2 || c.Args[1] != "server" {
		return faultproxy.Pass
	}
	v.asked.Add(1)
	if v.busy.Add(-1) >= 0 {
		return faultproxy.Mangle(redis.Error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."))
	}
	version := v.version.Load().(string)
	if version == "" {
		return faultproxy.Mangle(redis.Error("NOPERM this user has no permissions to run the 'info' command"))
	}
	return faultproxy.Mangle([]byte("# Server\r\nredis_version:" + version + "\r\nredis_mode:cluster\r\n"))
}

// become makes the Cluster one of another version: all connections end, as at a restart.
func (v *view) become(version string) {
	v.version.Store(version)
	for _, p := range v.proxies {
		p.Reset()
	}
}

// mixedViewOf returns a view of a Cluster whose second server is old, until the view old becomes another
// version.
func mixedViewOf(t *testing.T, rc *redistest.Cluster) (mixed, old *view) {
	old, later := viewOf(t, rc, "6.2.14"), viewOf(t, rc, "7.0.15")
	mixed = &view{rc: rc, proxies: map[string]*faultproxy.Proxy{}}
	for i, s := range rc.Servers {
		mixed.proxies[s.Addr()] = later.proxies[s.Addr()]
		if i == 1 {
			mixed.proxies[s.Addr()] = old.proxies[s.Addr()]
		}
	}
	return mixed, old
}

// client returns a client that sees the Cluster as v does.
func (v *view) client(t *testing.T, o cluster.Options, cfg lock.Config, more ...redis.DialOption) *lock.Client {
	t.Helper()
	dial := redis.DialNetDial(func(network, addr string) (net.Conn, error) {
		if p := v.proxies[addr]; p != nil {
			addr = p.Addr()
		}
		return net.Dial(network, addr)
	})
	source, err := cluster.New(&redisc.Cluster{StartupNodes: v.rc.Addrs()[:1], DialOptions: append(more, dial)}, o)
	require.NoError(t, err)
	cfg.Logger = v.log.Logger()
	return fixture.Client(t, source, cfg)
}

// chosen returns the commands for publishing that the log names, one for each change.
func (v *view) chosen() (commands []string) {
	for line := range strings.Lines(v.log.String()) {
		if _, what, ok := strings.Cut(line, "how releases are published was chosen"); ok {
			_, what, _ = strings.Cut(what, "command=")
			command, _, _ := strings.Cut(what, " versions")
			commands = append(commands, strings.Trim(command, `"`))
		}
	}
	return commands
}

// sleeper lets b wait for a lock that a holds, and returns when b listens.
func sleeper(t *testing.T, rc *redistest.Cluster, a, b *lock.Client, name string, sharded bool) (held *lock.Held, got chan error) {
	t.Helper()
	held = fixture.Hold(t, a.Mutex(name).Lock)
	got = make(chan error, 1)
	ctx := bounded.Context(t)
	go func() { got <- b.Mutex(name).Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
	s := rc.Servers[owner(t, rc, name)]
	require.Eventually(t, func() bool { return subscribed(t, s, name, sharded) }, time.Minute, time.Millisecond)
	return held, got
}

// unheard is a configuration with which only a message wakes a waiter.
var unheard = lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: time.Hour}

func TestABusyServerIsAskedAgainHowReleasesArePublished(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	v := viewOf(t, rc, "7.0.15")
	v.busy.Store(2)
	a := v.client(t, cluster.Options{}, lock.Config{})
	held := fixture.Hold(t, a.Mutex("busy").Lock)
	require.Negative(t, v.busy.Load(), "INFO was asked again")
	require.Equal(t, lock.PubSub{Sharded: 1}, a.Stats().PubSub)
	require.NotContains(t, v.log.String(), "version, so PUBLISH is used")
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// TestABusyServerIsNotDialledAgainAtOnce, however many calls wait for a connection.
func TestABusyServerIsNotDialledAgainAtOnce(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	v := viewOf(t, rc, "7.0.15")
	v.busy.Store(1 << 30)
	a, ctx := v.client(t, cluster.Options{}, lock.Config{}), bounded.Context(t)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			assert.NoError(t, a.Mutex(fmt.Sprintf("{busy}%d", i)).Do(ctx, func(context.Context, *lock.Held) error { return nil }))
		})
	}
	require.Eventually(t, func() bool { return v.asked.Load() >= 6 }, time.Minute, time.Millisecond)
	asked := int(v.asked.Load())
	most := 2 * (time.Since(began)/(50*time.Millisecond) + 2) // two connections, and each dial takes that long
	require.LessOrEqual(t, asked, int(most))
	v.busy.Store(0)
	wg.Wait()
}

func TestHowReleasesArePublishedIsChosenByTheVersion(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	for version, want := range map[string]string{"7.0.0": "SPUBLISH", "7.2.4": "SPUBLISH", "10.1.0": "SPUBLISH", "6.2.14": "PUBLISH", "5.0.0": "PUBLISH"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			sharded := want == "SPUBLISH"
			if sharded {
				fixture.NeedAbilities(t, redistest.ShardedPubSub)
			}
			v := viewOf(t, rc, version)
			a, b := v.client(t, cluster.Options{}, unheard), v.client(t, cluster.Options{}, unheard)
			require.Equal(t, lock.PubSub{}, a.Stats().PubSub, "nothing was used yet")
			for i := range 9 { // on every master
				held, got := sleeper(t, rc, a, b, fmt.Sprint("chosen:", version, i), sharded)
				require.NoError(t, held.Unlock(bounded.Context(t)))
				require.NoError(t, bounded.Receive(t, got))
			}
			bounded.Until(t, func() bool { return len(v.chosen()) >= 2 })
			require.Equal(t, []string{want, want}, v.chosen(), "once for each client:\n%s", v.log.String())
			require.NotRegexp(t, `level=WARN[^\n]*PUBLISH`, v.log.String())
			masters := lock.PubSub{Plain: 3}
			if sharded {
				masters = lock.PubSub{Sharded: 3}
			}
			require.Equal(t, masters, a.Stats().PubSub)
			require.Equal(t, masters, b.Stats().PubSub)
		})
	}
}

// TestWhatIsSetIsNotChosen, and no server is asked for its version.
func TestWhatIsSetIsNotChosen(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	for set, version := range map[topology.PubSub]string{topology.PubSubPlain: "7.0.0", topology.PubSubSharded: "6.2.14"} {
		sharded := set == topology.PubSubSharded
		if sharded && !fixture.HasAbilities(t, redistest.ShardedPubSub) {
			continue
		}
		v := viewOf(t, rc, version)
		a, b := v.client(t, cluster.Options{PubSub: set}, unheard), v.client(t, cluster.Options{PubSub: set}, unheard)
		name := fmt.Sprint("set:", set)
		held, got := sleeper(t, rc, a, b, name, sharded)
		require.False(t, subscribed(t, rc.Servers[owner(t, rc, name)], name, !sharded))
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.NoError(t, bounded.Receive(t, got))
		require.Zero(t, v.asked.Load())
		require.Empty(t, v.chosen())
		if sharded {
			require.Equal(t, lock.PubSub{Sharded: 3}, a.Stats().PubSub)
		} else {
			require.Equal(t, lock.PubSub{Plain: 3}, a.Stats().PubSub)
		}
	}
	_, err := cluster.New(&redisc.Cluster{StartupNodes: rc.Addrs()}, cluster.Options{PubSub: 3})
	require.ErrorContains(t, err, "Options.PubSub is 3")
}

// TestAWaiterThatSleepsIsWokenThoughTheVersionChanged, by a message: no poll can wake it.
func TestAWaiterThatSleepsIsWokenThoughTheVersionChanged(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	for _, change := range [][2]string{{"6.2.14", "7.0.15"}, {"7.0.15", "6.2.14"}} {
		for _, whose := range []string{"both", "the waiter's", "the holder's"} {
			t.Run(fmt.Sprint(change, whose), func(t *testing.T) {
				t.Parallel()
				before, after := change[0][0] == '7', change[1][0] == '7'
				mine, other := viewOf(t, rc, change[0]), viewOf(t, rc, change[0])
				a, b := mine.client(t, cluster.Options{}, unheard), other.client(t, cluster.Options{}, unheard)
				name := fmt.Sprint("change:", change, whose)
				held, got := sleeper(t, rc, a, b, name, before)
				s := rc.Servers[owner(t, rc, name)]
				if whose != "the holder's" {
					other.become(change[1])
					// The waiter's client has noticed the change, and listens in both ways.
					require.Eventually(t, func() bool {
						return len(other.chosen()) == 2 && subscribed(t, s, name, true) && subscribed(t, s, name, false)
					},
						time.Minute, time.Millisecond)
					require.Equal(t, after, b.Stats().PubSub.Sharded > 0)
				}
				if whose != "the waiter's" {
					mine.become(change[1])
				}
				require.NoError(t, held.Unlock(bounded.Context(t)))
				require.NoError(t, bounded.Receive(t, got))
				again, got := sleeper(t, rc, a, b, name, whose == "the waiter's" || after)
				require.NoError(t, again.Unlock(bounded.Context(t)))
				require.NoError(t, bounded.Receive(t, got))
			})
		}
	}
}

// TestEveryKindIsWokenThoughTheVersionChanged while its waiter slept.
func TestEveryKindIsWokenThoughTheVersionChanged(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	v := viewOf(t, rc, "6.2.14")
	a, b := v.client(t, cluster.Options{}, unheard), v.client(t, cluster.Options{}, unheard)
	ctx := bounded.Context(t)
	wakes, got := map[string]func() error{}, map[string]chan error{}
	asleep := func(name string, wake func() error, wait func() error) {
		wakes[name], got[name] = wake, make(chan error, 1)
		go func() { got[name] <- wait() }()
		awaitListener(t, rc, name, false)
	}
	for kind, take := range exclusive {
		name := "every:" + kind
		held, err := first(kind, a, name)(ctx)
		require.NoError(t, err)
		asleep(name, func() error { return held.Unlock(ctx) }, func() error {
			next, err := take(b, name, true)(ctx)
			if err != nil {
				return err
			}
			return next.Unlock(ctx)
		})
	}
	for _, name := range []string{"every:latch", "every:{tagged}latch"} { // its channel has another name then
		latch := a.CountDownLatch(name)
		set, err := latch.TrySet(ctx, 1)
		require.NoError(t, err)
		require.True(t, set)
		asleep(name, func() error { return latch.CountDown(ctx) }, func() error { return b.CountDownLatch(name).Wait(ctx) })
	}
	semaphore := a.Semaphore("every:semaphore")
	set, err := semaphore.TrySet(ctx, 0)
	require.NoError(t, err)
	require.True(t, set)
	asleep(semaphore.Name(), func() error { return semaphore.Release(ctx, 1) }, func() error { return b.Semaphore(semaphore.Name()).Acquire(ctx, 1) })

	v.become("7.0.15")
	for name := range wakes {
		awaitListener(t, rc, name, true)
	}
	for name, wake := range wakes {
		require.NoError(t, wake(), name)
		require.NoError(t, bounded.Receive(t, got[name]), name)
	}
	require.Equal(t, lock.PubSub{Sharded: 3}, a.Stats().PubSub)
}

// TestAWaiterIsWokenThoughTheSlotMovedToAnotherVersion while it slept. No poll can wake it.
func TestAWaiterIsWokenThoughTheSlotMovedToAnotherVersion(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	for _, from := range []int{1, 0} { // the old one is 1
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
			t.Parallel()
			mixed, _ := mixedViewOf(t, rc)
			a, b := mixed.client(t, cluster.Options{}, unheard), mixed.client(t, cluster.Options{}, unheard)
			name, to := fmt.Sprint("moves from ", from), 1-from
			for i := 0; owner(t, rc, name) != from; i++ {
				name = fmt.Sprint("moves from ", from, " ", i)
			}
			held, got := sleeper(t, rc, a, b, name, from == 0)
			slot := redisc.Slot(name)
			require.NoError(t, rc.BeginMove(slot, from, to))
			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
			require.NoError(t, held.Unlock(bounded.Context(t)))
			require.NoError(t, bounded.Receive(t, got))
		})
	}
}

// TestTheOtherKindOfMessageIsHeardForAWhileAlone.
func TestTheOtherKindOfMessageIsHeardForAWhileAlone(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	v := viewOf(t, rc, "7.0.15")
	cfg := lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: 100 * time.Millisecond}
	a, b := v.client(t, cluster.Options{}, cfg), v.client(t, cluster.Options{}, cfg)
	held, got := sleeper(t, rc, a, b, "a while", true)
	s := rc.Servers[owner(t, rc, "a while")]
	require.Eventually(t, func() bool { return !subscribed(t, s, "a while", false) }, time.Minute, time.Millisecond)
	require.True(t, subscribed(t, s, "a while", true))
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.NoError(t, bounded.Receive(t, got))
}

// TestAMasterOfAnotherVersion: releases are published at each master as its own version has it.
func TestAMasterOfAnotherVersion(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	mixed, old := mixedViewOf(t, rc)
	a, b := mixed.client(t, cluster.Options{}, unheard), mixed.client(t, cluster.Options{}, unheard)
	wake := func() {
		for i := range 9 {
			name := fmt.Sprint("mixed:", i)
			sharded := owner(t, rc, name) != 1 || old.version.Load() == "7.0.0"
			held, got := sleeper(t, rc, a, b, name, sharded)
			require.NoError(t, held.Unlock(bounded.Context(t)))
			require.NoError(t, bounded.Receive(t, got))
		}
	}
	wake()
	require.Equal(t, lock.PubSub{Plain: 1, Sharded: 2}, a.Stats().PubSub)
	bounded.Until(t, func() bool {
		return strings.Contains(mixed.log.String(), `command="PUBLISH, SPUBLISH" versions="6.2.14, 7.0.15"`)
	})
	old.become("7.0.0")
	wake()
	require.Equal(t, lock.PubSub{Sharded: 3}, a.Stats().PubSub)
	bounded.Until(t, func() bool { return strings.Contains(mixed.log.String(), `command=SPUBLISH versions="7.0.0, 7.0.15"`) })
}

// TestAClusterThatDoesNotTellItsVersion is used with PUBLISH, and waiters listen in both ways.
func TestAClusterThatDoesNotTellItsVersion(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	v, known := viewOf(t, rc, ""), viewOf(t, rc, "7.0.15")
	a, b, c := v.client(t, cluster.Options{}, unheard), v.client(t, cluster.Options{}, unheard), known.client(t, cluster.Options{}, unheard)
	held, got := sleeper(t, rc, a, b, "untold", false)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.NoError(t, bounded.Receive(t, got))
	held, got = sleeper(t, rc, c, b, "untold", true)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.NoError(t, bounded.Receive(t, got), "it hears who knows more")
	v.log.Await(t, 2, "this server does not tell its version") // once for each client
	require.Empty(t, v.chosen())
	require.Equal(t, lock.PubSub{Plain: 1}, b.Stats().PubSub)
}

// TestAUserWithoutTheRightToShards publishes with PUBLISH, and no message is lost.
func TestAUserWithoutTheRightToShards(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	for _, s := range rc.Servers {
		fixture.Do(t, s, "ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-spublish", "-ssubscribe", "-sunsubscribe")
		fixture.Do(t, s, "ACL", "SETUSER", "later", "on", ">pw", "~*", "&*", "+@all")
	}
	as := func(name string) []redis.DialOption {
		return []redis.DialOption{redis.DialUsername(name), redis.DialPassword("pw")}
	}
	v := viewOf(t, rc, "7.0.15")
	a, b := v.client(t, cluster.Options{}, unheard, as("poor")...), v.client(t, cluster.Options{}, unheard, as("poor")...)
	for _, name := range []string{"poor", "poor again"} {
		held, got := sleeper(t, rc, a, b, name, false)
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.NoError(t, bounded.Receive(t, got))
	}
	require.Zero(t, a.Stats().PubSub.Sharded)
	require.Positive(t, a.Stats().PubSub.Plain)
	v.log.Await(t, a.Stats().PubSub.Plain+b.Stats().PubSub.Plain, "sharded pub/sub is refused") // once for each server
	text := v.log.String()
	require.Contains(t, text, "NOPERM")
	require.NotContains(t, text, "pub/sub failed")

	t.Run("the right is taken away", func(t *testing.T) {
		v := viewOf(t, rc, "7.0.15")
		a, b := v.client(t, cluster.Options{}, unheard, as("later")...), v.client(t, cluster.Options{}, unheard, as("later")...)
		held, got := sleeper(t, rc, a, b, "later", true)
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.NoError(t, bounded.Receive(t, got))
		held, got = sleeper(t, rc, a, b, "later", true) // it hears both: that is young
		for _, s := range rc.Servers {
			fixture.Do(t, s, "ACL", "SETUSER", "later", "-spublish")
		}
		// The client learns that SPUBLISH is refused when a message is lost. No later message is lost.
		other := fixture.Hold(t, a.Mutex("{later}:other").Lock)
		require.NoError(t, other.Unlock(bounded.Context(t)))
		v.log.Await(t, 1, "sharded pub/sub is refused")
		require.Equal(t, lock.PubSub{Plain: 1}, a.Stats().PubSub)
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.NoError(t, bounded.Receive(t, got))
	})
}

// TestWhoMayNotListenToShardsPolls, and the log says why.
func TestWhoMayNotListenToShardsPolls(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub)
	rc := onCluster(t)
	for _, s := range rc.Servers {
		fixture.Do(t, s, "ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-ssubscribe")
	}
	v := viewOf(t, rc, "7.0.15")
	cfg := lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: 50 * time.Millisecond}
	may := []redis.DialOption{redis.DialUsername("deaf"), redis.DialPassword("pw")}
	a, b := v.client(t, cluster.Options{}, cfg, may...), v.client(t, cluster.Options{}, cfg, may...)
	for range 2 {
		held, got := sleeper(t, rc, a, b, "deaf", false)
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.NoError(t, bounded.Receive(t, got))
	}
	v.log.Await(t, 1, "sharded pub/sub is refused")
	require.Contains(t, v.log.String(), "command=SSUBSCRIBE")
}

// TestAServerThatSaysNothingToTheQuestion for its version is used all the same.
func TestAServerThatSaysNothingToTheQuestion(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	for what, fate := range map[string]faultproxy.Fate{"it ends the connection": faultproxy.HangUp, "it is silent": faultproxy.LoseRequest} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			v := &view{rc: rc, proxies: map[string]*faultproxy.Proxy{}}
			for _, s := range rc.Servers {
				v.proxies[s.Addr()] = fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
					if c.Args[0] == "SPUBLISH" {
						asked.Add(1)
						return fate
					}
					return faultproxy.Pass
				})
			}
			c := v.client(t, cluster.Options{}, lock.Config{Lease: 5 * time.Second, IOTimeout: 200 * time.Millisecond})
			held, err := c.Mutex("silent").Lock(bounded.Context(t))
			require.NoError(t, err)
			require.NoError(t, held.Unlock(bounded.Context(t)))
			v.log.Await(t, 1, "does not tell its version")
			require.LessOrEqual(t, asked.Load(), int32(4), "it is not asked for each connection")
		})
	}
}
