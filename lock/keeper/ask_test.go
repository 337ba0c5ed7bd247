package keeper

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// keeping runs f with a Keeper that looks only at the ends of leases, and the link of its client.
func keeping(t *testing.T, cfg Config, f func(t *testing.T, srv *locktest.Server, link *locktest.Link, k *Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		link := srv.Link()
		cfg.Look = MaxLook
		if cfg.Taken == nil {
			cfg.Taken = func(context.Context, string, *lock.Held) {}
		}
		k, err := New(link.Client(lock.Config{}), cfg)
		require.NoError(t, err)
		f(t, srv, link, k)
		require.NoError(t, k.Close(t.Context()))
	})
}

// Another owner with a shorter lease may have taken the lock after the release whose message comes.
func TestANameRestsAsLongAsTheLastHolderHasIt(t *testing.T) {
	keeping(t, Config{}, func(t *testing.T, srv *locktest.Server, _ *locktest.Link, k *Keeper) {
		other := srv.Client(lock.Config{})
		held, err := other.Mutex("a").LockFor(t.Context(), 10*time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Want("a"))
		time.Sleep(time.Second)
		require.EqualValues(t, 1, k.Stats().Refused)
		srv.Delete("a") // without a message
		_, err = other.Mutex("a").LockFor(t.Context(), 5*time.Second)
		require.NoError(t, err)
		k.heard("a", false)
		time.Sleep(time.Second)
		require.EqualValues(t, 2, k.Stats().Refused)
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, k.Stats().Kept)
		_ = held.Unlock(t.Context()) // it is lost
	})
}

// A release may have been missed while a try was under way that gets no answer.
func TestANameIsLookedAtIfAReleaseMayHaveBeenMissedDuringATryThatFails(t *testing.T) {
	keeping(t, Config{}, func(t *testing.T, srv *locktest.Server, link *locktest.Link, k *Keeper) {
		held, err := srv.Client(lock.Config{}).Mutex("a").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, k.Want("a"))
		time.Sleep(time.Second)
		before := k.Stats()
		srv.SetDelay(100 * time.Millisecond)
		link.CutAfter("acquire")
		k.heard("a", false)
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, k.Stats().Asking)
		k.heard("a", true)
		time.Sleep(time.Second)
		require.Equal(t, []uint64{1, 1}, []uint64{k.Stats().Since(before).Failed, k.Stats().Since(before).Looks})
		srv.SetDelay(0)
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(time.Second)
		require.Equal(t, 1, k.Stats().Kept)
	})
}

