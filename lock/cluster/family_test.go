package cluster_test

import (
	"context"
	"fmt"
	"strings"
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
	"github.com/wheellock/wheellock/lock/topology"
)

// exclusive has, for each kind of object that only one holder at a time can have,
// how to take it. With wait, the call waits until the object is free.
var exclusive = map[string]func(c *lock.Client, name string, wait bool) func(context.Context) (*lock.Held, error){
	"Mutex": func(c *lock.Client, name string, wait bool) func(context.Context) (*lock.Held, error) {
		return either(wait, c.Mutex(name).Lock, c.Mutex(name).TryLock)
	},
	"FencedMutex": func(c *lock.Client, name string, wait bool) func(context.Context) (*lock.Held, error) {
		return either(wait, c.FencedMutex(name).Lock, c.FencedMutex(name).TryLock)
	},
	"FairMutex": func(c *lock.Client, name string, wait bool) func(context.Context) (*lock.Held, error) {
		return either(wait, c.FairMutex(name).Lock, c.FairMutex(name).TryLock)
	},
	"RWMutex": func(c *lock.Client, name string, wait bool) func(context.Context) (*lock.Held, error) {
		return either(wait, c.RWMutex(name).Writer().Lock, c.RWMutex(name).Writer().TryLock)
	},
	"RWMutex read by a": func(c *lock.Client, name string, wait bool) func(context.Context) (*lock.Held, error) {
		return either(wait, c.RWMutex(name).Writer().Lock, c.RWMutex(name).Writer().TryLock) // who comes second writes
	},
	"PermitSemaphore": func(c *lock.Client, name string, wait bool) func(context.Context) (*lock.Held, error) {
		return func(ctx context.Context) (*lock.Held, error) {
			s := c.PermitSemaphore(name)
			if !wait {
				return s.TryAcquire(ctx, 1)
			}
			if _, err := s.TrySet(ctx, 1); err != nil {
				return nil, err
			}
			return s.Acquire(ctx, 1)
		}
	},
}

func either(wait bool, lock, try func(context.Context) (*lock.Held, error)) func(context.Context) (*lock.Held, error) {
	if wait {
		return lock
	}
	return try
}

// first returns the call that takes the object for the first holder, a.
func first(kind string, c *lock.Client, name string) func(context.Context) (*lock.Held, error) {
	if kind == "RWMutex read by a" {
		return c.RWMutex(name).Reader().Lock
	}
	return exclusive[kind](c, name, true)
}

// tagged returns names with and without a hash tag.
func tagged(word string) []string {
	return []string{word, "{" + word + "}:of", "the{" + word + "}:of", "x{" + word + "}{"}
}

// TestTheFamilyOnACluster: each kind of lock, under names of all forms, is taken
// and refused to others. A waiter gets it, woken by a message alone.
func TestTheFamilyOnACluster(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	// MaxPoll is longer than the test: only a message can wake the waiter.
	cfg := lock.Config{Lease: 10 * time.Minute, MaxPoll: time.Hour}
	for way, set := range waysToPublish(t) {
		sharded := set != topology.PubSubPlain
		a := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
		b := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
		for kind, take := range exclusive {
			t.Run(fmt.Sprint(kind, " ", way), func(t *testing.T) {
				for _, name := range tagged(fmt.Sprint("family:", kind, way)) {
					held, err := first(kind, a, name)(ctx)
					require.NoError(t, err, name)
					_, err = take(b, name, false)(ctx)
					require.ErrorIs(t, err, lock.ErrNotAcquired, name)
					require.NotErrorIs(t, err, lock.ErrUnknown, name)
					got := make(chan *lock.Held, 1)
					go func() {
						next, err := take(b, name, true)(ctx)
						if err != nil {
							t.Error(err)
						}
						got <- next
					}()
					awaitListener(t, rc, name, sharded)
					requireOneSlot(t, rc, name)
					require.NoError(t, held.Unlock(ctx))
					select {
					case next := <-got:
						require.True(t, next.Valid())
						if kind != "PermitSemaphore" && !strings.HasPrefix(kind, "RW") {
							require.Greater(t, next.Token(), held.Token())
						}
						require.NoError(t, next.Unlock(ctx))
					case <-time.After(time.Minute):
						t.Fatal("nothing woke who waits for ", name)
					}
				}
			})
		}
	}
}

