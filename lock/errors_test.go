package lock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/errortable"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/lock/topology"
)

func TestAHeldErrorSaysForHowLongAndWhatToDo(t *testing.T) {
	const hint = ": try again later, or give Lock time to wait"
	for want, err := range map[string]*lock.HeldError{
		`lock: "a" is held by another owner, its lease has 29.999s left` + hint:                                    {Name: "a", TTL: 29*time.Second + 998_700*time.Microsecond},
		`lock: "a" is held by another owner, its key has no TTL: if its holder is gone, only ForceUnlock frees it`: {Name: "a", TTL: -1},
		`lock: "a" is held by another owner` + hint:                                                                {Name: "a"},
		`lock: "a" is held through another library (a string with a TTL), its lease has 2s left` + hint:            {Name: "a", TTL: 2 * time.Second, Foreign: true},
	} {
		require.EqualError(t, err, want)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		`lock: "a" is lost: not the owner any more: stop the work that needs the lock, because another owner may have it`:                &lock.LostError{Name: "a", Reason: lock.NotOwner},
		`lock: "a" is lost: ` + lock.Suspended.String() + `: stop the work that needs the lock, because another owner may have it since`: &lock.LostError{Name: "a", Reason: lock.Suspended},
		`lock: "a" is lost: no renewal was acknowledged in time: stop the work that needs the lock, and check that Redis answers`:        &lock.LostError{Name: "a", Reason: lock.TrustEnded},
		`lock: "a" is lost: the longest hold is over: stop the work that needs the lock, or set a longer Config.MaxHold`:                 &lock.LostError{Name: "a", Reason: lock.MaxHold},
		`lock: "a" is lost: the lease is over: stop the work that needs the lock, or use Lock, which renews the lease`:                   &lock.LostError{Name: "a", Reason: lock.Expired},
		`lock: "a" is lost: the client is closed: stop the work that needs the lock, and unlock`:                                         &lock.LostError{Name: "a", Reason: lock.Closed},
		`lock: "a" is lost: Reason(77)`: &lock.LostError{Name: "a", Reason: 77},
		`lock: acquire of "a": outcome unknown: EOF: try again; the client releases what this request may have taken`:                                    &lock.UnknownError{Op: "acquire", Name: "a", Err: io.EOF},
		`lock: reenter of "a": outcome unknown: EOF: try again`:                                                                                          &lock.UnknownError{Op: "reenter", Name: "a", Err: io.EOF},
		`lock: release of "a": outcome unknown: EOF: the client keeps trying`:                                                                            &lock.UnknownError{Op: "release", Name: "a", Err: io.EOF},
		`lock: guard of "a": outcome unknown: EOF: the command may have run, so check its effect before you try again`:                                   &lock.UnknownError{Op: "guard", Name: "a", Err: io.EOF},
		`lock: guard of "a": outcome unknown: LOADING Redis is loading: the command has changed nothing, so try again`:                                   &lock.UnknownError{Op: "guard", Name: "a", Err: redis.Error("LOADING Redis is loading")},
		`lock: guard of "a": outcome unknown: gone: LOADING Redis is loading: the command may have run, so check its effect before you try again`:        &lock.UnknownError{Op: "guard", Name: "a", Err: fmt.Errorf("gone: %w", redis.Error("LOADING Redis is loading"))},
		`lock: inspect of "a": outcome unknown: EOF; EOF: try again`:                                                                                     &lock.UnknownError{Op: "inspect", Name: "a", Err: errors.Join(io.EOF, io.EOF)},
		`lock: spell of "b": outcome unknown: <nil>`:                                                                                                     &lock.UnknownError{Op: "spell", Name: "b"},
		`lock: spell of "a": outcome unknown: EOF`:                                                                                                       &lock.UnknownError{Op: "spell", Name: "a", Err: io.EOF},
		`lock: "a" was released again: 1 of the 2 wanted replicas have it: check that the replicas are connected, or set a longer Config.ReplicaTimeout`: &lock.ReplicationError{Name: "a", Wanted: 2, Acknowledged: 1},
		`lock: "a" has 1 free permits, not 2: try again later, give Acquire time to wait, or set more`:                                                   &lock.PermitsError{Name: "a", Wanted: 2, Free: 1},
		`lock: release of "a": no such permit of this semaphore is taken: 1f, 2f; nothing was changed: release the other permits without these`:          &lock.PermitIDError{Op: "release", Name: "a", IDs: []string{"1f", "2f"}},
		`lock: set lease of "a": no such permit of this semaphore is taken: 1f; nothing was changed: acquire a permit again`:                             &lock.PermitIDError{Op: "set lease", Name: "a", IDs: []string{"1f"}},
	} {
		require.EqualError(t, err, want)
	}
}

