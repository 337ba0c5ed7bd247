package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// list runs list and returns its lines, sorted.
func list(t *testing.T, url string, args ...string) []string {
	t.Helper()
	w := wheellock(t, url, append([]string{"list"}, args...)...)
	require.Zero(t, w.run(t), w.stderr)
	require.Empty(t, w.stderr.String())
	return slices.Sorted(strings.Lines(w.stdout.String()))
}

// parsedList returns the locks that list -json shows, by name.
func parsedList(t *testing.T, url string, args ...string) map[string]listed {
	t.Helper()
	all := map[string]listed{}
	for _, line := range list(t, url, append(args, "-json")...) {
		var x listed
		require.NoError(t, json.Unmarshal([]byte(line), &x))
		require.NotContains(t, all, x.Name)
		all[x.Name] = x
	}
	return all
}

func TestListShowsLocksAndNothingElse(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	require.Empty(t, list(t, s.URL()))
	c := fixture.ClientOf(t, s, lock.Config{Label: "web-1"})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	defer cancel()
	held := fixture.Hold(t, c.Mutex("a").Lock)
	_, err := c.Mutex("a").Lock(held.Context(ctx))
	require.NoError(t, err)
	fixture.Hold(t, c.FencedMutex("fenced").Lock)
	fixture.Hold(t, c.FairMutex("fair").Lock)
	for range 5 {
		fixture.Hold(t, c.RWMutex("read").Reader().Lock)
	}
	fixture.Hold(t, c.RWMutex("write").Writer().Lock)
	fixture.Hold(t, c.Mutex("bad\x1b[2J\xff").Lock)
	fixture.Hold(t, c.Mutex("braces {x}").Lock)
	fixture.Do(t, s, "HSET", "hash", "owner", 1)
	fixture.Do(t, s, "HSET", "other", strings.Repeat("x", 36)+":1", "text")
	fixture.Do(t, s, "HSET", "counts", strings.Repeat("x", 40), 1)
	fixture.Do(t, s, "RPUSH", "list", "x")
	fixture.Do(t, s, "SET", "string", "x")
	fixture.Do(t, s, "HSET", "redisson", strings.Repeat("x", 36)+":77", 1)
	fixture.Do(t, s, "HSET", "others", strings.Repeat("x", 36)+":\xff\x1b[2J", 1)
	for i := range 3 {
		other := fixture.ClientOf(t, s, lock.Config{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = other.Mutex("a").Lock(ctx)
		}()
		if i < 2 {
			go func() { _, _ = other.FairMutex("fair").Lock(ctx) }()
		}
		t.Cleanup(func() { cancel(); <-done })
	}
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{a}", 3)
	require.Eventually(t, func() bool { return fixture.Int(t, s, "LLEN", "redisson_lock_queue:{fair}") == 2 }, time.Minute, time.Millisecond)

	other := fixture.ClientOf(t, s, lock.Config{})
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		_, _ = other.RWMutex("read").Writer().Lock(ctx)
	}()
	t.Cleanup(func() { cancel(); <-waits })
	require.Eventually(t, func() bool { return fixture.Exists(t, s, keys.RWWriters("read")) }, time.Minute, time.Millisecond)

	all := parsedList(t, s.URL())
	require.Len(t, all, 9, "%v", all)
	require.Equal(t, "mutex", all["a"].Kind)
	require.EqualValues(t, 3, all["a"].Waiting)
	require.Contains(t, all["a"].Holders[0].ID, c.ID())
	for _, name := range []string{"a", "fenced", "fair", "read", "write"} {
		require.Equal(t, "web-1", all[name].Holders[0].Label, name)
	}
	require.Empty(t, all["redisson"].Holders[0].Label)
	require.True(t, all["others"].Holders[0].Quoted)
	require.Equal(t, `"`+strings.Repeat("x", 36)+`:\xff\x1b[2J"`, all["others"].Holders[0].ID)
	require.Equal(t, 2, all["a"].Holders[0].Count)
	require.InDelta(t, 25, *all["a"].TTL, 6)
	require.Equal(t, "fenced", all["fenced"].Kind)
	require.Equal(t, "fair", all["fair"].Kind)
	require.EqualValues(t, 2, all["fair"].Waiting)
	require.Equal(t, "read", all["read"].Kind)
	require.EqualValues(t, 5, all["read"].Holds)
	require.Len(t, all["read"].Holders, 3)
	require.Equal(t, "write", all["write"].Kind)
	require.True(t, all["write"].Holders[0].Writing)
	require.Nil(t, all["redisson"].TTL)
	require.True(t, all[`"bad\x1b[2J\xff"`].Quoted)
	require.Contains(t, all, "braces {x}")

	require.Regexp(t, regexp.MustCompile(`^a: mutex, \d+\.\d s left, 3 waiting, held by web-1 \(`+c.ID()+`:\d+:\d+\) 2 times\n$`), list(t, s.URL(), "-prefix", "a")[0])
	require.Regexp(t, ` and 2 more\n$`, list(t, s.URL(), "-prefix", "read")[0])
	require.Regexp(t, `^"bad\\x1b\[2J\\xff": mutex, `, list(t, s.URL(), "-prefix", "bad")[0])
	require.Contains(t, list(t, s.URL(), "-prefix", "others")[0], `held by "xxx`)
	require.Empty(t, list(t, s.URL(), "-prefix", "?"), "a prefix is no pattern")
	require.Len(t, list(t, s.URL(), "-limit", "2"), 2)
}

