package run

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// eachDriver runs a test for every row that there is.
func eachDriver(t *testing.T, test func(t *testing.T, driver string)) {
	t.Helper()
	for _, d := range Drivers() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			test(t, d.Name)
		})
	}
}

func TestEveryRowRenewsAllAndGivesAllBack(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 50
		h, srv := holding(t, driver, n, 3*time.Second)
		h.Begin()
		require.Eventually(t, func() bool { return h.Counters().Renewals >= 3*n }, time.Minute, 10*time.Millisecond)
		require.Equal(t, n, h.Live())
		for i := range n {
			require.NoError(t, h.Release(context.Background(), i))
		}
		require.Zero(t, h.Live())
		require.Empty(t, fixture.LockKeys(t, srv))
		require.Zero(t, h.Counters().Missed, "a lock that was released is not missed")
	})
}

func TestEveryRowSeesThatALockIsGone(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 10
		h, srv := holding(t, driver, n, 3*time.Second)
		_, err := fixture.Dial(t, srv).Do("DEL", "s3", "s4")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return h.Live() == n-2 }, time.Minute, 10*time.Millisecond)
		require.ErrorIs(t, h.Release(context.Background(), 3), lock.ErrLost)
		require.NoError(t, h.Release(context.Background(), 5))
	})
}

// A row that cannot renew must be seen to miss, and to give up.
func TestEveryRowMissesItsLocksWhenTheServerIsGone(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 10
		h, srv := holding(t, driver, n, 600*time.Millisecond)
		require.NoError(t, srv.Kill())
		require.Eventually(t, func() bool { return h.Counters().Missed == n }, time.Minute, 10*time.Millisecond)
		require.Eventually(t, func() bool { return h.Live() == 0 }, time.Minute, 10*time.Millisecond)
	})
}

func TestEveryRowGoesOnWhenTheServerForgetsTheScripts(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver string) {
		const n = 10
		h, srv := holding(t, driver, n, 6*time.Second)
		require.Eventually(t, func() bool { return h.Counters().Renewals >= n }, time.Minute, 10*time.Millisecond)
		_, err := fixture.Dial(t, srv).Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		h.Begin()
		require.Eventually(t, func() bool { return h.Counters().Renewals >= 2*n }, time.Minute, 10*time.Millisecond)
		require.Equal(t, n, h.Live())
	})
}

// A server that stands still makes every row late by what it stood still for
// beyond an interval, whatever the row's plan was: its last request was written
// before, and the next one is answered after.
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
		const n, lease = 10, time.Second
		h, srv := holding(t, driver, n, lease)
		require.NoError(t, srv.Pause())
		time.Sleep(lease)
		require.NoError(t, srv.Resume())
		require.Eventually(t, func() bool { return h.Live() == 0 }, time.Minute, 10*time.Millisecond)
		require.Equal(t, n, h.Counters().Missed)
	})
}

// What the meter says is what a slow and obvious count of the answers says.
func TestMeterCountsWhatItIsShown(t *testing.T) {
	t.Parallel()
	const lease = time.Hour
	m, err := newMeter("p:", 4, 1, lease)
	require.NoError(t, err)
	take := func(i int) {
		r := m.read("EVALSHA", acquireArgs(fmt.Sprintf("p:%d", i)))
		m.answered(0, r, []any{int64(1), int64(0)}, nil)
	}
	for i := range 3 {
		take(i)
	}
	renew := func(reply any, err error, names ...string) {
		m.answered(0, m.read("EVALSHA", renewArgs(names...)), reply, err)
	}
	renew([]any{}, nil, "p:0", "p:1", "p:2")
	renew([]any{int64(2)}, nil, "p:0", "p:1")                                  // p:1 is gone
	renew([]any{[]any{int64(1), redis.Error("OOM")}}, nil, "p:0", "p:2")       // p:0 is refused
	renew([]any{}, nil, "p:1")                                                 // gone for good
	renew([]any{}, nil, "p:3", "p:9", "p:x", "other:0")                        // never taken, or not ours
	renew(nil, redis.Error("LOADING"), "p:0")                                  // unknown
	renew([]any{}, nil, "p:0")                                                 // was refused, but is held
	m.asked[0] -= lease                                                        // its trust has ended
	renew([]any{}, nil, "p:0")                                                 // too late
	m.asked[2] -= lease/3 + time.Minute                                        // a minute late
	renew([]any{}, nil, "p:2")                                                 //
	m.answered(0, m.read("EVALSHA", releaseArgs("p:2")), []any{int64(1)}, nil) // no more
	renew([]any{}, nil, "p:2")
	require.Nil(t, m.read("EVALSHA", []any{"another script", 1, "p:0"}))
	require.Nil(t, m.read("GET", []any{"p:0", 1, 2}))
	c := m.Counters()
	require.Equal(t, uint64(3+1+1+1+1), c.Renewals)
	require.Equal(t, 1, c.Missed)
	require.InEpsilon(t, float64(time.Minute), float64(c.Max), 0.02)
	m.Begin()
	require.Zero(t, m.Counters().Renewals)
	require.Equal(t, 1, m.Counters().Missed, "what is missed counts since the acquisition")
}