// TestCountersOnACluster: a semaphore's and a latch's waiters are woken by
// messages alone.
func TestCountersOnACluster(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	cfg := lock.Config{MaxPoll: time.Hour}
	for way, set := range waysToPublish(t) {
		sharded := set != topology.PubSubPlain
		t.Run(way, func(t *testing.T) {
			a := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			b := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			woken := func(name string, wait func(context.Context) error, wake func() error) {
				t.Helper()
				done := make(chan error, 1)
				go func() { done <- wait(ctx) }()
				awaitListener(t, rc, name, sharded)
				requireOneSlot(t, rc, name)
				require.NoError(t, wake())
				select {
				case err := <-done:
					require.NoError(t, err)
				case <-time.After(time.Minute):
					t.Fatal("nothing woke who waits for ", name)
				}
			}
			for _, name := range tagged(fmt.Sprint("semaphore:", way)) {
				fixture.Do(t, rc.Servers[owner(t, rc, name)], "DEL", name)
				s := a.Semaphore(name)
				set, err := s.TrySet(ctx, 2)
				require.NoError(t, err)
				require.True(t, set)
				require.NoError(t, s.Acquire(ctx, 2))
				require.ErrorIs(t, b.Semaphore(name).TryAcquire(ctx, 1), lock.ErrNotAcquired)
				woken(name, func(ctx context.Context) error { return b.Semaphore(name).Acquire(ctx, 2) },
					func() error { return s.Release(ctx, 2) })
				n, err := b.Semaphore(name).Available(ctx)
				require.NoError(t, err)
				require.Zero(t, n)
			}
			for _, name := range tagged(fmt.Sprint("latch:", way)) {
				l := a.CountDownLatch(name)
				set, err := l.TrySet(ctx, 2)
				require.NoError(t, err)
				require.True(t, set)
				require.NoError(t, l.CountDown(ctx))
				woken(name, b.CountDownLatch(name).Wait, func() error { return l.CountDown(ctx) })
				n, err := b.CountDownLatch(name).Count(ctx)
				require.NoError(t, err)
				require.Zero(t, n)
			}
		})
	}
}

// TestALatchOnAClusterOpensForRedissonsAwait: Redisson waits for the message
// alone, on a sharded channel if it uses them; its countDown opens ours, too.
func TestALatchOnAClusterOpensForRedissonsAwait(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	for way, set := range waysToPublish(t) {
		sharded := set != topology.PubSubPlain
		c := newClient(t, rc, cluster.Options{PubSub: set}, lock.Config{MaxPoll: time.Hour})
		subscribe, publish := "SUBSCRIBE", "PUBLISH"
		if sharded {
			subscribe, publish = "SSUBSCRIBE", "SPUBLISH"
		}
		channels := map[string]string{
			"await":     "redisson_countdownlatch__channel__{await}",
			"a{await}b": "redisson_countdownlatch__channel__{a{await}b}",
		}
		if sharded {
			channels["a{await}b"] = "redisson_countdownlatch__channel__:a{await}b"
		}
		for name, channel := range channels {
			s := rc.Servers[owner(t, rc, name)]
			conn, err := s.Dial()
			require.NoError(t, err)
			require.NoError(t, conn.Send(subscribe, channel))
			require.NoError(t, conn.Flush())
			_, err = redis.ReceiveWithTimeout(conn, 20*time.Second) // the confirmation
			require.NoError(t, err)
			latch := c.CountDownLatch(name)
			_, err = latch.TrySet(ctx, 1)
			require.NoError(t, err)
			require.NoError(t, latch.CountDown(ctx))
			for _, payload := range []string{"1", "0"} { // closed, open
				message, err := redis.Strings(redis.ReceiveWithTimeout(conn, 20*time.Second))
				require.NoError(t, err, "Java waits for ever at %s, %s", name, way)
				require.Equal(t, []string{channel, payload}, message[1:])
			}
			require.NoError(t, conn.Close())

			_, err = latch.TrySet(ctx, 1)
			require.NoError(t, err)
			opened := make(chan error, 1)
			go func() { opened <- latch.Wait(ctx) }()
			awaitListener(t, rc, name, sharded)
			fixture.Do(t, s, "DEL", name)
			fixture.Do(t, s, publish, channel, 0)
			select {
			case err := <-opened:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				t.Fatal("Java's countDown wakes nobody at ", name)
			}
		}
	}
}