func TestListGoesThroughEveryMasterOfACluster(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	at := "redis-cluster://" + strings.Join(rc.Addrs(), ",")
	for i := range 6 {
		w := wheellock(t, "", "run", "-redis", at, fmt.Sprint("n", i), "--", executable(t), "list", "-redis", at, "-json", "-prefix", fmt.Sprint("n", i))
		require.Zero(t, w.run(t), w.stderr)
		var x listed
		require.NoError(t, json.Unmarshal(w.stdout.Bytes(), &x), w.stdout.String())
		require.Equal(t, fmt.Sprint("n", i), x.Name)
	}
}

// TestListWithALimitAsksNoMoreMastersThanItNeeds, so a master that is dead does not matter if others have enough
// locks.
func TestListWithALimitAsksNoMoreMastersThanItNeeds(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{Args: []string{"--cluster-require-full-coverage", "no"}})
	for i := range 2 {
		name := "n"
		for keys.Slot(name)*3/16384 != i {
			name += "n"
		}
		fixture.Do(t, rc.Servers[i], "HSET", name, strings.Repeat("x", 36)+":1", 1)
	}
	require.NoError(t, rc.Servers[2].Kill())
	at := "redis-cluster://" + strings.Join(rc.Addrs(), ",")
	for limit := 1; limit <= 2; limit++ {
		require.Len(t, list(t, at, "-limit", strconv.Itoa(limit)), limit)
	}
	w := wheellock(t, at, "list", "-limit", "3")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "did not answer")
}

// TestListWhileASlotIsMoved: list shows every lock, whether it has left its node or not.
func TestListWhileASlotIsMoved(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	names := []string{"{move}a", "{move}b", "{move}c"}
	slot := keys.Slot(names[0])
	from, err := rc.Owner(slot)
	require.NoError(t, err)
	for _, name := range names {
		fixture.Do(t, rc.Servers[from], "HSET", name, strings.Repeat("x", 36)+":1", 1)
	}
	for _, to := range []int{(from + 1) % 3, (from + 2) % 3} { // one is asked before the other node, one after it
		require.NoError(t, rc.BeginMove(slot, from, to))
		require.NoError(t, rc.MoveKeys(slot, from, to, names[1:]...))
		all := parsedList(t, "redis-cluster://"+rc.Addrs()[0], "-prefix", "{move}")
		require.Len(t, all, 3)
		require.NoError(t, rc.MoveKeys(slot, from, to, names[0]))
		require.NoError(t, rc.EndMove(slot, from, to))
		require.Len(t, parsedList(t, "redis-cluster://"+rc.Addrs()[0], "-prefix", "{move}"), 3)
		from = to
	}
}

