//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// script writes a file to be run, and returns its path.
func script(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(name, []byte(text), mode))
	return name
}

func TestStatusIsTheCommandsOwn(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	for _, c := range []struct {
		status  int
		command []string
	}{
		{0, []string{"true"}},
		{7, []string{"sh", "-c", "exit 7"}},
		{120, []string{"sh", "-c", "exit 120"}},
		{255, []string{"sh", "-c", "exit 255"}},
		{statusSignal + 15, []string{"sh", "-c", "kill -TERM $$"}},
		{statusSignal + 9, []string{"sh", "-c", "kill -KILL $$"}},
		{statusSignal + 2, []string{"sh", "-c", "kill -INT $$"}},
	} {
		t.Run(strings.Join(c.command, " "), func(t *testing.T) {
			t.Parallel()
			name := t.Name()
			w := wheellock(t, s.URL(), append([]string{"run", name, "--"}, c.command...)...)
			require.Equal(t, c.status, w.run(t))
			require.Empty(t, w.stderr.String())
			require.False(t, fixture.Exists(t, s, name), "the lock was released")
		})
	}
}

func TestWhatCannotBeRunIsToldAsAShellDoes(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	dir := t.TempDir()
	for _, c := range []struct {
		status  int
		command string
		says    string
	}{
		{statusNotFound, "no-such-command-anywhere", "not found"},
		{statusNotFound, filepath.Join(dir, "nothing"), "not found"},
		{statusNotFound, script(t, "#!/no/such/interpreter\n", 0o755), "interpreter"},
		{statusNotRunnable, script(t, "#!/bin/sh\n", 0o644), "permission denied"},
		{statusNotRunnable, script(t, "echo\n", 0o755), "#!/bin/sh"},
		{statusNotRunnable, dir, "directory"},
	} {
		w := wheellock(t, s.URL(), "run", "n", "--", c.command)
		require.Equal(t, c.status, w.run(t))
		w.requireOneLine(t, c.command, c.says)
		require.False(t, fixture.Exists(t, s, "n"))
	}
	file := script(t, "#!/bin/sh\n", 0o644)
	w := wheellock(t, s.URL(), "run", "n", "--", filepath.Base(file))
	w.Env = append(w.Env, "PATH="+filepath.Dir(file))
	require.Equal(t, statusNotRunnable, w.run(t), "in PATH, and not executable")

	// It is found out before Redis is asked.
	w = wheellock(t, "redis://127.0.0.1:1", "run", "n", "--", dir)
	require.Equal(t, statusNotRunnable, w.run(t))
}

func TestCommandGetsItsEnvironmentAndOurFiles(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w := wheellock(t, s.URL(), "run", "n", "--", "sh", "-c", `echo "$WHEELLOCK_NAME $WHEELLOCK_TOKEN $WHEELLOCK_HOLDER $MINE"; cat; echo err >&2`)
	w.Env = append(w.Env, "MINE=1", "WHEELLOCK_NAME=of another", "WHEELLOCK_TOKEN=0")
	w.Stdin = strings.NewReader("in\n")
	require.Zero(t, w.run(t))
	words := strings.Fields(w.stdout.String())
	require.Len(t, words, 5)
	require.Equal(t, "n", words[0])
	token, err := strconv.ParseInt(words[1], 10, 64)
	require.NoError(t, err)
	require.Positive(t, token)
	require.Len(t, words[2], 36)
	require.Equal(t, []string{"1", "in"}, words[3:])
	require.Equal(t, "err\n", w.stderr.String())
}

// holding starts a run whose command lives until its standard input ends, and waits until the command has begun.
func holding(t *testing.T, s *redistest.Server, args ...string) (*call, io.Closer) {
	t.Helper()
	return holdingAt(t, s.URL(), args...)
}

func holdingAt(t *testing.T, url string, args ...string) (*call, io.Closer) {
	t.Helper()
	began := filepath.Join(t.TempDir(), "began")
	w := wheellock(t, url, append(append([]string{"run"}, args...), "--", "sh", "-c", `: > "$0"; exec cat`, began)...)
	in, err := w.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	// The key does not tell, because it exists before its holder knows.
	bounded.Until(t, func() bool { _, err := os.Stat(began); return err == nil })
	return w, in
}

