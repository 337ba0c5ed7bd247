package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// javas is the field of a holder in another process.
const javas = "7c2bf2b8-5d1f-4c3a-9d63-0f6e0f0d6a11:1"

// hostile is what somebody may have put where a key of ours should be.
type hostile struct {
	name string
	put  []any // the command that puts it, the key left out
	// For which objects the value is a proper one. All others must leave it as it is.
	number bool // for counters
	reads  bool // for a read-write lock, which is held for reading
	lock   bool // for locks, so ForceUnlock may delete it
}

var hostiles = []hostile{
	{name: "text", put: []any{"SET", "hello"}},
	{name: "nothing", put: []any{"SET", ""}},
	{name: "a blob", put: []any{"SET", strings.Repeat("\x00\xff{}", 1<<18)}},
	{name: "zero", put: []any{"SET", "0"}, number: true},
	{name: "a number", put: []any{"SET", "5"}, number: true},
	{name: "a negative number", put: []any{"SET", "-5"}, number: true},
	{name: "2^53+1", put: []any{"SET", "9007199254740993"}, number: true},
	{name: "the greatest number", put: []any{"SET", "9223372036854775807"}, number: true},
	{name: "the least number", put: []any{"SET", "-9223372036854775808"}, number: true},
	{name: "a number that is too great", put: []any{"SET", "92233720368547758070"}, number: true},
	{name: "a float", put: []any{"SET", "1.5"}},
	{name: "an exponent", put: []any{"SET", "1e3"}},
	{name: "a great float", put: []any{"SET", "1e300"}},
	{name: "hex", put: []any{"SET", "0x10"}},
	{name: "nan", put: []any{"SET", "nan"}},
	{name: "inf", put: []any{"SET", "inf"}},
	{name: "-inf", put: []any{"SET", "-inf"}},
	{name: "a list", put: []any{"RPUSH", "a", "b"}},
	{name: "a set", put: []any{"SADD", "a", "b"}},
	{name: "a sorted set", put: []any{"ZADD", "-inf", "a", "inf", "b", "1.5", "c"}},
	{name: "a stream", put: []any{"XADD", "*", "a", "b"}},
	{name: "a bitmap", put: []any{"SETBIT", "100", "1"}},
	{name: "a hash of text", put: []any{"HSET", "name", "jack"}},
	{name: "a hash of numbers", put: []any{"HSET", "visits", "3"}},
	{name: "a hash of many", put: []any{"HSET", javas, "1", "name", "jack", "visits", "3"}},
	{name: "a lock without a TTL", put: []any{"HSET", javas, "1"}, lock: true},
	{name: "a lock of an async call, whose thread may be any number", put: []any{"HSET", javas[:len(javas)-1] + "-7", "1"}, lock: true},
	{name: "a reader of an async call", put: []any{"HSET", "mode", "read", javas[:len(javas)-1] + "-7", "1"}, reads: true, lock: true},
	{name: "a lock with two holders", put: []any{"HSET", javas, "1", javas + "2", "1"}, lock: true},
	{name: "a lock with a huge count", put: []any{"HSET", javas, "9223372036854775808"}, lock: true},
	{name: "a lock with a negative count", put: []any{"HSET", javas, "-1"}},
	{name: "a lock with a text for a count", put: []any{"HSET", javas, "many"}},
	{name: "a hash with a strange mode alone", put: []any{"HSET", "mode", "dark"}},
	{name: "a hash with a strange mode", put: []any{"HSET", "mode", "dark", "size", "3"}},
	{name: "a mode and strangers", put: []any{"HSET", "mode", "read", "name", "jack"}, reads: true},
	{name: "a reader", put: []any{"HSET", "mode", "read", javas, "1"}, reads: true, lock: true},
	{name: "a reader with a huge count", put: []any{"HSET", "mode", "read", javas, "999999999999999"}, reads: true, lock: true},
	{name: "a reader with an endless count", put: []any{"HSET", "mode", "read", javas, "inf"}, reads: true},
	{name: "a reader with a negative count", put: []any{"HSET", "mode", "read", javas, "-1"}, reads: true},
	{name: "a writer", put: []any{"HSET", "mode", "write", javas + ":write", "1"}, lock: true},
	{name: "a writer with a text for a count", put: []any{"HSET", "mode", "write", javas + ":write", "many"}},
}