// awaitListener returns when somebody listens to a channel of the object.
func awaitListener(t *testing.T, rc *redistest.Cluster, name string, sharded bool) {
	t.Helper()
	command := "CHANNELS"
	if sharded {
		command = "SHARDCHANNELS"
	}
	s := rc.Servers[owner(t, rc, name)]
	require.Eventually(t, func() bool {
		channels := fixture.Strings(t, s, "PUBSUB", command)
		for _, c := range channels {
			if rest, ok := strings.CutSuffix(c, name); ok && strings.HasSuffix(rest, ":") ||
				strings.Contains(c, "{"+name+"}") || strings.Contains(c, ":"+name+":") {
				return true
			}
		}
		return false
	}, time.Minute, time.Millisecond, "nobody waits for %s", name)
}

// requireOneSlot checks that all keys of an object are in its slot, even keys
// whose names scripts make.
func requireOneSlot(t *testing.T, rc *redistest.Cluster, name string) {
	t.Helper()
	found := false
	for _, s := range rc.Servers {
		keys := fixture.Keys(t, s, "*")
		for _, key := range keys {
			if key == name || strings.Contains(key, "{"+name+"}") || strings.HasPrefix(key, name+":") || strings.HasSuffix(key, ":"+name) {
				found = true
				require.Equal(t, redisc.Slot(name), redisc.Slot(key), "%s of %s", key, name)
			}
		}
	}
	require.True(t, found)
}

// TestHoldsOfTheFamilyAreRenewed past their leases, on all nodes.
func TestHoldsOfTheFamilyAreRenewed(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	c := newClient(t, rc, cluster.Options{}, lock.Config{Lease: 3 * time.Second}) // on a busy machine too
	var helds []*lock.Held
	for kind := range exclusive {
		for _, name := range append(fixture.Names("kept:"+kind, 6), "{kept}:"+kind, "x{kept "+kind+"}y") {
			held, err := first(kind, c, name)(ctx)
			require.NoError(t, err)
			helds = append(helds, held)
		}
	}
	fixture.AwaitRenewed(t, c, 5*len(helds))
	require.Empty(t, c.Stats().Renewal.Lost)
	for _, held := range helds {
		require.True(t, held.Valid(), held.Name())
		require.NoError(t, held.Unlock(ctx))
	}
	require.NoError(t, c.Close(ctx))
}

