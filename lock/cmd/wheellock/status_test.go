package main

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

// TestWhatAnAnswerOfRedisMeans: a lost lock is lost whatever Redis answered last, and an
// answer is not called silence.
func TestWhatAnAnswerOfRedisMeans(t *testing.T) {
	const said = redis.Error("MISCONF Redis is configured to save RDB snapshots")
	require.Equal(t, statusLost, statusOf(&lock.LostError{Name: "n", Reason: lock.TrustEnded, Err: said}))
	require.Equal(t, statusUnknown, statusOf(said))
	unknown := &lock.UnknownError{Op: "acquire", Name: "n", Err: said}
	require.Equal(t, statusUnknown, statusOf(unknown))
	require.Contains(t, plain(unknown), "MISCONF")
	require.NotContains(t, plain(unknown), "did not answer")
}