// isRW reports whether it has the mode of a RWMutex.
func (h hostile) isRW() bool { return slices.Contains(h.put, any("mode")) }

// putAt puts it at a key in one step, because a late request of a caller that has left must
// not find the key free.
func (h hostile) putAt(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	const script = `redis.call('del', KEYS[1])
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))`
	fixture.Do(t, s, "EVAL", append([]any{script, 1, key}, h.put...)...)
}

// operation is one call of an object. If it can, it undoes its effect at once.
type operation struct {
	name string
	do   func(context.Context) error
}

// object is a lock, a semaphore or a latch.
type object struct {
	name       string
	kind       string   // objects of one kind do the same to a key
	others     []string // its other keys
	force      func(context.Context) (bool, error)
	operations []operation
}

// patience is how long a call waits if it does not get what it waits for.
const patience = 50 * time.Millisecond

func lockAndUnlock(take func(context.Context) (*lock.Held, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		held, err := take(ctx)
		if err != nil {
			return err
		}
		return held.Unlock(ctx)
	}
}

// granted is the key of a context in which withPatience sets no limit, because calls get what they wait for.
type granted struct{}

func withPatience(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if ctx.Value(granted{}) != nil {
			return do(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return do(ctx)
	}
}

// untilKnown repeats a call that waits a few milliseconds until Redis has answered it. Each time the call
// may wait twice as long, because on a busy machine a few milliseconds may be too short for an answer.
func untilKnown(do func(context.Context, time.Duration) error) func(context.Context) error {
	return func(ctx context.Context) error {
		within := 5 * time.Millisecond
		return fixture.RetryUntilKnown(func() error {
			within *= 2
			return do(ctx, within)
		})
	}
}

// mutexLike are the methods that mutexes of all sorts share.
type mutexLike interface {
	Lock(context.Context) (*lock.Held, error)
	TryLock(context.Context) (*lock.Held, error)
	TryLockFor(context.Context, time.Duration) (*lock.Held, error)
	TryLockWithin(context.Context, time.Duration) (*lock.Held, error)
	Inspect(context.Context) (lock.Info, error)
	TTL(context.Context) (time.Duration, error)
	ForceUnlock(context.Context) (bool, error)
}

func mutexOperations(m mutexLike) []operation {
	return []operation{
		{"TryLock", lockAndUnlock(m.TryLock)},
		{"TryLockFor", lockAndUnlock(func(ctx context.Context) (*lock.Held, error) { return m.TryLockFor(ctx, time.Second) })},
		{"TryLockWithin", untilKnown(func(ctx context.Context, within time.Duration) error {
			return lockAndUnlock(func(ctx context.Context) (*lock.Held, error) { return m.TryLockWithin(ctx, within) })(ctx)
		})},
		{"Lock", withPatience(lockAndUnlock(m.Lock))},
		{"Inspect", func(ctx context.Context) error { _, err := m.Inspect(ctx); return err }},
		{"TTL", func(ctx context.Context) error { _, err := m.TTL(ctx); return err }},
	}
}

// family returns an object of each kind. All have the same name.
func family(c *lock.Client, name string) []object {
	mutex, fenced, fair, rw := c.Mutex(name), c.FencedMutex(name), c.FairMutex(name), c.RWMutex(name)
	semaphore, permits, latch := c.Semaphore(name), c.PermitSemaphore(name), c.CountDownLatch(name)
	key := mutex.Name()
	return []object{
		{name: "Mutex", kind: "mutex", force: mutex.ForceUnlock, operations: mutexOperations(mutex)},
		{
			name: "FencedMutex", kind: "mutex", force: fenced.ForceUnlock,
			others:     []string{"redisson_lock_token:{" + key + "}"},
			operations: mutexOperations(fenced),
		},
		{
			name: "FairMutex", kind: "mutex", force: fair.ForceUnlock,
			others:     []string{"redisson_lock_queue:{" + key + "}", "redisson_lock_timeout:{" + key + "}", "{" + key + "}:wheellock_waiters"},
			operations: mutexOperations(fair),
		},
		{
			name: "RWMutex", kind: "rw", force: rw.Writer().ForceUnlock,
			operations: []operation{
				{"TryLock", lockAndUnlock(rw.Writer().TryLock)},
				{"Lock", withPatience(lockAndUnlock(rw.Writer().Lock))},
				{"TryRLock", lockAndUnlock(rw.Reader().TryLock)},
				{"RLock", withPatience(lockAndUnlock(rw.Reader().Lock))},
				{"Inspect", func(ctx context.Context) error { _, err := rw.Writer().Inspect(ctx); return err }},
			},
		},
		{
			name: "Semaphore", kind: "counter",
			operations: []operation{
				{"TrySet", func(ctx context.Context) error { _, err := semaphore.TrySet(ctx, 2); return err }},
				{"TryAcquire", func(ctx context.Context) error { return semaphore.TryAcquire(ctx, 1) }},
				{"Acquire", withPatience(func(ctx context.Context) error { return semaphore.Acquire(ctx, 1) })},
				{"Release", func(ctx context.Context) error { return semaphore.Release(ctx, 1) }},
				{"Drain", func(ctx context.Context) error { _, err := semaphore.Drain(ctx); return err }},
				{"Available", func(ctx context.Context) error { _, err := semaphore.Available(ctx); return err }},
			},
		},
		{
			name: "PermitSemaphore", kind: "counter", others: []string{"{" + key + "}:timeout"},
			operations: []operation{
				{"TrySet", func(ctx context.Context) error { _, err := permits.TrySet(ctx, 2); return err }},
				{"TryAcquire", lockAndUnlock(func(ctx context.Context) (*lock.Held, error) { return permits.TryAcquire(ctx, 1) })},
				{"Acquire", withPatience(lockAndUnlock(func(ctx context.Context) (*lock.Held, error) { return permits.Acquire(ctx, 1) }))},
				{"Inspect", func(ctx context.Context) error { _, err := permits.Inspect(ctx); return err }},
				{"Set", func(ctx context.Context) error { return permits.Set(ctx, 2) }},
				{"Add", func(ctx context.Context) error { return permits.Add(ctx, 1) }},
			},
		},
		{
			name: "CountDownLatch", kind: "counter",
			operations: []operation{
				{"TrySet", func(ctx context.Context) error { _, err := latch.TrySet(ctx, 2); return err }},
				{"Wait", withPatience(latch.Wait)},
				{"Count", func(ctx context.Context) error { _, err := latch.Count(ctx); return err }},
				{"CountDown", latch.CountDown},
				{"Reset", func(ctx context.Context) error { _, err := latch.Reset(ctx); return err }},
			},
		},
	}
}

// keyState returns the value at a key, and whether it has a TTL.
func keyState(t *testing.T, s *redistest.Server, key string) string {
	t.Helper()
	ttl := fixture.Do(t, s, "PTTL", key).(int64)
	dump, _ := fixture.Do(t, s, "DUMP", key).([]byte)
	return fmt.Sprintf("%x %v", dump, min(ttl, 0))
}

// checkError checks that an error is a clear error of package lock, and that it does not say
// that the server is silent, because the server works.
func checkError(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if !strings.HasPrefix(err.Error(), "lock: ") {
		t.Errorf("%s: the error is %q", what, err)
	}
	if strings.Contains(err.Error(), "WRONGTYPE") && !errors.Is(err, lock.ErrNotALock) && !strings.Contains(err.Error(), "guard of") {
		t.Errorf("%s: no typed error: %v", what, err)
	}
	if errors.Is(err, lock.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v", what, err)
	}
}

// onFirst starts a server of the first kind that is available, for a test that
// is about the data on it.
func onFirst(t *testing.T) *redistest.Server {
	t.Helper()
	i := slices.IndexFunc(starters, func(s starter) bool { return s.available() == nil })
	if i < 0 {
		i = 0 // it says why
	}
	s := starters[i]
	s.skipUnlessAvailable(t)
	return startOwn(t, s)
}

// TestWhatSomebodyPutAtTheKey is refused with a clear error, unless it is what
// the object itself would have put there, and stays as it is. ForceUnlock
// deletes locks alone.
func TestWhatSomebodyPutAtTheKey(t *testing.T) {
	t.Parallel()
	s := onFirst(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Minute})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range hostiles {
		for i, o := range family(c, "") {
			key := fmt.Sprintf("%s as %s", h.name, o.name)
			o := family(c, key)[i]
			wg.Go(func() {
				for _, d := range o.operations {
					h.putAt(t, s, key)
					before := keyState(t, s, key)
					what := fmt.Sprintf("%s of a %s at %s", d.name, o.name, h.name)
					reader := o.kind == "rw" && h.reads && strings.HasSuffix(d.name, "RLock")
					doing := ctx
					if reader { // a request that its caller has left could change what the next operation finds
						doing = context.WithValue(ctx, granted{}, true)
					}
					err := d.do(doing)
					checkError(t, what, err)
					own := o.kind == "counter" && h.number || reader
					if !own && keyState(t, s, key) != before {
						t.Errorf("%s has changed it (error %v)", what, err)
					}
					reads := d.name == "Inspect" || d.name == "TTL" || d.name == "Count" ||
						d.name == "TrySet" && err == nil || d.name == "Wait"
					if !own && !reads && err == nil {
						t.Errorf("%s has worked", what)
					}
				}
				if o.force == nil {
					return
				}
				h.putAt(t, s, key)
				before := keyState(t, s, key)
				was, err := o.force(ctx)
				what := fmt.Sprintf("ForceUnlock of a %s at %s", o.name, h.name)
				checkError(t, what, err)
				switch {
				case err == nil && was:
					if !h.lock {
						t.Errorf("%s has deleted it", what)
					}
				case err == nil:
					t.Errorf("%s has seen nothing", what)
				case !errors.Is(err, lock.ErrNotALock):
					t.Errorf("%s: %v", what, err)
				case h.lock && (o.kind == "rw") == h.isRW():
					t.Errorf("%s has left it: %v", what, err)
				case keyState(t, s, key) != before:
					t.Errorf("%s has changed it, and says %v", what, err)
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	// The server is well, and all else as well.
	held, err := c.Mutex("well").TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, c.Close(ctx))
}

// TestWhatSomebodyPutAtAKeyBeside the lock's own: it is refused, or does not
// matter, and nothing is left at the key.
func TestWhatSomebodyPutAtAKeyBeside(t *testing.T) {
	t.Parallel()
	s := onFirst(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Minute})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range hostiles {
		for i, o := range family(c, "") {
			for n := range o.others {
				key := fmt.Sprintf("%s beside %s %d", h.name, o.name, n)
				o := family(c, key)[i]
				wg.Go(func() {
					for _, d := range o.operations {
						fixture.Do(t, s, "DEL", key)
						h.putAt(t, s, o.others[n])
						err := d.do(ctx)
						what := fmt.Sprintf("%s of a %s with %s beside it", d.name, o.name, h.name)
						checkError(t, what, err)
						if o.kind == "mutex" && !awaitKeyGone(t, s, key) {
							t.Errorf("%s has left something (error %v)", what, err)
						}
					}
				})
			}
		}
	}
	bounded.Wait(t, &wg)
	require.NoError(t, c.Close(ctx))
}

// awaitKeyGone waits for the end of a key, and reports whether it came. A client gives back in the
// background what a caller that has left has got.
func awaitKeyGone(t *testing.T, s *redistest.Server, key string) bool {
	t.Helper()
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		if fixture.Do(t, s, "EXISTS", key) == int64(0) {
			return true
		}
	}
	return false
}

// TestWhatSomebodyPutAtTheTokenCounter of all mutexes.
func TestWhatSomebodyPutAtTheTokenCounter(t *testing.T) {
	t.Parallel()
	s := onFirst(t)
	ctx := bounded.Context(t)
	for _, h := range hostiles {
		c := fixture.ClientOf(t, s, lock.Config{IOTimeout: time.Second})
		first := fixture.Hold(t, c.Mutex("m").TryLock)
		require.NoError(t, first.Unlock(ctx))
		h.putAt(t, s, "wheellock_token")
		before := keyState(t, s, "wheellock_token")
		held, err := c.Mutex("m").TryLock(ctx)
		checkError(t, h.name, err)
		if err == nil {
			require.Greater(t, held.Token(), first.Token(), h.name)
			require.Less(t, held.Token(), int64(1)<<53, h.name)
			require.NoError(t, held.Unlock(ctx))
		} else {
			require.Equal(t, before, keyState(t, s, "wheellock_token"), h.name)
		}
		require.Equal(t, int64(0), fixture.Do(t, s, "EXISTS", "m"), h.name)
		// A hand-off inside the client mints a token too.
		fixture.Do(t, s, "DEL", "wheellock_token")
		held = fixture.Hold(t, c.Mutex("m").TryLock)
		waited := make(chan error, 1)
		go func() { waited <- withPatience(lockAndUnlock(c.Mutex("m").Lock))(ctx) }()
		require.Eventually(t, func() bool { return c.Stats().Waiting == 1 || len(waited) == 1 }, time.Minute, time.Millisecond)
		h.putAt(t, s, "wheellock_token")
		checkError(t, h.name, held.Unlock(ctx))
		checkError(t, h.name, bounded.Receive(t, waited))
		require.True(t, awaitKeyGone(t, s, "m"), h.name)
		fixture.Do(t, s, "DEL", "wheellock_token")
		require.NoError(t, c.Close(ctx))
	}
}

// TestWhatSomebodyPutInPlaceOfALock costs that lock and no other, though they
// are renewed by the same scripts.
func TestWhatSomebodyPutInPlaceOfALock(t *testing.T) {
	t.Parallel()
	s := onFirst(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	_, err := c.PermitSemaphore("permits").TrySet(ctx, int64(len(hostiles)))
	require.NoError(t, err)
	takes := map[string]func(name string) (*lock.Held, error){
		"Mutex":       func(name string) (*lock.Held, error) { return c.Mutex(name).Lock(ctx) },
		"FencedMutex": func(name string) (*lock.Held, error) { return c.FencedMutex(name).Lock(ctx) },
		"FairMutex":   func(name string) (*lock.Held, error) { return c.FairMutex(name).Lock(ctx) },
		"Lock":        func(name string) (*lock.Held, error) { return c.RWMutex(name).Writer().Lock(ctx) },
		"RLock":       func(name string) (*lock.Held, error) { return c.RWMutex(name).Reader().Lock(ctx) },
		"Permit": func(name string) (*lock.Held, error) {
			p := c.PermitSemaphore(name)
			if _, err := p.TrySet(ctx, 1); err != nil {
				return nil, err
			}
			return p.TryAcquire(ctx, 1)
		},
	}
	lost, kept := map[string]*lock.Held{}, map[string]*lock.Held{}
	put := map[string]hostile{}
	for kind, take := range takes {
		for _, h := range hostiles {
			name := kind + " " + h.name
			held, err := take(name)
			require.NoError(t, err)
			lost[name], put[name] = held, h
			if held, err = take("kept " + name); err != nil {
				t.Fatal(err)
			}
			kept["kept "+name] = held
		}
	}
	left := map[string]string{}
	for name, h := range put {
		key := name
		if strings.HasPrefix(name, "Permit ") {
			key = "{" + name + "}:timeout"
		}
		h.putAt(t, s, key)
		left[key] = keyState(t, s, key)
	}
	for _, held := range lost {
		fixture.RequireLost(t, held, lock.NotOwner)
	}
	renewed := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= renewed+uint64(3*len(kept)) }, time.Minute, 10*time.Millisecond)
	for name, held := range lost {
		err := held.Unlock(ctx)
		require.ErrorIs(t, err, lock.ErrLost, name)
	}
	for key, before := range left {
		require.Equal(t, before, keyState(t, s, key), "%s was changed", key)
	}
	for name, held := range kept {
		require.True(t, held.Valid(), name)
		require.NoError(t, held.Unlock(ctx), name)
	}
	require.NoError(t, c.Close(ctx))
}

// TestWhatSomebodyPutInPlaceOfALockIsNotOurs to extend, to enter again or to
// release, even before the holder has learned of the loss.
func TestWhatSomebodyPutInPlaceOfALockIsNotOurs(t *testing.T) {
	t.Parallel()
	s := onFirst(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second})
	takes := map[string]func(ctx context.Context, name string) (*lock.Held, error){
		"Mutex":       func(ctx context.Context, name string) (*lock.Held, error) { return c.Mutex(name).Lock(ctx) },
		"FencedMutex": func(ctx context.Context, name string) (*lock.Held, error) { return c.FencedMutex(name).Lock(ctx) },
		"FairMutex":   func(ctx context.Context, name string) (*lock.Held, error) { return c.FairMutex(name).Lock(ctx) },
		"Lock":        func(ctx context.Context, name string) (*lock.Held, error) { return c.RWMutex(name).Writer().Lock(ctx) },
		"RLock":       func(ctx context.Context, name string) (*lock.Held, error) { return c.RWMutex(name).Reader().Lock(ctx) },
	}
	for kind, take := range takes {
		for _, h := range hostiles {
			for _, deed := range []string{"Unlock", "Extend", "re-entry", "Guard"} {
				name := kind + deed + h.name
				held, err := take(ctx, name)
				require.NoError(t, err)
				h.putAt(t, s, name)
				before := keyState(t, s, name)
				switch deed {
				case "Extend":
					err = held.Extend(ctx, time.Hour)
				case "re-entry":
					var inner *lock.Held
					if inner, err = take(waitingContext(t, held), name); err == nil {
						t.Errorf("%s was entered again", name)
						_ = inner.Unlock(ctx)
					}
				case "Guard":
					_, err = held.Guard(ctx, "SET", []string{name + "guarded"}, "x")
					require.Equal(t, int64(0), fixture.Do(t, s, "EXISTS", name+"guarded"), name)
				case "Unlock":
					err = held.Unlock(ctx)
				}
				if err == nil {
					t.Errorf("%s: no error", name)
				}
				checkError(t, name, err)
				_ = held.Unlock(ctx)
				require.Equal(t, before, keyState(t, s, name), "%s was changed (error %v)", name, err)
			}
		}
	}
	require.NoError(t, c.Close(ctx))
}

