package integration_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/lock/topology"
)

// envFeatures names the file that TestFeatures writes its result to.
const envFeatures = "WHEELLOCK_FEATURES"

// features are the features in the table of lock/SERVERS.md, in its words. All are tried on one
// server, which no other test uses.
var features = []struct {
	name  string
	try   func(t *testing.T, s *redistest.Server)
	needs []redistest.Ability
}{
	{name: "mutex", try: tryMutex},
	{name: "fencing", try: tryFencing},
	{name: "fair", try: tryFair},
	{name: "read-write", try: tryReadWrite},
	{name: "counters", try: tryCounters},
	{name: "permits", try: tryPermits},
	{name: "MultiLock", try: tryMultiLock},
	{name: "RedLock", try: tryRedLock},
	{name: "wake-up", try: tryWakeUp},
	{name: "loss", try: tryLoss},
	{name: "Redisson", try: tryRedisson},
	{name: "rights", try: tryRights, needs: []redistest.Ability{redistest.Users}},
	{name: "replicas", try: tryReplicas},
	{name: "Sentinel", try: trySentinel},
	{name: "Cluster", try: tryCluster},
}

// TestFeatures tries each feature once on the redis-server that is here, whatever it
// is, and says which work, with a row for the table of lock/SERVERS.md.
func TestFeatures(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a dozen servers")
	}
	s := startOwn(t, processes(t))
	software, err := s.Software()
	require.NoError(t, err)
	var mu sync.Mutex            // guards tried
	tried := map[string]string{} // why it does not work; empty if it does
	t.Run("on", func(t *testing.T) {
		for _, f := range features {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				lacks := software.Lacks(f.needs...)
				t.Cleanup(func() {
					mu.Lock()
					defer mu.Unlock()
					tried[f.name] = ""
					switch {
					case lacks != nil:
						tried[f.name] = lacks.Error()
					case t.Failed() || t.Skipped():
						tried[f.name] = "see " + t.Name()
					}
				})
				if lacks != nil {
					t.Skip(lacks)
				}
				f.try(t, s)
			})
		}
	})
	if len(tried) < len(features) {
		return // some were left out by -run
	}
	said := describeFeatures(software, tried)
	t.Logf("on %s\n%s", s, said)
	if file := os.Getenv(envFeatures); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(said), 0o644))
	}
}

// describeFeatures returns a line for each feature, and the row for the table in lock/SERVERS.md.
func describeFeatures(software redistest.Software, tried map[string]string) string {
	var lines, nots []string
	for _, f := range features {
		why := tried[f.name]
		if why == "" {
			lines = append(lines, f.name+": yes")
			continue
		}
		lines = append(lines, f.name+": not: "+why)
		nots = append(nots, fmt.Sprintf("%s (%s)", f.name, why))
	}
	row := fmt.Sprintf("| %v | all %d |", software, len(features))
	if len(nots) > 0 {
		row = fmt.Sprintf("| %v | %d of %d, not: %s |", software, len(features)-len(nots), len(features), strings.Join(nots, ", "))
	}
	return strings.Join(append(lines, row), "\n") + "\n"
}

func TestARowSaysWhatWorksAndWhatNot(t *testing.T) {
	t.Parallel()
	valkey := redistest.Software{Name: "Valkey", Version: "8.0.1"}
	all := describeFeatures(valkey, nil)
	require.Equal(t, len(features), strings.Count(all, ": yes\n"))
	require.True(t, strings.HasSuffix(all, "\n| Valkey 8.0.1 | all 15 |\n"), all)
	some := describeFeatures(valkey, map[string]string{"fair": "why", "loss": "because"})
	require.Contains(t, some, "fair: not: why\n")
	require.True(t, strings.HasSuffix(some, "\n| Valkey 8.0.1 | 13 of 15, not: fair (why), loss (because) |\n"), some)
	page, err := os.ReadFile("../lock/SERVERS.md")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(page), "## Which server\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "| server |")
	for _, f := range features {
		require.Contains(t, list, "**"+f.name+"**")
	}
	require.Equal(t, 2*len(features), strings.Count(list, "**"))
}

// No waiter polls, so only a message wakes a waiter.
var onMessages = lock.Config{Lease: 2 * time.Second, MaxPoll: time.Hour}

// lockInTurns holds what a takes while b waits for it, and then b has it.
func lockInTurns(t *testing.T, a, b func(context.Context) (*lock.Held, error), when func() bool) (first, next *lock.Held) {
	t.Helper()
	first = fixture.Hold(t, a)
	got := make(chan *lock.Held, 1)
	go func() {
		held, err := b(bounded.Context(t))
		if err != nil {
			t.Error(err)
		}
		got <- held
	}()
	bounded.Until(t, when)
	require.NoError(t, first.Unlock(bounded.Context(t)))
	next = bounded.Receive(t, got)
	require.NotNil(t, next)
	return first, next
}