// TestListLooksAgainForKeysThatLeaveWhileItLooks: keys may leave when SCAN has found them, and go to a server
// that list has asked before.
func TestListLooksAgainForKeysThatLeaveWhileItLooks(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	names := fixture.Names("{move}", 2*listGroup)
	slot := keys.Slot(names[0])
	from, err := rc.Owner(slot)
	require.NoError(t, err)
	for _, name := range names {
		fixture.Do(t, rc.Servers[from], "HSET", name, strings.Repeat("x", 36)+":1", 1)
	}
	for _, to := range []int{(from + 1) % 3, (from + 2) % 3} {
		require.NoError(t, rc.BeginMove(slot, from, to))
		shown := map[string]bool{}
		l := lister{prefix: "{move}", sharded: true, seen: map[string]bool{}, show: func(x listed) error {
			require.False(t, shown[x.Name], x.Name)
			shown[x.Name] = true
			if len(shown) == 1 {
				require.NoError(t, rc.MoveKeys(slot, from, to))
			}
			return nil
		}}
		complete, err := l.listServers(bounded.Context(t), &servers{redis: "redis-cluster://" + rc.Addrs()[0]})
		require.NoError(t, err)
		require.True(t, complete)
		require.Len(t, shown, len(names))
		require.NoError(t, rc.EndMove(slot, from, to))
		from = to
	}
}

// TestAKeyThatHasMovedIsLookedForAgain: list goes on, and notes that it must look again.
func TestAKeyThatHasMovedIsLookedForAgain(t *testing.T) {
	for _, answer := range []string{"MOVED 1 h:1", "ASK 1 h:1", "TRYAGAIN later"} {
		require.True(t, isElsewhere(redis.Error(answer)), answer)
	}
	for _, answer := range []any{redis.Error("NOPERM"), "MOVED", int64(1), nil} {
		require.False(t, isElsewhere(answer))
	}
}

func TestListOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	require.NoError(t, s.Kill())
	w := wheellock(t, s.URL(), "list")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "did not answer")
	w = wheellock(t, s.URL(), "list", "-limit", "-1")
	require.Equal(t, statusUsage, w.run(t))
	w.requireOneLine(t, "negative")
}

// TestListMayAskForTypes: without the right to TYPE, list must not look as if no lock were held.
func TestListMayAskForTypes(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "locker", "on", ">pass", "~*", "&*", "+@all", "-type")
	fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex("app:a").Lock)
	w := wheellock(t, strings.Replace(s.URL(), "redis://", "redis://locker:pass@", 1), "list")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "NOPERM")
}

func TestCheckNamesTheRightsOfList(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "locker", "on", ">pass", "~*", "&*", "+@all", "-scan", "-pubsub")
	w := wheellock(t, strings.Replace(s.URL(), "redis://", "redis://locker:pass@", 1), "check")
	require.Zero(t, w.run(t), w.stderr)
	require.Contains(t, w.stdout.String(), "wheellock list would need these rights too: +pubsub +scan\n")
}

// TestInspectAndUnlockNeedNoMoreThanLocks: the rights in lock/SERVERS.md are enough. check names the
// further rights that list needs.
func TestInspectAndUnlockNeedNoMoreThanLocks(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ofPage := fixture.RightsOfPage(t, "../../SERVERS.md")
	fixture.GiveRights(t, s, ofPage[0])
	url := strings.Replace(s.URL(), "redis://", "redis://locker:secret@", 1)
	c := fixture.ClientOf(t, s, lock.Config{Label: "web-1"})
	fixture.Hold(t, c.Mutex("app:a").Lock)
	w := wheellock(t, url, "inspect", "app:a")
	require.Zero(t, w.run(t), w.stderr)
	require.Contains(t, w.stdout.String(), "  holder  web-1 (")
	w = wheellock(t, url, "unlock", "-force", "app:a")
	require.Zero(t, w.run(t), w.stderr)
	require.Equal(t, "app:a: unlocked\n", w.stdout.String())
	w = wheellock(t, url, "list")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "NOPERM")

	// The rights of list that are among those of other kinds are no reason to ask for all of these.
	fixture.SetUser(t, s, "locker", "~redisson_lock_token:app:*", "+llen", "+hrandfield")
	w = wheellock(t, url, "check", "-prefix", "app:")
	require.Zero(t, w.run(t), w.stderr)
	require.Contains(t, w.stdout.String(), "wheellock list would need these rights too: +hget +pubsub +scan +type")

	fixture.GiveRights(t, s, ofPage[1])
	w = wheellock(t, url, "check", "-prefix", "app:")
	require.Zero(t, w.run(t), w.stderr)
	said, ok := strings.CutPrefix(w.stdout.String(), "Redis has all that wheellock needs.\nwheellock list would need these rights too: ")
	require.True(t, ok, w.stdout)
	fixture.GiveRights(t, s, append([]string{"locker"}, strings.Fields(said)...))
	fixture.Hold(t, c.Mutex("app:b").Lock)
	fixture.Hold(t, c.Mutex("another's").Lock) // what this user may not look at is not shown
	all := parsedList(t, url)
	require.Len(t, all, 1)
	require.Equal(t, "web-1", all["app:b"].Holders[0].Label)
	w = wheellock(t, url, "check", "-prefix", "app:")
	require.Zero(t, w.run(t), w.stderr)
	require.Equal(t, "Redis has all that wheellock needs.\n", w.stdout.String())
}