// waitingContext returns a context for a re-entry that waits at most for patience.
func waitingContext(t *testing.T, held *lock.Held) context.Context {
	ctx, cancel := context.WithTimeout(held.Context(bounded.Context(t)), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestAReadersCountOfSomebodyElses: however large the count of a foreign reader is, another
// reader or a writer unlocks at once.
func TestAReadersCountOfSomebodyElses(t *testing.T) {
	t.Parallel()
	s := onFirst(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{IOTimeout: time.Second})
	for name, take := range map[string]func(context.Context) (*lock.Held, error){
		"r": c.RWMutex("r").Reader().Lock, "w": c.RWMutex("w").Writer().Lock,
	} {
		for _, count := range []string{"999999999999999", "1e300", "inf", "nan", "-1", "text"} {
			held, err := take(ctx)
			require.NoError(t, err)
			fixture.Do(t, s, "HSET", name, javas, count)
			require.NoError(t, held.Unlock(ctx), "%s beside %s", name, count)
			require.Equal(t, int64(0), fixture.Do(t, s, "EXISTS", name), "nobody has it: the other's time is over")
		}
	}
	require.NoError(t, c.Close(ctx))
}

// TestALockWhoseTTLSomebodyTook has one again after its next renewal.
func TestALockWhoseTTLSomebodyTook(t *testing.T) {
	t.Parallel()
	s := onFirst(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	fixture.Do(t, s, "PERSIST", "m")
	fixture.Do(t, s, "HSET", "m", "name", "jack", "visits", "3")
	require.Eventually(t, func() bool { return fixture.Do(t, s, "PTTL", "m").(int64) > 0 }, time.Minute, 5*time.Millisecond)
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx))
	require.Equal(t, int64(2), fixture.Do(t, s, "HLEN", "m"), "what is not ours stays")
	_, err := c.Mutex("m").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, c.Close(ctx))
}