func TestAQuorumErrorIsOneLineWithOneHint(t *testing.T) {
	held := &lock.HeldError{Name: "a", TTL: 2 * time.Second}
	unknown := &lock.UnknownError{Op: "acquire", Name: "c", Err: errors.Join(io.EOF, io.EOF)}
	for want, err := range map[string]*lock.QuorumError{
		`lock: "a" has no quorum: 1 of 3 members acquired, 2 needed; 2 held by another owner, 0 without a vote, 0 refused, 0 unknown ` +
			`("a" is held by another owner, its lease has 2s left; "b" is held by another owner): try again later, or give Lock time to wait`: {
			Name: "a", Members: 3, Quorum: 2, Acquired: 1, Held: 2, Errs: []error{held, &lock.HeldError{Name: "b"}},
		},
		`lock: "a" has no quorum: 0 of 3 members acquired, 2 needed; 1 held by another owner, 0 without a vote, 0 refused, 2 unknown ` +
			`("a" is held by another owner, its lease has 2s left; acquire of "c": outcome unknown: EOF; EOF; EOF): ` +
			`check that a quorum of the servers answers, and try again`: {
			Name: "a", Members: 3, Quorum: 2, Held: 1, Unknown: 2, Errs: []error{held, unknown, io.EOF},
		},
		`lock: "a" has no quorum: 1 of 3 members acquired, 2 needed; 0 held by another owner, 0 without a vote, 2 refused, 0 unknown ` +
			`("a" was released again: 0 of the 1 wanted replicas have it; "b" is lost: not the owner any more): fix the cause on the members that refuse, because retrying will not help`: {
			Name: "a", Members: 3, Quorum: 2, Acquired: 1, Refused: 2,
			Errs: []error{&lock.ReplicationError{Name: "a", Wanted: 1}, &lock.LostError{Name: "b", Reason: lock.NotOwner}},
		},
		`lock: "a" has no quorum: 0 of 3 members acquired, 2 needed; 0 held by another owner, 0 without a vote, 0 refused, 0 unknown: ` +
			`check that a quorum of the servers answers, and try again`: {Name: "a", Members: 3, Quorum: 2},
	} {
		require.EqualError(t, err, want)
	}
}

// TestAnErrorNamesItsLock and its package, each once, and is its sentinel.
func TestAnErrorNamesItsLock(t *testing.T) {
	s := onRedis(t)
	c, other := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	name := t.Name()
	says := func(err error, target error) {
		t.Helper()
		if target != nil {
			require.ErrorIs(t, err, target)
		}
		require.Regexp(t, `^lock: .*"`+name, err.Error())
		require.NotContains(t, err.Error(), ": lock: ")
	}
	held := fixture.Hold(t, c.Mutex(name).Lock)
	_, err := other.Mutex(name).TryLock(ctx)
	says(err, lock.ErrNotAcquired)
	_, err = c.FairMutex(name).Lock(held.Context(ctx))
	says(err, nil)
	_, err = c.Mutex(name).TryLockFor(ctx, time.Microsecond)
	says(err, nil)
	says(c.Semaphore(name).Release(ctx, -1), nil)
	brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = other.Mutex(name).Lock(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.Regexp(t, `^lock: waiting for "`+name+`": context deadline exceeded: "`+name+`" is held by another owner.*: give Lock more time`, err.Error())
	require.NoError(t, held.Unlock(ctx))
	says(held.Unlock(ctx), lock.ErrNotHeld)
	says(held.Err(), lock.ErrNotHeld)
	says(held.Extend(ctx, time.Second), lock.ErrNotHeld)
	both := fixture.Hold(t, fixture.MultiLock(t, c.Mutex(name), c.Mutex(name+"2")).Lock)
	require.NoError(t, both.Unlock(ctx))
	says(both.Err(), lock.ErrNotHeld)

	reading := fixture.Hold(t, c.RWMutex(name).Reader().Lock)
	_, err = c.RWMutex(name).Writer().Lock(reading.Context(ctx))
	require.ErrorIs(t, err, lock.ErrUpgrade)
	require.ErrorContains(t, err, name)
	_, err = c.Mutex(name).Inspect(ctx)
	require.ErrorIs(t, err, lock.ErrNotALock)
	require.ErrorContains(t, err, name)
	require.ErrorContains(t, err, "use another name")
	fixture.Do(t, s, "DEL", name)
	says(reading.Unlock(ctx), lock.ErrLost)
	fixture.Do(t, s, "SET", name, "many")
	_, err = c.Semaphore(name).Available(ctx)
	require.ErrorIs(t, err, lock.ErrNotALock)
	require.ErrorContains(t, err, "use another name")

	require.NoError(t, c.Close(ctx))
	for _, call := range []func() error{
		func() error { _, err := c.Mutex(name).Lock(ctx); return err },
		func() error { _, err := c.FairMutex(name).TryLock(ctx); return err },
		func() error { _, err := c.RWMutex(name).Reader().Lock(ctx); return err },
		func() error { _, err := c.Mutex(name).Inspect(ctx); return err },
		func() error { return c.Semaphore(name).Acquire(ctx, 1) },
		func() error { return c.Semaphore(name).Release(ctx, 1) },
		func() error { _, err := c.PermitSemaphore(name).Acquire(ctx, 1); return err },
		func() error { return c.CountDownLatch(name).Wait(ctx) },
		func() error { _, err := c.CountDownLatch(name).Count(ctx); return err },
	} {
		says(call(), lock.ErrClosed)
	}
}

// TestALockOfACallerThatWaitsForItselfSaysSo, and how long the lease in Redis lasts.
func TestALockOfACallerThatWaitsForItselfSaysSo(t *testing.T) {
	fixture.Bubble(t, lock.Config{Lease: time.Minute}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		for name, kind := range map[string]*lock.Mutex{"mutex": c.Mutex("m"), "fenced": c.FencedMutex("n"), "fair": c.FairMutex("f")} {
			held, err := kind.Lock(t.Context())
			require.NoError(t, err)
			for _, wait := range []time.Duration{0, 4 * time.Second, 24 * time.Second} { // Redis is asked every 5 s
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				_, err = kind.Lock(ctx)
				cancel()
				var other *lock.HeldError
				require.ErrorAs(t, err, &other, name)
				require.True(t, other.Own, name)
				if name != "fair" { // which asks Redis by itself, and knows what it was told last
					left := time.Duration(fixture.PTTL(t, s, kind.Name())) * time.Millisecond
					require.InDelta(t, left, other.TTL, float64(10*time.Millisecond), "%s after %v", name, wait)
				}
				require.ErrorContains(t, err, "re-enter it by Lock(held.Context(ctx)), else give Lock more time", name)
			}
			require.NoError(t, held.Unlock(t.Context()))
		}
	})
}