// TestNamesOfTheFamilyWithoutASlotOfTheirOwnAreRefused.
func TestNamesOfTheFamilyWithoutASlotOfTheirOwnAreRefused(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	c := newClient(t, rc, cluster.Options{}, lock.Config{})
	ctx := bounded.Context(t)
	for _, name := range []string{"a{b", "a}b", "a{}b"} {
		for kind, take := range exclusive {
			_, err := take(c, name, true)(ctx)
			require.ErrorContains(t, err, "in a Cluster", kind)
			_, err = take(c, name, false)(ctx)
			require.ErrorContains(t, err, "in a Cluster", kind)
		}
		require.ErrorContains(t, c.Semaphore(name).Acquire(ctx, 1), "in a Cluster")
		require.ErrorContains(t, c.Semaphore(name).Release(ctx, 1), "in a Cluster")
		require.ErrorContains(t, c.CountDownLatch(name).Wait(ctx), "in a Cluster")
		require.ErrorContains(t, c.CountDownLatch(name).CountDown(ctx), "in a Cluster")
		_, err := c.RWMutex(name).Reader().Lock(ctx)
		require.ErrorContains(t, err, "in a Cluster")
		_, err = lock.NewMultiLock(c.Mutex("fine"), c.Mutex(name))
		require.ErrorContains(t, err, "in a Cluster")
	}
}

// readers takes a lock for reading by each client. It returns the holds, and of
// each hold the key that lives as long.
func readers(t *testing.T, rc *redistest.Cluster, name string, clients ...*lock.Client) (helds []*lock.Held, timeouts []string) {
	t.Helper()
	for _, c := range clients {
		held := fixture.Hold(t, c.RWMutex(name).Reader().Lock)
		helds = append(helds, held)
	}
	for _, c := range clients {
		for _, key := range keysInSlot(t, rc, redisc.Slot(name), owner(t, rc, name)) {
			if strings.Contains(key, name) && strings.Contains(key, c.ID()) && strings.HasSuffix(key, ":rwlock_timeout:1") {
				timeouts = append(timeouts, key)
			}
		}
	}
	require.Len(t, timeouts, len(clients))
	return helds, timeouts
}

// TestAReaderWhoseKeysAreApartKeepsItsLock: the release of one reader looks at
// the keys of the other readers, and some of these are on another server. The
// release does not take the lock from them, and renewal does not find them lost.
func TestAReaderWhoseKeysAreApartKeepsItsLock(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	for _, stays := range []string{"timeout", "lock"} {
		t.Run("its "+stays+" stays", func(t *testing.T) {
			t.Parallel()
			ctx := bounded.Context(t)
			name := "readers apart, its " + stays + " stays"
			slot, from := redisc.Slot(name), owner(t, rc, name)
			to := (from + 1) % 3
			cfg := lock.Config{Lease: 15 * time.Second, UnlockTimeout: 3 * time.Second}
			leaves, reads, writes := newClient(t, rc, cluster.Options{}, cfg), newClient(t, rc, cluster.Options{}, cfg), newClient(t, rc, cluster.Options{}, cfg)
			helds, timeouts := readers(t, rc, name, leaves, reads)
			require.NoError(t, rc.BeginMove(slot, from, to))
			moved, at := []string{name, timeouts[0]}, to
			if stays == "lock" {
				moved, at = []string{timeouts[1]}, from
			}
			require.NoError(t, rc.MoveKeys(slot, from, to, moved...))

			err := helds[0].Unlock(ctx)
			if err != nil {
				require.ErrorIs(t, err, lock.ErrUnknown)
			}
			require.Positive(t, fixture.PTTL(t, rc.Servers[at], name, "ASKING"), "the other still reads")
			_, err = writes.RWMutex(name).Writer().TryLock(ctx)
			require.Error(t, err)
			asked := func() uint64 { st := reads.Stats().Renewal; return st.Retried + st.Renewed }
			require.Eventually(t, func() bool { return asked() > 0 }, time.Minute, 5*time.Millisecond)
			require.True(t, helds[1].Valid())

			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
			fixture.AwaitRenewed(t, reads, 1)
			require.True(t, helds[1].Valid())
			if err := helds[0].Unlock(ctx); err != nil { // it may be released, or given up to the client
				require.ErrorIs(t, err, lock.ErrNotHeld)
			}
			_, err = writes.RWMutex(name).Writer().TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NoError(t, helds[1].Unlock(ctx))
			held := fixture.Hold(t, writes.RWMutex(name).Writer().Lock)
			require.NoError(t, held.Unlock(ctx))
			require.Empty(t, reads.Stats().Renewal.Lost)
		})
	}
}