func TestOnlyOneRunsAtATime(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	first, in := holding(t, s, "-label", "web-1", "n")
	second := wheellock(t, s.URL(), "run", "n", "--", "true")
	require.Equal(t, statusNotAcquired, second.run(t))
	second.requireOneLine(t, "n:", "another (web-1) has the lock", "-wait", "wheellock inspect n", "lease")
	second = wheellock(t, s.URL(), "run", "-quiet", "n", "--", "true")
	require.Equal(t, statusNotAcquired, second.run(t))
	require.Empty(t, second.stderr.String())
	second = wheellock(t, s.URL(), "run", "-wait", "2s", "n", "--", "true")
	require.Equal(t, statusNotAcquired, second.run(t))
	second.requireOneLine(t, "after 2s another (web-1) still has the lock", "wheellock inspect n")

	third := wheellock(t, s.URL(), "run", "-wait", "forever", "n", "--", "echo", "mine")
	require.NoError(t, third.Start())
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{n}", 1)
	require.NoError(t, in.Close())
	require.Zero(t, first.status(t))
	require.Zero(t, third.status(t))
	require.Equal(t, "mine\n", third.stdout.String())
}

func TestAQuietRunAsksNobodyWhoHasTheLock(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex("n").Lock)
	scripts := func(args ...string) (calls int) {
		fixture.Do(t, s, "CONFIG", "RESETSTAT")
		w := wheellock(t, s.URL(), append(append([]string{"run"}, args...), "n", "--", "true")...)
		require.Equal(t, statusNotAcquired, w.run(t), w.stderr)
		stats, err := s.Info("commandstats")
		require.NoError(t, err)
		_, err = fmt.Sscanf(stats["cmdstat_evalsha"], "calls=%d,", &calls)
		require.NoError(t, err)
		return calls
	}
	scripts()                                        // it loads them
	require.Greater(t, scripts(), scripts("-quiet")) // cron starts many quiet runs
}

func TestARunInsideOneOfTheSameLockIsToldSo(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w := wheellock(t, s.URL(), "run", "n", "--", executable(t), "run", "n", "--", "true")
	require.Equal(t, statusNotAcquired, w.run(t))
	w.requireOneLine(t, "runs under the same lock")
}

func TestManyRunsExcludeEachOther(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	dir := filepath.Join(t.TempDir(), "taken")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 3 {
				w := wheellock(t, s.URL(), "run", "-wait", "forever", "n", "--", "sh", "-c", `mkdir "$0" && sleep 0.01 && rmdir "$0"`, dir)
				if err := w.Run(); err != nil {
					t.Errorf("%v: %s", err, w.stderr)
				}
			}
		})
	}
	bounded.Wait(t, &wg)
}

func TestLocksOfOtherLibrariesAreRespected(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	fixture.Do(t, s, "SET", "n", "x", "PX", 600_000)
	w := wheellock(t, s.URL(), "run", "n", "--", "true")
	require.Equal(t, statusNotAcquired, w.run(t))
	w.requireOneLine(t, "another library")
	fixture.Do(t, s, "SET", "n", "x")
	w = wheellock(t, s.URL(), "run", "n", "--", "true")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "another name")
}

func TestRedisThatDoesNotAnswerIsToldFromALockThatIsHeld(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	for _, args := range [][]string{{"run", "n", "--", "true"}, {"inspect", "n"}, {"unlock", "-force", "n"}} {
		w := wheellock(t, "redis://127.0.0.1:1", args...)
		require.Equal(t, statusUnknown, w.run(t))
		w.requireOneLine(t, "127.0.0.1:1")
		require.Empty(t, w.stdout.String())
	}
	w := wheellock(t, "redis://127.0.0.1:1", "run", "-wait", "50ms", "n", "--", "true")
	require.Equal(t, statusUnknown, w.run(t))
	require.Contains(t, w.stderr.String(), "127.0.0.1:1")
	require.NoError(t, s.Pause())
	w = wheellock(t, s.URL(), "run", "-lease", "2s", "n", "--", "true")
	require.Equal(t, statusUnknown, w.run(t))
	require.NoError(t, s.Resume())
	locked := fixture.Start(t, redistest.Options{Password: "s3cret"})
	w = wheellock(t, "redis://:wr0ng@"+locked.Addr(), "run", "n", "--", "true")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "WRONGPASS")
	require.NotContains(t, w.stderr.String(), "wr0ng")
}