// TestAnErrorIsOnOneLine, even if it joins several errors or a server's error ends with a line end.
func TestAnErrorIsOnOneLine(t *testing.T) {
	for text, err := range map[string]error{
		"<nil>":                     nil,
		"MISCONF it cannot persist": redis.Error("MISCONF it cannot persist\r\n"),
		"a; b; c":                   errors.Join(errors.New("a\n"), errors.New("b\r\n\r\nc")),
	} {
		require.Equal(t, text, lock.OnOneLine(err))
	}
}

// TestTheTextsOfErrorsAreTheAgreedOnes: testdata/errors.txt has every text that a user of the
// library may see. Package errortable says what counts as one.
func TestTheTextsOfErrorsAreTheAgreedOnes(t *testing.T) {
	fixture.SkipSlow(t)
	var rows []errortable.Row
	for _, of := range [][]errortable.Row{
		settingErrors(t), urlErrors(), nameErrors(t), heldErrors(t), waitErrors(t), lossErrors(t), silenceErrors(t), refusalErrors(t),
		permitErrors(t), redLockErrors(t), unlockErrors(t), checkErrors(t), topologyErrors(t), dialErrors(t), sentinels(),
	} {
		rows = append(rows, of...)
	}
	errortable.Compare(t, "testdata/errors.txt", rows, []string{
		".", "sentinel", "cluster", "internal/transport/endpoint", "internal/format/keys", "internal/engine/hold",
	}, map[string][]string{
		"no user sees it": {"the time of TryLockWithin is over"},
		"it needs a proxy that changes answers, or two requests whose copies arrive late, and other tests have it": {
			"%d permits instead of %d", "lock: force of %q: its holder changed before each of the %d deletions: try again",
			"the first leases ended before the last member was taken", "lock: re-entry of %q was not sent: %w", "lock: extend of %q was not sent: %w: try again",
			"lock: closed with no lock held, but while calls were under way%s: %w: give Close more time",
			"lock: closed with no lock held, and %d requests were not answered, whose locks are left to their TTL: %w: give Close more time",
			"lock: closed with no lock held, and %d requests were not answered in time, whose locks are left to their TTL: find out why Redis does not answer",
			"lock: %q: the lease is %v: it must end in %v, when the time of Config.MaxHold has passed: ask for a shorter one",
		},
		"TestAHookThatBlocksDelaysOnlyItsOwnCall has it, because it takes seconds": {
			"lock: closed, but %s has not returned: %w: find out what it waits for",
		},
		"the tests of package sentinel have it": {
			"the sentinels that answer have missed a failover", "%s: the answer has no address or no epoch", "sentinel: the master %q at %s: %w",
			"the sentinels disagree, and not exactly one of these servers is a master",
			"sentinel: for configuration %d the sentinels name several masters: %s",
			"sentinel: %d of %d sentinels name the master %s in place of %s, without a new configuration",
		},
		"the tests of package cluster have it": {
			"cluster: %s: the node knows no slot: it has left the Cluster or has not joined it", "the answer to CLUSTER SLOTS is malformed", "the answer to CLUSTER SLOTS names %d masters: more than %d are not used",
			"the answer to CLUSTER SLOTS names %d nodes: more than %d are not used", "the answer to CLUSTER SLOTS gives out more than %d slots: its ranges overlap",
			"cluster: %s: CLUSTER SLOTS: %w",
			"the pool of CreatePool has no Dial function",
		},
	})
}

func settingErrors(t *testing.T) []errortable.Row {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, io.EOF }}
	wrong := lock.Config{
		Lease: time.Nanosecond + time.Second, Connections: 1000, Replicas: -1, ReplicaTimeout: time.Second, Margin: time.Hour, MaxHold: time.Second,
		MaxPoll: -1, MaxBatch: 1 << 20, KeyPrefix: "app}:",
	}
	two := lock.Config{Replicas: 1, ReplicaTimeout: time.Second + 1}
	return []errortable.Row{
		{What: "New with settings that are out of range", Err: errortable.Of(lock.New(pool, wrong))},
		{What: "New with a ReplicaTimeout of half a millisecond", Err: errortable.Of(lock.New(pool, two))},
		{What: "New without a pool", Err: errortable.Of(lock.New(nil, lock.Config{}))},
		{What: "New with a pool that cannot dial", Err: errortable.Of(lock.New(&redis.Pool{}, lock.Config{}))},
		{What: "New with a pool of two connections", Err: errortable.Of(lock.New(&redis.Pool{Dial: pool.Dial, MaxActive: 2}, lock.Config{}))},
		{What: "NewTopology without a Topology", Err: errortable.Of(lock.NewTopology(nil, lock.Config{}))},
		{What: "an owner without a name", Err: ownerError("")},
	}
}

