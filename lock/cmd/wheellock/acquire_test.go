package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestASignalWinsAgainstTheLock if both come at once: the command is then not started.
func TestASignalWinsAgainstTheLock(t *testing.T) {
	for range 100 { // select chooses at random
		got, signals := make(chan takeResult, 1), make(chan os.Signal, 2)
		held := &lock.Held{}
		got <- takeResult{held: held}
		signals <- ending[1]
		signals <- ending[0]
		r, stop := awaitResult(got, signals, func() {})
		require.Same(t, held, r.held, "it must be released")
		require.Equal(t, ending[1], stop, "the first signal is the status")
	}
}

func TestALockWithoutASignalStartsTheCommand(t *testing.T) {
	got := make(chan takeResult, 1)
	got <- takeResult{err: lock.ErrUnknown}
	r, stop := awaitResult(got, nil, func() { t.Error("canceled") })
	require.ErrorIs(t, r.err, lock.ErrUnknown)
	require.Nil(t, stop)
}

// TestASignalAtTheGrantReleasesTheLock, so that another machine may run the command at once.
func TestASignalAtTheGrantReleasesTheLock(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	signals := make(chan os.Signal, 1)
	client := fixture.ClientOf(t, s, lock.Config{Hooks: lock.Hooks{Acquired: func(lock.Event) { signals <- ending[0] }}})
	p := newProgram(nil, stdio{})
	o, err := p.parseRun([]string{"-redis", s.URL(), "n", "--", "true"})
	require.NoError(t, err)
	_, err = p.acquire(client, o, &notices{say: p.say}, signals)
	require.ErrorContains(t, err, "the command was not run")
	require.Equal(t, statusSignal+number(ending[0]), statusOf(err))
	require.False(t, fixture.Exists(t, s, "n"))
}