// hasOneWaiter reports whether one call of c waits.
func hasOneWaiter(c *lock.Client) func() bool { return func() bool { return c.Stats().Waiting == 1 } }

func tryMutex(t *testing.T, s *redistest.Server) {
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, onMessages), fixture.ClientOf(t, s, onMessages)
	held := fixture.Hold(t, a.Mutex("m").Lock)
	inner, err := a.Mutex("m").Lock(held.Context(ctx))
	require.NoError(t, err)
	require.Equal(t, 2, held.Count())
	require.NoError(t, inner.Unlock(ctx))
	over := held.Deadline() // the end of the hold without a renewal
	bounded.Until(t, func() bool { return time.Now().After(over) })
	require.True(t, held.Valid())
	_, err = b.Mutex("m").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, held.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, "m"))
}

func tryFencing(t *testing.T, s *redistest.Server) {
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	old := fixture.Hold(t, a.FencedMutex("fenced").Lock)
	_, err := old.Guard(ctx, "SET", []string{"{fenced}:guarded"}, "old")
	require.NoError(t, err)
	ok, err := b.FencedMutex("fenced").ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	next := fixture.Hold(t, b.FencedMutex("fenced").Lock)
	require.Greater(t, next.Token(), old.Token())
	_, err = old.Guard(ctx, "SET", []string{"{fenced}:guarded"}, "late")
	require.ErrorIs(t, err, lock.ErrLost)
	require.Equal(t, []byte("old"), fixture.Do(t, s, "GET", "{fenced}:guarded"))
	require.NoError(t, next.Unlock(ctx))
}

func tryFair(t *testing.T, s *redistest.Server) {
	a, b := fixture.ClientOf(t, s, onMessages), fixture.ClientOf(t, s, onMessages)
	_, next := lockInTurns(t, a.FairMutex("fair").Lock, b.FairMutex("fair").Lock, func() bool {
		return len(fixture.Strings(t, s, "LRANGE", "redisson_lock_queue:{fair}", 0, -1)) == 1
	})
	require.NoError(t, next.Unlock(bounded.Context(t)))
}

func tryReadWrite(t *testing.T, s *redistest.Server) {
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, onMessages), fixture.ClientOf(t, s, onMessages)
	other := fixture.Hold(t, b.RWMutex("rw").Reader().Lock)
	got := make(chan error, 1)
	go func() {
		got <- b.RWMutex("rw").Writer().Do(ctx, func(context.Context, *lock.Held) error { return nil })
	}()
	bounded.Until(t, hasOneWaiter(b))
	require.NoError(t, other.Unlock(ctx))
	require.NoError(t, bounded.Receive(t, got))
	_, next := lockInTurns(t, a.RWMutex("rw").Writer().Lock, b.RWMutex("rw").Reader().Lock, hasOneWaiter(b))
	also := fixture.Hold(t, a.RWMutex("rw").Reader().Lock)
	require.NoError(t, next.Unlock(ctx))
	require.NoError(t, also.Unlock(ctx))
}

func tryCounters(t *testing.T, s *redistest.Server) {
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, onMessages), fixture.ClientOf(t, s, onMessages)
	_, err := a.Semaphore("sem").TrySet(ctx, 2)
	require.NoError(t, err)
	require.NoError(t, a.Semaphore("sem").Acquire(ctx, 2))
	_, err = a.CountDownLatch("latch").TrySet(ctx, 1)
	require.NoError(t, err)
	woken := make(chan error, 2)
	go func() { woken <- b.Semaphore("sem").Acquire(ctx, 1) }()
	go func() { woken <- b.CountDownLatch("latch").Wait(ctx) }()
	bounded.Until(t, func() bool { return b.Stats().Waiting == 2 })
	require.NoError(t, a.Semaphore("sem").Release(ctx, 2))
	require.NoError(t, a.CountDownLatch("latch").CountDown(ctx))
	require.NoError(t, bounded.Receive(t, woken))
	require.NoError(t, bounded.Receive(t, woken))
	n, err := b.Semaphore("sem").Available(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

func tryPermits(t *testing.T, s *redistest.Server) {
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, onMessages), fixture.ClientOf(t, s, onMessages)
	require.NoError(t, a.PermitSemaphore("permits").Set(ctx, 2))
	both := func(c *lock.Client) func(context.Context) (*lock.Held, error) {
		return func(ctx context.Context) (*lock.Held, error) { return c.PermitSemaphore("permits").Acquire(ctx, 2) }
	}
	_, held := lockInTurns(t, both(a), both(b), hasOneWaiter(b))
	fixture.AwaitRenewed(t, b, 2)
	require.Len(t, held.Permits(), 2)
	require.NoError(t, a.PermitSemaphore("permits").Release(ctx, held.Permits()...), "by its id, whoever has it")
	fixture.RequireLost(t, held, lock.NotOwner)
}

