package lock_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func TestAHeldErrorSaysForHowLongAndWhatToDo(t *testing.T) {
	const hint = ": try again later, or give Lock time to wait"
	for want, err := range map[string]*lock.HeldError{
		`lock: "a" is held by another owner, its lease has 29.999s left`:                         {Name: "a", TTL: 29*time.Second + 998_700*time.Microsecond},
		`lock: "a" is held by another owner, its key has no TTL`:                                 {Name: "a", TTL: -1},
		`lock: "a" is held by another owner`:                                                     {Name: "a"},
		`lock: "a" is held through another library (a string with a TTL), its lease has 2s left`: {Name: "a", TTL: 2 * time.Second, Foreign: true},
	} {
		require.EqualError(t, err, want+hint)
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

// TestAnErrorIsOnOneLine: errors that are joined, and those of a server that ends them with a line
// end.
func TestAnErrorIsOnOneLine(t *testing.T) {
	for text, err := range map[string]error{
		"<nil>":                     nil,
		"MISCONF it cannot persist": redis.Error("MISCONF it cannot persist\r\n"),
		"a; b; c":                   errors.Join(errors.New("a\n"), errors.New("b\r\n\r\nc")),
	} {
		require.Equal(t, text, lock.OnOneLine(err))
	}
}