func ownerError(name string) (err error) {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, io.EOF }}
	c, err := lock.New(pool, lock.Config{})
	if err != nil {
		return err
	}
	defer fixture.CloseNow(c)
	_, err = c.Mutex("a").TryLock(lock.WithOwner(context.Background(), name))
	return err
}

func urlErrors() (rows []errortable.Row) {
	for _, url := range []string{
		"host:6379", "http://host", "redis-sentinels://host", "redis://user:pw@host/p@ss", "redis://us%er@host", "redis://:@host", "redis://host:x%zz", "redis://host#name", "redis-sentinel://host#name",
		"redis://user@host", "redis://user:@host", "redis://a:1,b:2", "redis://:pw@host:port", "redis://host:99999", "unix://run/redis.sock", "redis-sentinel://a:1/mymaster",
		"redis://host?a=%zz", "redis://host?database=1", "redis://host?x=1", "redis://host?db=1&db=2", "redis://host?dial_timeout=x", "redis://host?client_name=a%20b",
		"redis://host?db=x", "redis-sentinel://a:1", "redis-sentinel://a:1?master=m&sentinel_user=u", "redis-cluster://a:1", "redis://host/a", "redis://[::1",
	} {
		c, err := lock.Open(url, lock.Config{})
		if err == nil {
			fixture.CloseNow(c)
			err = errors.New("taken")
		}
		rows = append(rows, errortable.Row{What: "Open of " + url, Err: err})
	}
	endpoint := func(e lock.Endpoint) error { return errortable.Of(e.Open(lock.Config{})) }
	return append(rows,
		errortable.Row{What: "an Endpoint with TLS whose URL has none", Err: endpoint(lock.Endpoint{URL: "redis://host", TLS: &tls.Config{}})},
		errortable.Row{What: "an Endpoint with a password in the URL and Credentials", Err: endpoint(lock.Endpoint{
			URL: "redis://:pw@host", Credentials: func(context.Context) (string, string, error) { return "", "", nil },
		})},
		errortable.Row{What: "cluster.Open of a URL of one server", Err: errortable.Of(cluster.Open("redis://host", cluster.Options{}))},
		errortable.Row{What: "cluster.Open with a DialTimeout", Err: errortable.Of(cluster.Open("redis-cluster://host", cluster.Options{DialTimeout: 1}))},
		errortable.Row{What: "sentinel.Open with a DialTimeout", Err: errortable.Of(sentinel.Open("redis-sentinel://host?master=m", sentinel.Config{DialTimeout: 1}))},
		errortable.Row{What: "cluster.Open of a database", Err: errortable.Of(cluster.Open("redis-cluster://host/1", cluster.Options{}))},
		errortable.Row{What: "cluster.Open with TLS whose URL has none", Err: errortable.Of(cluster.Open("redis-cluster://host:1", cluster.Options{TLS: &tls.Config{}}))},
	)
}

func nameErrors(t *testing.T) (rows []errortable.Row) {
	c := fixture.ClientOf(t, fixture.Server(t), lock.Config{})
	for _, of := range [][2]string{
		{"a lock without a name", ""},
		{"a name of a megabyte", strings.Repeat("x", 1<<20)},
		{"the name of a counter", "wheellock_token"},
		{"the name of a queue", "redisson_lock_queue:{a}"},
		{"the name of the permits of another", "{a}:timeout"},
		{"a name that is a hash tag alone", "{a}"},
	} {
		rows = append(rows, errortable.Row{What: of[0], Err: errortable.Of(c.Mutex(of[1]).TryLock(t.Context()))})
	}
	slots := fixture.Client(t, fixture.NewIslands(t, "a"), lock.Config{})
	for _, name := range []string{"a}", "a{", "a{}"} {
		rows = append(rows, errortable.Row{What: "in a Cluster the name " + name, Err: errortable.Of(slots.Mutex(name).TryLock(t.Context()))})
	}
	return rows
}

// shortly returns a context that soon ends.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func heldErrors(t *testing.T) []errortable.Row {
	s := fixture.Server(t)
	c, other := fixture.ClientOf(t, s, lock.Config{Lease: time.Minute}), fixture.ClientOf(t, s, lock.Config{Lease: time.Minute})
	ctx := t.Context()
	held := fixture.Hold(t, c.Mutex("a").Lock)
	fixture.Do(t, s, "SET", "theirs", "x", "PX", 29_500)
	fixture.Do(t, s, "HSET", "endless", "b983c153-7421-469a-addb-44fb92259a1b:1", 1)
	reads := fixture.Hold(t, c.RWMutex("rw").Reader().Lock)
	done := fixture.Hold(t, c.Mutex("done").Lock)
	work := done.Context(ctx)
	require.NoError(t, done.Unlock(ctx))
	return []errortable.Row{
		{What: "TryLock of what another client holds", Err: errortable.Of(other.Mutex("a").TryLock(ctx))},
		{What: "TryLock of what this client holds", Err: errortable.Of(c.Mutex("a").TryLock(ctx))},
		{What: "TryLock of the lock of another library", Err: errortable.Of(c.Mutex("theirs").TryLock(ctx))},
		{What: "TryLock of a lock without a TTL", Err: errortable.Of(c.Mutex("endless").TryLock(ctx))},
		{What: "ForceUnlock of the lock of another library", Err: errortable.Of(c.Mutex("theirs").ForceUnlock(ctx))},
		{What: "LockFor of a microsecond", Err: errortable.Of(c.Mutex("b").LockFor(ctx, time.Microsecond))},
		{What: "Lock as another kind by the same owner", Err: errortable.Of(c.FairMutex("a").Lock(held.Context(ctx)))},
		{What: "Lock for writing by who reads", Err: errortable.Of(c.RWMutex("rw").Writer().Lock(reads.Context(ctx)))},
		{What: "Unlock for the second time", Err: done.Unlock(ctx)},
		{What: "why a context has ended after Unlock", Err: context.Cause(work)},
		{What: "Lock under a context that Unlock has ended", Err: errortable.Of(c.Mutex("b").Lock(work))},
		{What: "Token of a plain Mutex", Err: errortable.Of(c.Mutex("a").Token(ctx))},
	}
}