func tryMultiLock(t *testing.T, s *redistest.Server) {
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, onMessages), fixture.ClientOf(t, s, onMessages)
	held := fixture.Hold(t, fixture.MultiLock(t, a.Mutex("multi:1"), a.FairMutex("multi:2")).Lock)
	_, err := b.FairMutex("multi:2").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	_, err = fixture.MultiLock(t, b.Mutex("multi:3"), b.Mutex("multi:1")).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.False(t, fixture.Exists(t, s, "multi:3"), "all or none")
	require.NoError(t, held.Unlock(ctx))
}

func tryRedLock(t *testing.T, _ *redistest.Server) {
	ctx := bounded.Context(t)
	servers := []*redistest.Server{fixture.Server(t), fixture.Server(t), fixture.Server(t)}
	fixture.AwaitVotes(t, onMessages.Lease, servers...)
	redLock := func() *lock.RedLock {
		var members []*lock.Mutex
		for _, s := range servers {
			members = append(members, fixture.ClientOf(t, s, onMessages).Mutex("red"))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{}, members...)
		require.NoError(t, err)
		return r
	}
	a, b := redLock(), redLock()
	require.NoError(t, servers[0].Kill())
	held := fixture.Hold(t, a.Lock)
	require.Equal(t, 2, held.Members())
	_, err := b.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	over := held.Deadline()
	bounded.Until(t, func() bool { return time.Now().After(over) })
	require.True(t, held.Valid(), "a majority renews it")
	require.NoError(t, held.Unlock(ctx))
	require.Zero(t, fixture.CountHaving(t, servers[1:], "red"))
}

func tryWakeUp(t *testing.T, s *redistest.Server) {
	cfg := onMessages
	cfg.Lease = 5 * time.Minute // it is not the lease that ends
	a, b := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
	first, next := lockInTurns(t, a.Mutex("wake").Lock, b.Mutex("wake").Lock, func() bool {
		counts, err := redis.IntMap(fixture.Do(t, s, "PUBSUB", "NUMSUB", "redisson_lock__channel:{wake}"), nil)
		require.NoError(t, err)
		return counts["redisson_lock__channel:{wake}"] == 1
	})
	require.Greater(t, next.Token(), first.Token())
	require.NoError(t, next.Unlock(bounded.Context(t)))
}

func tryLoss(t *testing.T, s *redistest.Server) {
	c := fixture.ClientOf(t, s, onMessages)
	held := fixture.Hold(t, c.Mutex("loss").Lock)
	work := held.Context(bounded.Context(t))
	fixture.Do(t, s, "DEL", "loss")
	fixture.RequireLost(t, held, lock.NotOwner)
	bounded.Receive(t, work.Done())
	require.ErrorIs(t, held.Unlock(bounded.Context(t)), lock.ErrLost)
}

// tryRedisson does what a client of Redisson does, in Redis' commands.
func tryRedisson(t *testing.T, s *redistest.Server) {
	const name, channel, java = "java", "redisson_lock__channel:{java}", "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, onMessages)
	fixture.Do(t, s, "HSET", name, java, 1)
	fixture.Do(t, s, "PEXPIRE", name, 300_000)
	_, err := c.Mutex(name).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	got := make(chan *lock.Held, 1)
	go func() {
		held, err := c.Mutex(name).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- held
	}()
	fixture.AwaitSubscribers(t, s, channel, 1)
	fixture.Do(t, s, "DEL", name)
	fixture.Do(t, s, "PUBLISH", channel, 0)
	held := bounded.Receive(t, got)
	require.NotNil(t, held)
	for field, count := range fixture.Hash(t, s, name) {
		require.Regexp(t, `^[^:{}]{36}:`, field)
		require.Equal(t, "1", count)
	}
	require.Positive(t, fixture.PTTL(t, s, name), "a TTL that Redisson waits for")
	conn := fixture.Dial(t, s)
	heard := redis.PubSubConn{Conn: conn}
	require.NoError(t, heard.Subscribe(channel))
	heard.ReceiveWithTimeout(bounded.Limit)
	require.NoError(t, held.Unlock(ctx))
	require.Equal(t, redis.Message{Channel: channel, Data: []byte("0")}, heard.ReceiveWithTimeout(bounded.Limit))
}