// TestReadersApartDoNotKeepOthersFromRenewal in the same batch and slot.
func TestReadersApartDoNotKeepOthersFromRenewal(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	tag := "{readers beside}"
	slot, from := redisc.Slot(tag), owner(t, rc, tag)
	to := (from + 1) % 3
	lease := 2 * time.Second
	c := newClient(t, rc, cluster.Options{}, lock.Config{Lease: lease})
	mutexes := fixture.LockAll(t, c, fixture.Names(tag+"mutex", 200)) // so many that some share a batch
	apart, timeouts := readers(t, rc, tag+"apart", c)
	var whole []*lock.Held
	for _, name := range fixture.Names(tag+"whole", 200) {
		held := fixture.Hold(t, c.RWMutex(name).Reader().Lock)
		whole = append(whole, held)
	}
	require.NoError(t, rc.BeginMove(slot, from, to))
	require.NoError(t, rc.MoveKeys(slot, from, to, append(timeouts, tag+"mutex1", tag+"mutex2")...))
	bounded.Receive(t, apart[0].Done()) // for longer than a lease
	fixture.AwaitRenewed(t, c, 3*len(mutexes))
	for name, held := range mutexes {
		require.True(t, held.Valid(), name)
		require.NoError(t, held.Unlock(ctx))
	}
	require.NoError(t, rc.MoveKeys(slot, from, to))
	require.NoError(t, rc.EndMove(slot, from, to))
	for _, held := range whole {
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
	}
}

// TestTheFamilyInASlotHeldHalfMigrated: holds are renewed. Calls that need several
// keys take effect when the slot has arrived, and not before.
func TestTheFamilyInASlotHeldHalfMigrated(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	tag := "{family half}"
	slot, from := redisc.Slot(tag), owner(t, rc, tag)
	to := (from + 1) % 3
	cfg := lock.Config{Lease: 6 * time.Second, UnlockTimeout: time.Minute, MaxPoll: 100 * time.Millisecond}
	a, b := newClient(t, rc, cluster.Options{}, cfg), newClient(t, rc, cluster.Options{}, cfg)
	kept, ending := map[string]*lock.Held{}, map[string]*lock.Held{}
	var main []string
	for kind := range exclusive {
		for word, helds := range map[string]map[string]*lock.Held{"kept ": kept, "ending ": ending} {
			name := tag + word + kind
			held, err := first(kind, a, name)(ctx)
			require.NoError(t, err)
			helds[kind] = held
			if kind != "RWMutex read by a" { // a reader lives only while its keys are together
				main = append(main, name)
			}
		}
	}
	permits, latch := a.Semaphore(tag+"permits"), a.CountDownLatch(tag+"latch")
	fixture.Do(t, rc.Servers[from], "DEL", permits.Name())
	_, err := permits.TrySet(ctx, 1)
	require.NoError(t, err)
	_, err = latch.TrySet(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, rc.BeginMove(slot, from, to))
	require.NoError(t, rc.MoveKeys(slot, from, to, append(main, permits.Name(), latch.Name())...))

	results := map[string]chan error{}
	begin := func(what string, f func() error) {
		result := make(chan error, 1)
		results[what] = result
		go func() { result <- f() }()
	}
	for kind, take := range exclusive {
		wait := func(name string) func() error {
			return func() error {
				held, err := take(b, name, true)(ctx)
				if err != nil {
					return err
				}
				return held.Unlock(ctx)
			}
		}
		_, err := take(b, tag+"kept "+kind, false)(ctx)
		require.Error(t, err, kind)
		begin("waits for "+kind, wait(tag+"kept "+kind))
		begin("takes "+kind, wait(tag+"fresh "+kind))
		begin("releases "+kind, func() error { return ending[kind].Unlock(ctx) })
	}
	begin("takes a permit", func() error { return permits.Acquire(ctx, 1) })
	begin("counts down", func() error { return latch.CountDown(ctx) })
	begin("waits at the latch", func() error { return b.CountDownLatch(latch.Name()).Wait(ctx) })
	fixture.AwaitRenewed(t, a, 2*len(kept))
	for kind, held := range kept {
		require.True(t, held.Valid(), kind)
	}
	for what, result := range results {
		select {
		case err := <-result:
			require.NoError(t, err, what)
			// These calls need several keys on one server.
			require.Contains(t, []string{
				"takes Mutex", "releases Mutex", "takes FencedMutex", "releases FencedMutex", "releases RWMutex read by a",
			}, what)
			delete(results, what)
		default:
		}
	}
	require.NoError(t, rc.MoveKeys(slot, from, to))
	require.NoError(t, rc.EndMove(slot, from, to))
	for what, result := range results {
		if strings.HasPrefix(what, "waits for") {
			continue
		}
		select {
		case err := <-result:
			require.NoError(t, err, what)
		case <-time.After(time.Minute):
			t.Fatal(what, ": not done, though the slot has arrived")
		}
	}
	for kind, held := range kept {
		require.True(t, held.Valid(), kind)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, bounded.Receive(t, results["waits for "+kind]))
	}
	n, err := permits.Available(ctx)
	require.NoError(t, err)
	require.Zero(t, n, "one was taken, once")
	require.Empty(t, a.Stats().Renewal.Lost)
}