// TestListOfAServerWithoutHRANDFIELD, which Redis has since 6.2.
func TestListOfAServerWithoutHRANDFIELD(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t, "--rename-command", "HRANDFIELD", "")
	c := fixture.ClientOf(t, s, lock.Config{})
	fixture.Hold(t, c.Mutex("a").Lock)
	for range 5 {
		fixture.Hold(t, c.RWMutex("read").Reader().Lock)
	}
	all := parsedList(t, s.URL())
	require.Len(t, all, 2)
	require.Contains(t, all["a"].Holders[0].ID, c.ID())
	require.EqualValues(t, 5, all["read"].Holds)
	require.Len(t, all["read"].Holders, 3)
}

func TestListHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	// However many keys there are, and however large a hash is, no call looks at much of it. Locks are taken
	// meanwhile.
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	tries := c.TryLockMany(t.Context(), fixture.Names("lock:", 1000))
	conn := fixture.Dial(t, s)
	for i := range 50_000 {
		require.NoError(t, conn.Send("SET", "key:"+strconv.Itoa(i), 1))
	}
	for i := range 50_000 {
		require.NoError(t, conn.Send("HSET", "large", strings.Repeat("x", 36)+":"+strconv.Itoa(i), 1))
	}
	_, err := conn.Do("")
	require.NoError(t, err)
	var mu sync.Mutex
	asked, taken := map[string]int{}, 0 // commands, and locks that were taken meanwhile; guarded by mu
	proxy := fixture.Proxy(t, s, func(cmd faultproxy.Command) faultproxy.Fate {
		mu.Lock()
		defer mu.Unlock()
		name := strings.ToUpper(cmd.Args[0])
		asked[name]++
		switch name { // how many keys or fields it may look at
		case "SCAN", "HSCAN":
			assertAtMost(t, 100, cmd.Args[slices.Index(cmd.Args, "COUNT")+1])
		case "HRANDFIELD":
			assertAtMost(t, 4, cmd.Args[2])
		}
		if name == "PTTL" && taken < 10 { // between two questions about locks
			held, err := c.Mutex("meanwhile").TryLock(context.Background())
			if assert.NoError(t, err) && assert.NoError(t, held.Unlock(context.Background())) {
				taken++
			}
		}
		return faultproxy.Pass
	})
	all := parsedList(t, "redis://"+proxy.Addr(), "-prefix", "l")
	require.Equal(t, 10, taken)
	for _, try := range tries {
		require.NoError(t, try.Err)
		require.Contains(t, all, try.Held.Name())
	}
	require.EqualValues(t, 50_000, all["large"].Holds)
	require.Greater(t, asked["SCAN"], 100, "of 51,000 keys")
	small := []string{ // the ones that are not bounded above take as long for a large key as for a small one
		"SCAN", "HSCAN", "HRANDFIELD", "TYPE", "PTTL", "HGET", "HLEN", "EXISTS", "LLEN", "PUBSUB",
	}
	require.Subset(t, small, slices.Collect(maps.Keys(asked)))
}

// assertAtMost fails the test if text is no number up to most.
func assertAtMost(t *testing.T, most int, text string) {
	n, err := strconv.Atoi(text)
	assert.NoError(t, err)
	assert.LessOrEqual(t, n, most)
}