// TestAMaliciousPublisher sends 10,000 messages a second to clients that wait.
// They try at most once every 2 ms, no client gets a lock that another one has, and
// the holder is not disturbed.
func TestAMaliciousPublisher(t *testing.T) {
	t.Parallel()
	const perSecond = 10000
	lasts := 2 * time.Second
	if testing.Short() {
		lasts /= 4
	}
	payloads := [][]byte{
		[]byte("0"), []byte("1"),
		{},
		[]byte("-1"), []byte("9223372036854775807"), []byte("1e308"), []byte("nan"),
		[]byte("\x00\xff\r\n*3\r\n$3\r\nSET\r\n"), bytes.Repeat([]byte("0"), 100), []byte("released"),
	}
	for _, kind := range []string{"Mutex", "FencedMutex", "FairMutex", "RWMutex", "RWMutex.R", "Semaphore", "PermitSemaphore", "CountDownLatch"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := onFirst(t)
			ctx, cancel := context.WithCancel(bounded.Context(t))
			defer cancel()
			// Without a message they wait for an hour.
			cfg := lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: time.Hour}
			a, b := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
			const name = "m"
			wait := map[string]func(context.Context) error{
				"Mutex":           lockAndUnlock(b.Mutex(name).Lock),
				"FencedMutex":     lockAndUnlock(b.FencedMutex(name).Lock),
				"FairMutex":       lockAndUnlock(b.FairMutex(name).Lock),
				"RWMutex":         lockAndUnlock(b.RWMutex(name).Writer().Lock),
				"RWMutex.R":       lockAndUnlock(b.RWMutex(name).Reader().Lock),
				"Semaphore":       func(ctx context.Context) error { return b.Semaphore(name).Acquire(ctx, 1) },
				"PermitSemaphore": lockAndUnlock(func(ctx context.Context) (*lock.Held, error) { return b.PermitSemaphore(name).Acquire(ctx, 1) }),
				"CountDownLatch":  b.CountDownLatch(name).Wait,
			}[kind]
			var held *lock.Held
			var err error
			switch kind {
			case "Mutex":
				held, err = a.Mutex(name).Lock(ctx)
			case "FencedMutex":
				held, err = a.FencedMutex(name).Lock(ctx)
			case "FairMutex":
				held, err = a.FairMutex(name).Lock(ctx)
			case "RWMutex", "RWMutex.R":
				held, err = a.RWMutex(name).Writer().Lock(ctx)
			case "Semaphore":
				_, err = a.Semaphore(name).TrySet(ctx, 1)
				require.NoError(t, a.Semaphore(name).TryAcquire(ctx, 1))
			case "PermitSemaphore":
				_, err = a.PermitSemaphore(name).TrySet(ctx, 1)
				require.NoError(t, err)
				held, err = a.PermitSemaphore(name).TryAcquire(ctx, 1)
			case "CountDownLatch":
				_, err = a.CountDownLatch(name).TrySet(ctx, 1)
			}
			require.NoError(t, err)
			got := make(chan error, 1)
			go func() { got <- wait(ctx) }()
			pub := fixture.Dial(t, s)
			var channels []string
			require.Eventually(t, func() bool {
				channels, err = redis.Strings(pub.Do("PUBSUB", "CHANNELS"))
				require.NoError(t, err)
				return len(channels) > 0
			}, time.Minute, time.Millisecond)
			// The confirmation brings a try of its own.
			tries := countScripts(t, s)
			require.Eventually(t, func() bool { n := countScripts(t, s); still := n == tries; tries = n; return still }, time.Minute, 100*time.Millisecond)

			began, sent := time.Now(), 0
			for time.Since(began) < lasts {
				for sent < int(time.Since(began)*perSecond/time.Second) {
					for _, channel := range channels {
						payload := payloads[sent%len(payloads)]
						if sent%perSecond == 0 {
							payload = bytes.Repeat([]byte("1"), 4<<20)
						}
						require.NoError(t, pub.Send("PUBLISH", channel, payload))
						sent++
					}
				}
				_, err := pub.Do("") // all answers
				require.NoError(t, err)
			}
			took := time.Since(began)
			n := countScripts(t, s) - tries
			t.Logf("%d messages in %v: %d scripts", sent, took, n)
			require.LessOrEqual(t, n, int64(took/(2*time.Millisecond))+10, "tries are paced")
			select {
			case err := <-got:
				t.Fatal("it has what another holds: ", err)
			default:
			}
			if held != nil {
				require.True(t, held.Valid())
				require.NoError(t, held.Unlock(ctx))
			} else if kind == "Semaphore" {
				require.NoError(t, a.Semaphore(name).Release(ctx, 1))
			} else {
				require.NoError(t, a.CountDownLatch(name).CountDown(ctx))
			}
			select {
			case err := <-got:
				require.NoError(t, err, "the true message is heard")
			case <-time.After(30 * time.Second):
				t.Fatal("the true message was not heard")
			}
			require.NoError(t, a.Close(ctx))
			require.NoError(t, b.Close(ctx))
		})
	}
}

// countScripts counts the scripts that the server has run.
func countScripts(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	info, err := s.Info("commandstats")
	require.NoError(t, err)
	var calls int64
	_, _ = fmt.Sscanf(info["cmdstat_evalsha"], "calls=%d,", &calls)
	return calls
}