// TestFencedTokensRiseWhileTheirSlotMoves: the lock, its counter or neither has moved, and
// the lock goes from client to client and from owner to owner in a client.
func TestFencedTokensRiseWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	tag := "{fenced half}"
	slot, from := redisc.Slot(tag), owner(t, rc, tag)
	to := (from + 1) % 3
	clients := []*lock.Client{newClient(t, rc, cluster.Options{}, lock.Config{}), newClient(t, rc, cluster.Options{}, lock.Config{})}
	last := map[string]int64{}
	turn := func(c *lock.Client, name string) {
		t.Helper()
		held := fixture.Hold(t, c.FencedMutex(name).Lock)
		require.Greater(t, held.Token(), last[name], name)
		handed := make(chan *lock.Held, 1)
		waiting := c.Stats().Waiting
		go func() {
			next, err := c.FencedMutex(name).Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			handed <- next
		}()
		require.Eventually(t, func() bool { return c.Stats().Waiting > waiting }, time.Minute, time.Millisecond)
		require.NoError(t, held.Unlock(ctx))
		next := bounded.Receive(t, handed)
		require.Greater(t, next.Token(), held.Token(), name)
		last[name] = next.Token()
		require.NoError(t, next.Unlock(ctx))
	}
	counter := func(name string) string { return "redisson_lock_token:" + name }
	var all []string
	for _, what := range []string{"counter stays", "counter goes", "held, counter stays", "held, counter goes", "held, lock goes", "new"} {
		name := tag + what
		all = append(all, name)
		if what != "new" {
			turn(clients[0], name)
		}
	}
	held := map[string]*lock.Held{}
	for _, name := range all[2:5] {
		var err error
		held[name], err = clients[0].FencedMutex(name).Lock(ctx)
		require.NoError(t, err)
		last[name] = held[name].Token()
	}
	require.NoError(t, rc.BeginMove(slot, from, to))
	require.NoError(t, rc.MoveKeys(slot, from, to, counter(all[1]), counter(all[3]), all[4]))
	for _, name := range all[2:5] {
		require.NoError(t, held[name].Unlock(ctx))
	}
	for round := range 4 {
		for _, name := range all {
			turn(clients[round%2], name)
		}
	}
	require.NoError(t, rc.MoveKeys(slot, from, to))
	for _, name := range all {
		turn(clients[0], name)
	}
	require.NoError(t, rc.EndMove(slot, from, to))
	for _, name := range all {
		turn(clients[1], name)
	}
}