func waitErrors(t *testing.T) []errortable.Row {
	s := fixture.Server(t)
	c, other := fixture.ClientOf(t, s, lock.Config{Lease: time.Minute}), fixture.ClientOf(t, s, lock.Config{Lease: time.Minute})
	fixture.Hold(t, other.Mutex("a").Lock)
	ctx := t.Context()
	_, err := c.CountDownLatch("latch").TrySet(ctx, 1)
	require.NoError(t, err)
	_, err = c.Semaphore("sem").TrySet(ctx, 1)
	require.NoError(t, err)
	over, end := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer end()
	cause, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("the program ends"))
	return []errortable.Row{
		{What: "Lock of what another holds, for a while", Err: errortable.Of(c.Mutex("a").Lock(shortly(t)))},
		{What: "Lock of what this client holds, for a while", Err: errortable.Of(other.Mutex("a").Lock(shortly(t)))},
		{What: "Lock under a context that was ended before, for a cause", Err: errortable.Of(c.Mutex("a").Lock(cause))},
		{What: "Wait for a latch, for a while", Err: c.CountDownLatch("latch").Wait(shortly(t))},
		{What: "Wait for a latch, whose deadline is over", Err: c.CountDownLatch("latch").Wait(over)},
		{What: "Acquire more than there is, for a while", Err: c.Semaphore("sem").Acquire(shortly(t), 2)},
		{What: "TryAcquire of more than there is", Err: c.Semaphore("sem").TryAcquire(ctx, 2)},
		{What: "TryAcquire while another call of the client waits", Err: &lock.PermitsError{Name: "sem", Wanted: 2, OthersWait: true}},
		{What: "TryAcquire of a negative number", Err: c.Semaphore("sem").TryAcquire(ctx, -1)},
		{What: "TryAcquire of no permit of a PermitSemaphore", Err: errortable.Of(c.PermitSemaphore("p").TryAcquire(ctx, 0))},
	}
}