// A release may have been missed while a try was under way that is refused.
func TestANameIsLookedAtIfAReleaseMayHaveBeenMissedDuringItsTry(t *testing.T) {
	keeping(t, Config{}, func(t *testing.T, srv *locktest.Server, _ *locktest.Link, k *Keeper) {
		held, err := srv.Client(lock.Config{}).Mutex("a").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, k.Want("a"))
		time.Sleep(time.Second)
		before := k.Stats()
		srv.SetDelay(100 * time.Millisecond)
		k.heard("a", false)
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, k.Stats().Asking)
		k.heard("a", true)
		time.Sleep(time.Second)
		require.Equal(t, []uint64{1, 1}, []uint64{k.Stats().Since(before).Refused, k.Stats().Since(before).Looks})
		srv.SetDelay(0)
		k.heard("a", true) // now it rests
		time.Sleep(time.Second)
		require.EqualValues(t, 2, k.Stats().Since(before).Looks)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// While Redis is down, a name that is due is looked at once, and is then the next probe.
func TestANameThatIsDueDuringAnOutageIsTheProbe(t *testing.T) {
	keeping(t, Config{}, func(t *testing.T, srv *locktest.Server, link *locktest.Link, k *Keeper) {
		held, err := srv.Client(lock.Config{}).Mutex("a").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, k.Want("a"))
		time.Sleep(time.Second)
		link.Cut()
		for i := range failuresInARow {
			require.NoError(t, k.Want(strconv.Itoa(i)))
		}
		time.Sleep(10 * time.Second)
		before := k.Stats()
		require.True(t, before.Failing)
		k.heard("a", true)
		time.Sleep(10 * time.Second)
		did := k.Stats().Since(before)
		require.LessOrEqual(t, did.Looks, uint64(2*(1+failuresInARow)), "a name that was the probe rests before its next look")
		require.NotZero(t, did.Failed)
		require.LessOrEqual(t, did.Failed, uint64(3), "pauses are 5 s, or a quarter less")
		link.Mend()
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// When an outage ends, more names may be known to be free than may be asked for at once. They do not wait
// for the time of the next probe.
func TestNamesThatAreKnownToBeFreeDoNotWaitForTheNextProbe(t *testing.T) {
	const n, probes, perSecond = 50, 20, 100
	keeping(t, Config{PerSecond: perSecond}, func(t *testing.T, srv *locktest.Server, link *locktest.Link, k *Keeper) {
		other, names := srv.Client(lock.Config{}), fixture.Names("n", n)
		for _, name := range names { // they rest for longer than the outage
			_, err := other.Mutex(name).LockFor(t.Context(), time.Hour)
			require.NoError(t, err)
		}
		require.NoError(t, k.Want(names...))
		time.Sleep(10 * time.Second)
		require.EqualValues(t, n, k.Stats().Refused)
		link.Cut()
		require.NoError(t, k.Want(fixture.Names("probe", probes)...))
		time.Sleep(time.Minute)
		require.True(t, k.Stats().Failing)
		for failed := k.Stats().Failed; k.Stats().Failed == failed; { // then a whole pause lies ahead
			time.Sleep(time.Millisecond)
		}
		link.Mend()
		for _, name := range names {
			srv.Delete(name)
		}
		require.Eventually(t, func() bool { // the client connects again
			_, errs := k.client.TTLMany(t.Context(), names)
			return errors.Join(errs...) == nil
		}, time.Minute, time.Millisecond)
		for _, name := range names {
			k.heard(name, false)
		}
		time.Sleep((n + probes + 10) * time.Second / perSecond)
		require.GreaterOrEqual(t, k.Stats().Kept, n)
	})
}

// The Keeper may learn of the end of a hold when the name is held again.
func TestTheEndOfAnEarlierHoldEndsNoOther(t *testing.T) {
	keeping(t, Config{}, func(t *testing.T, _ *locktest.Server, _ *locktest.Link, k *Keeper) {
		require.NoError(t, k.Want("a"))
		time.Sleep(time.Second)
		k.mu.Lock()
		e := k.core.entries["a"]
		k.mu.Unlock()
		k.contextEnded(e, new(lock.Held))
		time.Sleep(time.Second)
		require.Zero(t, k.Stats().Lost)
		require.Equal(t, 1, k.Stats().Kept)
	})
}

// A count may have begun before the change that it should count. Then one more count follows, and only
// one.
func TestSharersAreCountedAgainAfterACountThatMayBeTooOld(t *testing.T) {
	keeping(t, Config{Share: "set"}, func(t *testing.T, srv *locktest.Server, link *locktest.Link, k *Keeper) {
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, k.Stats().Sharers)
		counted := func() int { return link.Calls()["ttl"] }
		before := counted()
		k.share.countNow()
		time.Sleep(time.Second)
		each := counted() - before
		require.NotZero(t, each)

		srv.SetDelay(100 * time.Millisecond)
		before = counted()
		k.share.countNow()
		time.Sleep(50 * time.Millisecond) // it is under way
		k.share.countNow()
		k.share.countNow()
		time.Sleep(10 * time.Second)
		require.Equal(t, 2*each, counted()-before)
		srv.SetDelay(0)
	})
}

// A name rests for up to an hour, and its timer would keep it in memory.
func TestADroppedNameHasNoTimer(t *testing.T) {
	keeping(t, Config{}, func(t *testing.T, srv *locktest.Server, _ *locktest.Link, k *Keeper) {
		fixture.LockAll(t, srv.Client(lock.Config{}), []string{"a", "b", "c"})
		require.NoError(t, k.Want("a", "b", "c"))
		time.Sleep(time.Second)
		require.Equal(t, 3, k.Stats().Waiting)
		require.Equal(t, 3, k.wheel.Len())
		k.Drop("a", "b")
		require.Equal(t, 1, k.wheel.Len())
	})
}
