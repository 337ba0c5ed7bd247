package holders

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// holding starts a row of n locks, named s0, s1, ..., on a server of its own.
func holding(t *testing.T, driver string, n int, lease time.Duration) (*Holding, *redistest.Server) {
	t.Helper()
	srv := fixture.RedisOrMini(t)
	return holdingOn(t, OneServer(srv), driver, n, lease), srv
}

func holdingOn(t *testing.T, target *Target, driver string, n int, lease time.Duration) *Holding {
	t.Helper()
	d, ok := DriverNamed(driver)
	require.True(t, ok)
	h, err := Hold(d, target, "s", n, lease)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	for i := range n {
		require.NoError(t, h.Acquire(context.Background(), i))
	}
	return h
}

// eachDriver runs a test for every row that there is.
func eachDriver(t *testing.T, test func(t *testing.T, driver string)) {
	t.Helper()
	t.Parallel()
	for _, d := range Drivers() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			test(t, d.Name)
		})
	}
}

// keptUp runs a test that needs a machine which keeps all locks. A machine that is too busy for a
// short lease gets a longer one, so no test needs a fast machine. kept returns an error if a lock was
// lost, and the test fails if one is lost with the longest lease too.
func keptUp(t *testing.T, kept func(lease time.Duration) error) {
	t.Helper()
	var err error
	for _, lease := range []time.Duration{3 * time.Second, 20 * time.Second, time.Minute} {
		if err = kept(lease); err == nil {
			return
		}
		t.Logf("with a lease of %v: %v", lease, err)
	}
	require.NoError(t, err)
}

// releaseAll releases all locks of a row. It returns an error if one was lost.
func releaseAll(h *Holding, n int) (err error) {
	for i := range n {
		err = cmp.Or(err, h.Release(context.Background(), i))
	}
	if missed := h.Counters().Missed; missed > 0 {
		err = cmp.Or(err, fmt.Errorf("%d locks were missed", missed))
	}
	return err
}

// awaitRenewals waits until the row has this many renewals, or has missed a lock.
func awaitRenewals(t *testing.T, h *Holding, renewals int) {
	t.Helper()
	bounded.Until(t, func() bool {
		c := h.Counters()
		return c.Renewals >= uint64(renewals) || c.Missed > 0
	})
}

func TestEveryRowRenewsAllAndGivesAllBack(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 50
		keptUp(t, func(lease time.Duration) error {
			h, srv := holding(t, driver, n, lease)
			h.Begin()
			awaitRenewals(t, h, 3*n)
			live := h.CountHeld()
			if err := releaseAll(h, n); err != nil {
				return err
			}
			require.Equal(t, n, live)
			require.Zero(t, h.CountHeld())
			require.Empty(t, fixture.LockKeys(t, srv))
			return nil
		})
	})
}

func TestEveryRowSeesThatALockIsGone(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 10
		h, srv := holding(t, driver, n, 3*time.Second)
		_, err := fixture.Dial(t, srv).Do("DEL", "s3", "s4")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return h.CountHeld() == n-2 }, time.Minute, 10*time.Millisecond)
		require.ErrorIs(t, h.Release(context.Background(), 3), lock.ErrLost)
		require.NoError(t, h.Release(context.Background(), 5))
	})
}

// A row that cannot renew must be seen to miss, and to give up.
func TestEveryRowMissesItsLocksWhenTheServerIsGone(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 10
		h, srv := holding(t, driver, n, 3*time.Second) // none is lost before it stops
		require.NoError(t, srv.Kill())
		require.Eventually(t, func() bool { return h.Counters().Missed == n }, time.Minute, 10*time.Millisecond)
		require.Eventually(t, func() bool { return h.CountHeld() == 0 }, time.Minute, 10*time.Millisecond)
	})
}

func TestEveryRowGoesOnWhenTheServerForgetsTheScripts(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 10
		keptUp(t, func(lease time.Duration) error {
			h, srv := holding(t, driver, n, lease)
			awaitRenewals(t, h, n)
			_, err := fixture.Dial(t, srv).Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
			h.Begin()
			awaitRenewals(t, h, 2*n)
			return releaseAll(h, n)
		})
	})
}

// A server that stands still makes every row late, whatever the row's plan was: its
// last request was written before, and the next one is answered after. A row is late by
// the time of standing still, less an interval.
func TestEveryRowThatIsMadeLateOnPurposeShowsIt(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n, lease = 10, 6 * time.Second
		h, srv := holding(t, driver, n, lease)
		require.Eventually(t, func() bool { return h.Counters().Renewals >= n }, time.Minute, 10*time.Millisecond)
		require.NoError(t, srv.Pause())
		h.Begin()
		stands := lease/3 + lease/6
		time.Sleep(stands)
		require.NoError(t, srv.Resume())
		require.Eventually(t, func() bool {
			c := h.Counters()
			return c.Renewals+uint64(c.Missed) >= n
		}, time.Minute, 10*time.Millisecond)
		if c := h.Counters(); c.Missed == 0 { // a machine that is busy enough makes it later still
			require.GreaterOrEqual(t, c.P50, lease/6*95/100, "every lock was late; the histogram is to 1 in 100")
		}
	})
}

// Later than trust lasts is not late but missed.
func TestEveryRowThatIsTooLateShowsIt(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n, lease = 10, 3 * time.Second
		h, srv := holding(t, driver, n, lease)
		require.NoError(t, srv.Pause())
		time.Sleep(lease + time.Second) // so that even a driver that is late sees the end before the next answer
		require.NoError(t, srv.Resume())
		require.Eventually(t, func() bool { return h.CountHeld() == 0 }, time.Minute, 10*time.Millisecond)
		require.Equal(t, n, h.Counters().Missed)
	})
}