func lossErrors(t *testing.T) (rows []errortable.Row) {
	for _, r := range []lock.Reason{lock.NotOwner, lock.TrustEnded, lock.MaxHold, lock.Expired, lock.Closed, lock.Suspended} {
		rows = append(rows, errortable.Row{What: "a loss", Err: &lock.LostError{Name: "a", Reason: r}})
	}
	for _, said := range []string{"NOPERM no right", "MISCONF Errors writing to the AOF file", "NOREPLICAS Not enough good replicas to write."} {
		rows = append(rows, errortable.Row{What: "a loss after a refused renewal", Err: &lock.LostError{Name: "a", Reason: lock.TrustEnded, Err: redis.Error(said)}})
	}
	c := fixture.ClientOf(t, fixture.Server(t), lock.Config{})
	held, err := c.Mutex("a").Lock(t.Context())
	require.NoError(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	rows = append(rows, errortable.Row{What: "Close while a lock is held", Err: c.Close(gone)})
	return append(rows,
		errortable.Row{What: "Lock of a client that is closed", Err: errortable.Of(c.Mutex("b").Lock(t.Context()))},
		errortable.Row{What: "why it is no more held", Err: held.Err()},
	)
}

// silenceErrors returns errors about a server that answers nothing. All say so in the same words.
func silenceErrors(t *testing.T) (rows []errortable.Row) {
	s := fixture.Server(t)
	cfg := lock.Config{Connections: 1, IOTimeout: 300 * time.Millisecond, UnlockTimeout: 400 * time.Millisecond} // all share the connection that is there
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, cfg)
	ctx := t.Context()
	held, guards, unlocks := fixture.Hold(t, c.Mutex("a").Lock), fixture.Hold(t, c.Mutex("g").Lock), fixture.Hold(t, c.Mutex("u").Lock)
	for i := range 16 { // the connection of any name is there
		require.NoError(t, fixture.Hold(t, c.Mutex(fmt.Sprint("x", i)).Lock).Unlock(ctx))
	}
	p.BlackHole()
	undialed := fixture.ClientOver(t, p, cfg)
	rows = []errortable.Row{
		{What: "TryLock, over a connection that is silent", Err: errortable.Of(c.Mutex("b").TryLock(ctx))},
		{What: "TryLock, and the server does not greet", Err: errortable.Of(undialed.Mutex("b").TryLock(ctx))},
		{What: "TTL, for a while", Err: errortable.Of(c.Mutex("b").TTL(shortly(t)))},
		{What: "Lock, for a while", Err: errortable.Of(c.Mutex("b").Lock(shortly(t)))},
		{What: "Extend, for a while", Err: held.Extend(shortly(t), time.Minute)},
		{What: "Guard, while the request before is open", Err: errortable.Of(held.Guard(shortly(t), "GET", []string{"x"}))},
		{What: "Guard, for a while", Err: errortable.Of(guards.Guard(shortly(t), "GET", []string{"x"}))},
		{What: "Unlock", Err: unlocks.Unlock(ctx)},
	}
	for _, r := range rows {
		for _, other := range []string{"i/o timeout", "within Config.IOTimeout"} {
			require.NotContains(t, r.Err.Error(), other, r.What)
		}
	}
	for _, op := range []string{"acquire", "reenter", "release", "guard", "inspect"} {
		rows = append(rows, errortable.Row{What: op + " was cut off", Err: &lock.UnknownError{Op: op, Name: "a", Err: io.EOF}})
	}
	rows = append(rows, errortable.Row{What: "Release of a Semaphore, whose request is too old by now to be sent again", Err: tooOldError(t)})
	rows = append(rows, errortable.Row{What: "Close gave up before the answer", Err: &lock.UnknownError{Op: "release", Name: "a", Err: lock.ErrClosed}})
	for _, op := range []string{"acquire", "release", "force", "guard"} {
		rows = append(rows, errortable.Row{What: op + " while a slot moves", Err: &lock.UnknownError{Op: op, Name: "a", Err: redis.Error("TRYAGAIN Multiple keys request during rehashing of slot")}})
	}
	for _, op := range []string{"acquire", "guard"} {
		rows = append(rows, errortable.Row{What: op + " while Redis starts", Err: &lock.UnknownError{Op: op, Name: "a", Err: redis.Error("LOADING Redis is loading the dataset in memory")}})
	}
	rows = append(rows, errortable.Row{What: "keys are apart while a slot moves", Err: &lock.UnknownError{Op: "acquire", Name: "a", Err: redis.Error("ERR Script attempted to access a non local key in a cluster node")}})
	return append(rows, errortable.Row{What: "the disk of Redis is full", Err: &lock.UnknownError{Op: "acquire", Name: "a", Err: redis.Error("MISCONF Errors")}},
		errortable.Row{What: "replicas are missing", Err: &lock.ReplicationError{Name: "a", Wanted: 2, Acknowledged: 1}})
}

// tooOldError returns the error of a request that was not answered in the time in which it may be sent.
func tooOldError(t *testing.T) (err error) {
	fixture.Bubble(t, lock.Config{UnlockTimeout: time.Minute}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		require.NoError(t, c.Semaphore("s").Release(t.Context(), 1))
		require.NoError(t, s.Pause())
		err = c.Semaphore("s").Release(t.Context(), 1)
		require.NoError(t, s.Resume())
	})
	return err
}

func refusalErrors(t *testing.T) (rows []errortable.Row) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := t.Context()
	fixture.Do(t, s, "HSET", "hash", "name", "bob")
	fixture.Do(t, s, "SET", "text", "abc")
	fixture.Hold(t, c.Mutex("a").Lock)
	typed := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "guard" {
			return faultproxy.Answer(redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"))
		}
		return faultproxy.Pass
	})
	guards := fixture.Hold(t, fixture.ClientOver(t, typed, lock.Config{}).Mutex("g").Lock)
	rows = []errortable.Row{
		{What: "Guard with a command on a key of another type", Err: errortable.Of(guards.Guard(ctx, "INCR", []string{"list"}))},
		{What: "Inspect of a hash that is no lock", Err: errortable.Of(c.Mutex("hash").Inspect(ctx))},
		{What: "Inspect of a Mutex as a RWMutex", Err: errortable.Of(c.RWMutex("a").Reader().Inspect(ctx))},
		{What: "ForceUnlock of a hash that is no lock", Err: errortable.Of(c.Mutex("hash").ForceUnlock(ctx))},
		{What: "Available of a text", Err: errortable.Of(c.Semaphore("text").Available(ctx))},
	}
	for _, said := range []string{
		"WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGPASS invalid username-password pair", "NOPERM User u has no permissions to run the 'hset' command", "ERR unknown command `EVALSHA`",
		"MOVED 1 127.0.0.1:7000",
	} {
		p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
			if strings.HasPrefix(c.Args[0], "EVAL") {
				return faultproxy.Answer(redis.Error(said))
			}
			return faultproxy.Pass
		})
		code, _, _ := strings.Cut(said, " ")
		rows = append(rows, errortable.Row{What: "Redis answers " + code, Err: errortable.Of(fixture.ClientOver(t, p, lock.Config{}).Mutex("b").TryLock(ctx))})
	}
	odd := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if strings.HasPrefix(c.Args[0], "EVAL") {
			return faultproxy.Answer("what?")
		}
		return faultproxy.Pass
	})
	return append(rows, errortable.Row{What: "a proxy answers something odd", Err: errortable.Of(fixture.ClientOver(t, odd, lock.Config{}).Mutex("b").TryLock(ctx))})
}