// trapping is a script that says when it is ready, and then which signal it got.
const trapping = `for s in HUP INT QUIT USR1 USR2 TERM; do trap "echo $s; exit 3" $s; done; echo ready >&2; while :; do sleep 0.01; done`

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(sig) {
				t.Skip("this test was started with the signal ignored, as by nohup")
			}
			w := wheellock(t, s.URL(), "run", name, "--", "sh", "-c", trapping)
			var stderr fixture.Log
			w.Stderr = &stderr
			require.NoError(t, w.Start())
			bounded.Until(t, func() bool { return strings.Contains(stderr.String(), "ready") })
			require.NoError(t, w.Process.Signal(sig))
			require.Equal(t, 3, w.status(t))
			require.Equal(t, name+"\n", w.stdout.String())
			require.NotContains(t, stderr.String(), "wheellock")
			require.False(t, fixture.Exists(t, s, name))
		})
	}
}

func TestSignalsReachWhatTheCommandHasStarted(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	file := filepath.Join(t.TempDir(), "beats")
	w := wheellock(t, s.URL(), "run", "n", "--", "sh", "-c", `trap "wait; exit 4" TERM; "$0" beat "$1" & wait`, executable(t), file)
	require.NoError(t, w.Start())
	awaitBeats(t, file)
	require.NoError(t, w.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 4, w.status(t), "the one in the background has ended, or sh would wait for it")
}

// TestACommandThatIgnoresSIGTERMKeepsItsLock: the sender of SIGTERM decides what to do next.
func TestACommandThatIgnoresSIGTERMKeepsItsLock(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w := wheellock(t, s.URL(), "run", "-lease", "6s", "-grace", "0", "n", "--", "sh", "-c", `trap "" TERM; echo ready >&2; cat`)
	var stderr fixture.Log
	w.Stderr = &stderr
	in, err := w.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	bounded.Until(t, func() bool { return strings.Contains(stderr.String(), "ready") })
	held := fixture.Hash(t, s, "n")
	require.NoError(t, w.Process.Signal(syscall.SIGTERM))
	began := time.Now()
	bounded.Until(t, func() bool { return time.Since(began) > 7*time.Second }) // more than a lease
	require.Equal(t, held, fixture.Hash(t, s, "n"))
	require.NoError(t, in.Close())
	require.Zero(t, w.status(t))
}

func TestSIGTERMEndsTheWait(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex("n").Lock)
	w := wheellock(t, s.URL(), "run", "-wait", "forever", "n", "--", "echo", "run")
	require.NoError(t, w.Start())
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{n}", 1)
	require.NoError(t, w.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignal+int(syscall.SIGTERM), w.status(t))
	w.requireOneLine(t, "terminated", "not run")
	require.Empty(t, w.stdout.String())
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Empty(t, fixture.LockKeys(t, s))
}

// TestOtherIgnoredSignalsHaveTheirDefaultAction, as the manual says, and a shell ignores them again.
func TestOtherIgnoredSignalsHaveTheirDefaultAction(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	for name, sig := range map[string]syscall.Signal{"PIPE": syscall.SIGPIPE, "TERM": syscall.SIGTERM} {
		ignore := fmt.Sprintf(`trap "" %s; `, name)
		w := inShell(t, s.URL(), ignore+fmt.Sprintf(`exec "$0" run n -- sh -c 'kill -%s $$'`, name))
		require.Equal(t, statusSignal+int(sig), w.run(t))
		w = wheellock(t, s.URL(), "run", "n", "--", "sh", "-c", fmt.Sprintf(`%s exec sh -c 'kill -%s $$'`, ignore, name))
		require.Zero(t, w.run(t))
	}
}

// TestAnIgnoredHangUpStaysIgnored, as nohup wants it.
func TestAnIgnoredHangUpStaysIgnored(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w := inShell(t, s.URL(), `trap "" HUP; exec "$0" run n -- cat`)
	in, err := w.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	bounded.Until(t, func() bool { return fixture.Exists(t, s, "n") })
	require.NoError(t, w.Process.Signal(syscall.SIGHUP))
	_, err = in.Write([]byte("still here\n"))
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.Zero(t, w.status(t))
	require.Equal(t, "still here\n", w.stdout.String())
}
