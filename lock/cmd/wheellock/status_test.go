package main

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

// TestWhatAnAnswerOfRedisMeans: a lost lock is lost whatever Redis answered last, and wheellock does
// not say that Redis was silent if it answered.
func TestWhatAnAnswerOfRedisMeans(t *testing.T) {
	const said = redis.Error("MISCONF Redis is configured to save RDB snapshots")
	require.Equal(t, statusLost, statusOf(&lock.LostError{Name: "n", Reason: lock.TrustEnded, Err: said}))
	require.Equal(t, statusUnknown, statusOf(said))
	unknown := &lock.UnknownError{Op: "acquire", Name: "n", Err: said}
	require.Equal(t, statusUnknown, statusOf(unknown))
	require.Contains(t, plain(unknown), "MISCONF")
	require.NotContains(t, plain(unknown), "did not answer")
}

// Releasing takes up to 3 s. A lock whose lease ends meanwhile, because Redis does not answer, was held while
// the command ran.
func TestALossAfterTheCommandIsNoneOfTheCommand(t *testing.T) {
	safe := time.Now()
	lost := &lock.LostError{Name: "n", Reason: lock.TrustEnded}
	for _, c := range []struct {
		err    error
		isHeld bool
		now    time.Time
		want   bool
	}{
		{lost, true, safe.Add(-time.Second), true}, // Redis has said so
		{lost, true, safe, false},
		{lost, true, safe.Add(time.Second), false},
		{lost, false, safe.Add(time.Second), true},
		{nil, false, safe.Add(time.Second), false},
		{lock.ErrUnknown, true, safe.Add(-time.Second), false},
	} {
		require.Equal(t, c.want, isLostBefore(c.err, c.isHeld, safe, c.now), "%+v", c)
	}
}