func permitErrors(t *testing.T) []errortable.Row {
	c := fixture.ClientOf(t, fixture.Server(t), lock.Config{})
	ctx := t.Context()
	p, s := c.PermitSemaphore("p"), c.Semaphore("s")
	require.NoError(t, p.Set(ctx, 2))
	held := fixture.Hold(t, func(ctx context.Context) (*lock.Held, error) { return p.Acquire(ctx, 1) })
	_, err := s.TrySet(ctx, 1<<31-1)
	require.NoError(t, err)
	id := strings.Repeat("1f", 16)
	return []errortable.Row{
		{What: "TryAcquire of more permits than there are", Err: errortable.Of(p.TryAcquire(ctx, 2))},
		{What: "Release of a permit that nobody has", Err: p.Release(ctx, id)},
		{What: "SetLease of a permit that nobody has", Err: p.SetLease(ctx, id, time.Minute)},
		{What: "Lease of a permit that nobody has", Err: errortable.Of(p.Lease(ctx, id))},
		{What: "Release of a permit that is none", Err: p.Release(ctx, "1f")},
		{What: "Release of a permit twice", Err: p.Release(ctx, id, id)},
		{What: "Release of too many ids", Err: p.Release(ctx, make([]string, 1001)...)},
		{What: "Guard with permits", Err: errortable.Of(held.Guard(ctx, "GET", []string{"x"}))},
		{What: "Release of too many permits", Err: s.Release(ctx, 1)},
		{What: "Expire in a microsecond", Err: errortable.Of(s.Expire(ctx, time.Microsecond))},
	}
}

func redLockErrors(t *testing.T) []errortable.Row {
	var clients []*lock.Client
	var members []*lock.Mutex
	for range 3 {
		c := fixture.ClientOf(t, fixture.Server(t), lock.Config{Lease: time.Minute})
		clients = append(clients, c)
		members = append(members, c.Mutex("a"))
	}
	red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
	require.NoError(t, err)
	islands := fixture.Client(t, fixture.NewIslands(t, "a"), lock.Config{})
	held := &lock.HeldError{Name: "a", TTL: 29 * time.Second}
	return []errortable.Row{
		{What: "a RedLock without members", Err: errortable.Of(lock.NewRedLock(lock.RedLockConfig{}))},
		{What: "a MultiLock with a member that is nil", Err: errortable.Of(lock.NewMultiLock(members[0], nil))},
		{What: "a MultiLock with a member without a name", Err: errortable.Of(lock.NewMultiLock(clients[0].Mutex("")))},
		{What: "a RedLock with unfit members", Err: errortable.Of(lock.NewRedLock(lock.RedLockConfig{LongestLease: time.Hour * 10000}, members[0], islands.Mutex("a"), members[0], clients[1].FairMutex("a")))},
		{What: "LockFor of a RedLock for longer than LongestLease", Err: errortable.Of(red.LockFor(t.Context(), time.Hour))},
		{What: "a RedLock without a quorum, because others have it", Err: &lock.QuorumError{Name: "a", Members: 3, Quorum: 2, Acquired: 1, Held: 2, Errs: []error{held, held}}},
		{What: "a RedLock without a quorum, because servers are silent", Err: &lock.QuorumError{Name: "a", Members: 3, Quorum: 2, Unknown: 3}},
		{What: "a RedLock without a quorum, because servers refuse", Err: &lock.QuorumError{Name: "a", Members: 3, Quorum: 2, Refused: 3}},
	}
}

// sentinels returns the errors that errors.Is looks for.
func sentinels() (rows []errortable.Row) {
	for _, err := range []error{
		lock.ErrNotAcquired, lock.ErrNotHeld, lock.ErrLost, lock.ErrUnknown, lock.ErrNotSent, lock.ErrClosed, lock.ErrNotALock, lock.ErrNotReplicated, lock.ErrUpgrade,
		sentinel.ErrNoSentinel, sentinel.ErrNotMaster, cluster.ErrNoTable,
	} {
		rows = append(rows, errortable.Row{What: "by itself", Err: err})
	}
	return rows
}

func unlockErrors(t *testing.T) []errortable.Row {
	cfg := lock.Config{IOTimeout: 100 * time.Millisecond, UnlockTimeout: 150 * time.Millisecond}
	unlock := func(spoil func(s []*redistest.Server, p *faultproxy.Proxy)) error {
		servers := []*redistest.Server{fixture.Server(t), fixture.Server(t)}
		p := fixture.Proxy(t, servers[1], func(c faultproxy.Command) faultproxy.Fate {
			if n, _ := redis.Int(fixture.Do(t, servers[0], "EXISTS", "refuses"), nil); c.Script == "release" && n == 1 {
				return faultproxy.Answer(redis.Error("NOPERM User u has no permissions to run the 'evalsha' command"))
			}
			return faultproxy.Pass
		})
		both := fixture.MultiLock(t, fixture.ClientOf(t, servers[0], lock.Config{}).Mutex("a"), fixture.ClientOver(t, p, cfg).Mutex("b"))
		held, err := both.Lock(t.Context())
		require.NoError(t, err)
		spoil(servers, p)
		return held.Unlock(t.Context())
	}
	return []errortable.Row{
		{What: "Unlock of a MultiLock with a member that was deleted", Err: unlock(func(s []*redistest.Server, _ *faultproxy.Proxy) { fixture.Do(t, s[0], "DEL", "a") })},
		{What: "Unlock of a MultiLock with a member that is silent", Err: unlock(func(_ []*redistest.Server, p *faultproxy.Proxy) { p.BlackHole() })},
		{What: "Unlock of a MultiLock with one that was deleted, and one that is silent", Err: unlock(func(s []*redistest.Server, p *faultproxy.Proxy) {
			fixture.Do(t, s[0], "DEL", "a")
			p.BlackHole()
		})},
		{What: "Unlock of a MultiLock with a member that refuses", Err: unlock(func(s []*redistest.Server, _ *faultproxy.Proxy) { fixture.Do(t, s[0], "SET", "refuses", 1) })},
	}
}

