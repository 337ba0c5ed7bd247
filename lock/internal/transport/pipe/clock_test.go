package pipe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// TestALimitIsNeverBeforeTheTimeout: whatever samples came before, as long as the
// server's clock is not set, a request that takes less than its timeout is carried out,
// and after open none is.
func TestALimitIsNeverBeforeTheTimeout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		now := time.Now()
		ahead := span("ahead", 48*time.Hour) - 24*time.Hour
		server := func() time.Time { return now.Add(ahead).Truncate(time.Microsecond) }
		var c pipe.Clock
		limit, open := c.Limit(now, time.Second)
		require.Zero(t, limit)
		require.True(t, open.IsZero())
		for range rapid.IntRange(1, 8).Draw(t, "samples") {
			now = now.Add(span("pause", 2*time.Minute))
			sent := now
			now = now.Add(span("there", time.Second))
			said := server()
			now = now.Add(span("back", time.Second))
			require.LessOrEqual(t, c.Sample(sent, now, said, 0).Abs(), time.Microsecond, "nobody set it")

			now = now.Add(span("write", time.Minute))
			written, timeout := now, 100*time.Millisecond+span("timeout", 10*time.Second)
			limit, open := c.Limit(written, timeout)
			now = written.Add(timeout) // the last moment at which it may arrive
			require.GreaterOrEqual(t, limit, server().UnixMilli())
			now = open
			require.Greater(t, server().UnixMilli(), limit)
			now = written
		}
	})
}

func TestASampleThatTheEstimateExcludesReplacesIt(t *testing.T) {
	now := time.Now()
	for _, set := range []time.Duration{time.Hour, -time.Hour, 90 * time.Millisecond, -90 * time.Millisecond} {
		var c pipe.Clock
		require.Zero(t, c.Sample(now, now.Add(10*time.Millisecond), now, 0))
		off := c.Sample(now.Add(time.Second), now.Add(1020*time.Millisecond), now.Add(1010*time.Millisecond+set), 0)
		require.InDelta(t, set, off, float64(25*time.Millisecond))
		require.Equal(t, set > 0, off > 0)
		ahead, within, ok := c.Offset()
		require.True(t, ok)
		require.InDelta(t, set, ahead, float64(within)+1)
	}
}

// TestASuspensionOfThisMachineIsNoChangeOfTheServersClock: the estimate is replaced, but nobody is told. What
// the server's clock was set beside that is told.
func TestASuspensionOfThisMachineIsNoChangeOfTheServersClock(t *testing.T) {
	now := time.Now()
	const ms = time.Millisecond
	for _, test := range []struct {
		suspended uint64 // s
		set       time.Duration
		isTold    bool
	}{
		{120, 0, false},
		{120, 5 * time.Second, false}, // the clock of a machine that goes on is not exact
		{120, -5 * time.Second, false},
		{120, time.Minute, true},
		{120, -70 * time.Second, true},
		{120, -time.Hour, true},
		{120, -120 * time.Second, false}, // only this machine's clock was set
		{5, 0, false},
		{0, time.Minute, true},
	} {
		for _, duringQuestion := range []bool{false, true} {
			var c pipe.Clock
			before := func(at time.Time) time.Time { return bounded.BeforeSuspension(at, test.suspended) }
			slept := time.Duration(test.suspended) * time.Second
			require.Zero(t, c.Sample(before(now), before(now.Add(10*ms)), now.Add(5*ms-slept), 0))
			sent := now.Add(time.Second)
			if duringQuestion {
				sent = before(sent)
			}
			off := c.Sample(sent, now.Add(1010*ms), now.Add(1005*ms+test.set), 0)
			require.Equal(t, test.isTold, off != 0, "%+v: %v", test, off)
			limit, _ := c.Limit(now.Add(1010*ms), time.Second)
			require.InDelta(t, now.Add(2010*ms+test.set).UnixMilli(), limit, 12)
		}
	}
}

func TestTheShortestRoundTripOfTheLastMinuteCounts(t *testing.T) {
	now := time.Now()
	var c pipe.Clock
	ask := func(after, took time.Duration) time.Duration {
		sent := now.Add(after)
		require.Zero(t, c.Sample(sent, sent.Add(took), sent.Add(took/2), 0))
		_, within, _ := c.Offset()
		return 2 * within
	}
	require.Equal(t, 8*time.Millisecond, ask(0, 8*time.Millisecond))
	require.Equal(t, 2*time.Millisecond, ask(time.Second, 2*time.Millisecond))
	require.Equal(t, 2*time.Millisecond, ask(30*time.Second, 8*time.Millisecond), "a longer one says less")
	require.Equal(t, 8*time.Millisecond, ask(62*time.Second, 8*time.Millisecond), "but clocks drift")
}

func TestAClockIsAskedOnceAMinute(t *testing.T) {
	now := time.Now()
	var c pipe.Clock
	require.False(t, c.Due(now.Add(time.Hour)), "one that did not tell at first")
	c.NoteQuestionSent(now)
	c.Sample(now, now, now, 0)
	require.False(t, c.Due(now.Add(59*time.Second)))
	require.True(t, c.Due(now.Add(time.Minute)))
	c.NoteQuestionSent(now.Add(time.Minute))
	require.False(t, c.Due(now.Add(time.Minute)), "the answer may be lost")
}
