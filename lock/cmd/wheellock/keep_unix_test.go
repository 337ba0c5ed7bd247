//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
)

// TestAShortCommandKeepsTheLock, so that a machine whose clock is behind does not run it again.
func TestAShortCommandKeepsTheLock(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	run := func(args ...string) int {
		return wheellock(t, s.URL(), append([]string{"run", "-quiet", "-lease", "9s"}, args...)...).run(t)
	}
	began := time.Now()
	require.Equal(t, 7, run("-keep", "20s", "n", "--", "sh", "-c", "exit 7"))
	require.Less(t, time.Since(began), 15*time.Second, "nobody waits for it")
	left := fixture.PTTL(t, s, "n")
	require.LessOrEqual(t, left, int64(20_000+1))
	require.Greater(t, left, (20*time.Second-time.Since(began)).Milliseconds()-1)
	require.Equal(t, statusNotAcquired, run("-keep", "20s", "n", "--", "true"))
	fixture.Do(t, s, "PEXPIRE", "n", 1)
	bounded.Until(t, func() bool { return !fixture.Exists(t, s, "n") })
	require.Zero(t, run("n", "--", "true"))
	require.False(t, fixture.Exists(t, s, "n"), "without -keep it is released")
}

// TestAShortKeepShortensTheLease: others need not wait for the rest of it.
func TestAShortKeepShortensTheLease(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	w := wheellock(t, s.URL(), "run", "-lease", "1h", "-keep", "1m", "n", "--", "true")
	require.Zero(t, w.run(t), w.stderr)
	left := fixture.PTTL(t, s, "n")
	require.Positive(t, left)
	require.LessOrEqual(t, left, int64(60_001))
}

func TestWhatTookLongerThanKeepIsReleased(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	w, in := holding(t, s, "-keep", "50ms", "n")
	time.Sleep(100 * time.Millisecond) // -keep counts from when it was taken
	require.NoError(t, in.Close())
	require.Zero(t, w.status(t))
	require.False(t, fixture.Exists(t, s, "n"))
}

func TestALostLockIsNotKept(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	w, in := holding(t, s, "-keep", "1h", "n")
	fixture.Do(t, s, "DEL", "n")
	require.NoError(t, in.Close())
	require.Equal(t, statusLost, w.status(t))
	require.False(t, fixture.Exists(t, s, "n"))
	w.requireOneLine(t, "the lock was lost while the command ran")
}

func TestALockThatMayNotBeKeptIsToldOf(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	p := fixture.Proxy(t, s, nil)
	w, in := holdingAt(t, "redis://"+p.Addr(), "-keep", "1h", "n")
	p.BlackHole()
	require.NoError(t, in.Close())
	require.Zero(t, w.status(t), "the command had the lock")
	said := strings.Split(strings.TrimSuffix(w.stderr.String(), "\n"), "\n")
	require.Contains(t, said[len(said)-1], "wheellock: n: the command has ended, but it is not known whether the lock is kept for 1h0m0s")
	require.Contains(t, strings.Join(said[:len(said)-1], "\n"), "Redis did not answer in time", "that is said before, as it happens")
}

// TestACommandThatCannotBeStartedKeepsNothing: another machine may be able to start it.
func TestACommandThatCannotBeStartedKeepsNothing(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	w := wheellock(t, s.URL(), "run", "-keep", "1h", "n", "--", script(t, "echo\n", 0o755))
	require.Equal(t, statusNotRunnable, w.run(t))
	require.False(t, fixture.Exists(t, s, "n"))
}