func checkErrors(t *testing.T) []errortable.Row {
	s := fixture.Server(t)
	require.NoError(t, s.Pause())
	defer func() { require.NoError(t, s.Resume()) }()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := fixture.ClientOf(t, s, lock.Config{IOTimeout: 100 * time.Millisecond})
	return []errortable.Row{
		{What: "Check of a server that hangs", Err: c.Check(t.Context())},
		{What: "Check that ends at once", Err: c.Check(ended)},
	}
}

const urlOfSentinels = "redis-sentinel://a:1?master=m"

func topologyErrors(t *testing.T) []errortable.Row {
	refuse := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	none, err := sentinel.New(sentinel.Config{Master: "m", Sentinels: []string{"s1:26379"}, NetDial: refuse})
	require.NoError(t, err)
	_, noMaster := none.Dial(t.Context(), "")
	nodes, err := cluster.New(&redisc.Cluster{StartupNodes: []string{"n1:6379"}}, cluster.Options{NetDial: refuse})
	require.NoError(t, err)
	var layout topology.Layout
	asked, cancel := context.WithCancel(bounded.Context(t))
	nodes.Follow(asked, time.Hour, nil, func(l topology.Layout) { layout = l; cancel() })
	return []errortable.Row{
		{What: "sentinel.New without anything", Err: errortable.Of(sentinel.New(sentinel.Config{Timeout: -1, DialTimeout: -1}))},
		{What: "sentinel.New with an address twice", Err: errortable.Of(sentinel.New(sentinel.Config{Master: "m", Sentinels: []string{"s1:26379", "s1:26379"}}))},
		{What: "sentinel.New with a URL as an address", Err: errortable.Of(sentinel.New(sentinel.Config{Master: "m", Sentinels: []string{"redis://h:1"}}))},
		{What: "sentinel.Open of one server", Err: errortable.Of(sentinel.Open("redis://h:1", sentinel.Config{}))},
		{What: "sentinel.Open with addresses in the Config", Err: errortable.Of(sentinel.Open(urlOfSentinels, sentinel.Config{Sentinels: []string{"h:1"}}))},
		{What: "sentinel.Open with two passwords of sentinels", Err: errortable.Of(sentinel.Open(urlOfSentinels+"&sentinel_password=x", sentinel.Config{
			SentinelCredentials: func(context.Context) (string, string, error) { return "", "", nil },
		}))},
		{What: "no sentinel answers", Err: noMaster},
		{What: "cluster.New without a Cluster", Err: errortable.Of(cluster.New(nil, cluster.Options{}))},
		{What: "cluster.New without nodes", Err: errortable.Of(cluster.New(&redisc.Cluster{}, cluster.Options{PubSub: 77, DialTimeout: -1}))},
		{What: "cluster.New with a URL as an address", Err: errortable.Of(cluster.New(&redisc.Cluster{StartupNodes: []string{"redis://h:1"}}, cluster.Options{}))},
		{What: "cluster.New with a pool and with NetDial", Err: errortable.Of(cluster.New(&redisc.Cluster{
			StartupNodes: []string{"h:1"}, CreatePool: func(string, ...redis.DialOption) (*redis.Pool, error) { return nil, nil },
		}, cluster.Options{NetDial: refuse}))},
		{What: "no node answers", Err: layout.Err},
	}
}

func dialErrors(t *testing.T) []errortable.Row {
	s := fixture.Secure(t)
	cfg := lock.Config{IOTimeout: 2 * time.Second}
	try := func(e lock.Endpoint) error {
		c, err := e.Open(cfg)
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		_, err = c.Mutex("a").TryLock(t.Context())
		return err
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // as Redis is, which waits for the rest of what it takes for a line
	require.NoError(t, err)
	defer mute.Close()
	cfg.IOTimeout = 100 * time.Millisecond
	slow := try(lock.Endpoint{URL: "rediss://" + mute.Addr().String()})
	cfg.IOTimeout = 3 * time.Second
	return []errortable.Row{
		{What: "TLS with a server that has none", Err: slow},
		{What: "TLS with a certificate that is not known", Err: try(lock.Endpoint{URL: "rediss://" + s.SecureAddr})},
		{What: "nobody listens", Err: try(lock.Endpoint{URL: "redis://127.0.0.1:1"})},
		{What: "the credentials cannot be had", Err: try(lock.Endpoint{URL: "redis://" + s.Addr(), Credentials: func(context.Context) (string, string, error) {
			return "", "", errors.New("the vault is sealed")
		}})},
		{What: "the credentials have no password", Err: try(lock.Endpoint{URL: "redis://" + s.Addr(), Credentials: func(context.Context) (string, string, error) {
			return "app", "", nil
		}})},
	}
}