// tryRights has a user who may do what lock/SERVERS.md says and no more, over a unix
// socket, in another database.
func tryRights(t *testing.T, _ *redistest.Server) {
	ctx := bounded.Context(t)
	s := fixture.Start(t, redistest.Options{UnixSocket: true})
	for _, words := range fixture.RightsOfPage(t, "../lock/SERVERS.md") {
		fixture.SetUser(t, s, words[0], words[1:]...)
	}
	fixture.SetUser(t, s, "locker", "+select") // for the database
	open := func() *lock.Client {
		cfg := onMessages
		cfg.KeyPrefix = "app:"
		c, err := lock.Open("unix://locker:secret@"+s.Addr()+"?db=9", cfg)
		require.NoError(t, err)
		t.Cleanup(func() { fixture.CloseNow(c) })
		return c
	}
	a, b := open(), open()
	first, next := lockInTurns(t, a.Mutex("m").Lock, b.Mutex("m").Lock, hasOneWaiter(b))
	require.Greater(t, next.Token(), first.Token())
	fixture.AwaitRenewed(t, b, 1)
	conn := fixture.Dial(t, s)
	fixture.DoOn(t, conn, "SELECT", 9)
	require.Equal(t, int64(1), fixture.DoOn(t, conn, "EXISTS", "app:m"))
	require.NoError(t, next.Unlock(ctx))
	_, next = lockInTurns(t, a.FairMutex("f").Lock, b.FairMutex("f").Lock, hasOneWaiter(b))
	require.NoError(t, next.Unlock(ctx))
	_, err := a.Semaphore("s").TrySet(ctx, 1)
	require.NoError(t, err)
	require.Empty(t, fixture.Do(t, s, "ACL", "LOG"), "it was refused nothing")
}

func tryReplicas(t *testing.T, _ *redistest.Server) {
	master := fixture.Server(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica := fixture.Server(t, "--replicaof", host, port)
	fixture.AwaitReplica(t, master, "in line")
	c := fixture.ClientOf(t, master, lock.Config{Replicas: 1})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.True(t, fixture.Exists(t, replica, "m"), "before Lock returns")
	require.NoError(t, replica.Kill())
	_, err = c.Mutex("alone").TryLock(bounded.Context(t))
	require.ErrorContains(t, err, "replica")
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func trySentinel(t *testing.T, _ *redistest.Server) {
	rs := fixture.Sentinels(t, redistest.SentinelOptions{Replicas: 1})
	source, err := sentinel.New(sentinel.Config{Master: rs.Name, Sentinels: rs.Addrs()})
	require.NoError(t, err)
	c := fixture.Client(t, source, lock.Config{Lease: time.Minute, IOTimeout: time.Second})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	bounded.Until(t, func() bool { return fixture.Exists(t, rs.Servers[1], "m") })
	require.NoError(t, rs.Servers[0].Kill())
	next := fixture.Hold(t, c.Mutex("next").Lock) // as soon as there is a master
	require.Greater(t, next.Token(), held.Token())
	require.True(t, fixture.Exists(t, rs.Servers[1], "next"))
	require.True(t, held.Valid())
	requireUnlocked(t, held)
	requireUnlocked(t, next)
	require.False(t, fixture.Exists(t, rs.Servers[1], "m"))
}

// tryCluster moves a slot under a lock too, and uses sharded channels where the
// servers have them.
func tryCluster(t *testing.T, _ *redistest.Server) {
	rc := fixture.Cluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	ways := []topology.PubSub{topology.PubSubPlain}
	if fixture.HasAbilities(t, redistest.ShardedPubSub) {
		ways = append(ways, topology.PubSubAuto)
	}
	for _, way := range ways {
		sharded := way == topology.PubSubAuto
		client := func() *lock.Client {
			source, err := cluster.New(&redisc.Cluster{StartupNodes: rc.Addrs()[:1]}, cluster.Options{PubSub: way})
			require.NoError(t, err)
			return fixture.Client(t, source, lock.Config{Lease: 5 * time.Minute, MaxPoll: time.Hour, IOTimeout: time.Second})
		}
		a, b := client(), client()
		for _, name := range []string{"a", "b", "c"} { // one on each server
			_, next := lockInTurns(t, a.Mutex(name).Lock, b.Mutex(name).Lock, func() bool { return hasSubscriber(t, rc, name, sharded) })
			slot := redisc.Slot(name)
			from, err := rc.Owner(slot)
			require.NoError(t, err)
			to := (from + 1) % 3
			require.NoError(t, rc.BeginMove(slot, from, to))
			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
			require.True(t, next.Valid())
			requireUnlocked(t, next)
		}
	}
}

// hasSubscriber reports whether somebody has subscribed to the channel of a lock.
func hasSubscriber(t *testing.T, rc *redistest.Cluster, name string, sharded bool) bool {
	t.Helper()
	command := "CHANNELS"
	if sharded {
		command = "SHARDCHANNELS"
	}
	owner, err := rc.Owner(redisc.Slot(name))
	require.NoError(t, err)
	return slices.ContainsFunc(fixture.Strings(t, rc.Servers[owner], "PUBSUB", command), func(channel string) bool {
		return strings.Contains(channel, "{"+name+"}")
	})
}
