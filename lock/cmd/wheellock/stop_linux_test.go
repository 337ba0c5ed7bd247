package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
)

// isStopped reports whether a signal has stopped a process.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	return strings.HasPrefix(string(text[strings.LastIndexByte(string(text), ')'):]), ") T")
}

// beating starts a run whose command beats, and returns the file of its beats and its pid.
func beating(t *testing.T, url string, attr *syscall.SysProcAttr, args ...string) (w *call, file string, pid int) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "beats")
	w = wheellock(t, url, append(append([]string{"run"}, args...), "--", "sh", "-c", `echo $$ > "$1.pid"; exec "$0" beat "$1"`, executable(t), file)...)
	w.SysProcAttr = attr
	require.NoError(t, w.Start())
	awaitBeats(t, file)
	text, err := os.ReadFile(file + ".pid")
	require.NoError(t, err)
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	return w, file, pid
}

// TestACommandThatAnotherHasStoppedKeepsItsLock: whoever stops the command by its pid lets it go on by
// its pid, and does not let wheellock go on. A shell would notice that a group of its session is stopped.
// Where there is no shell, the group is orphaned, and the command must not go on by itself.
func TestACommandThatAnotherHasStoppedKeepsItsLock(t *testing.T) {
	t.Parallel()
	for name, attr := range map[string]*syscall.SysProcAttr{"job of a shell": {Setpgid: true}, "orphaned": {Setsid: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			w, file, pid := beating(t, s.URL(), attr, "-lease", "9s", "n")
			held := fixture.Hash(t, s, "n")
			require.NoError(t, syscall.Kill(pid, syscall.SIGTSTP))
			bounded.Until(t, func() bool { return isStopped(t, pid) })
			before := len(beats(t, file))
			began := time.Now()
			bounded.Until(t, func() bool { return time.Since(began) > 10*time.Second }) // more than a lease
			require.Equal(t, before, len(beats(t, file)), "it has gone on by itself")
			require.False(t, isStopped(t, w.Process.Pid))
			require.Equal(t, held, fixture.Hash(t, s, "n"))
			require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
			bounded.Until(t, func() bool { return len(beats(t, file)) > before })
			require.NoError(t, w.Process.Signal(syscall.SIGTERM))
			require.Equal(t, statusSignal+int(syscall.SIGTERM), w.status(t))
			require.Empty(t, w.stderr.String())
		})
	}
}

// TestAStopThatComesThroughUsSuspendsUsToo, though the command never had the terminal: a shell waits
// until its job has stopped.
func TestAStopThatComesThroughUsSuspendsUsToo(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w, file, pid := beating(t, s.URL(), &syscall.SysProcAttr{Setpgid: true}, "-lease", "10m", "n")
	for range 2 {
		require.NoError(t, w.Process.Signal(syscall.SIGTSTP))
		bounded.Until(t, func() bool { return isStopped(t, w.Process.Pid) && isStopped(t, pid) })
		before := len(beats(t, file))
		require.NoError(t, w.Process.Signal(syscall.SIGCONT))
		bounded.Until(t, func() bool { return len(beats(t, file)) > before })
	}
	require.NoError(t, w.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignal+int(syscall.SIGTERM), w.status(t))
	require.Contains(t, w.stderr.String(), "n: suspended, so the lock is not renewed")
}

// TestASuspensionThatIsSentAgainCountsAsOne: SIGCONT removes a SIGTSTP that the command has not received yet.
func TestASuspensionThatIsSentAgainCountsAsOne(t *testing.T) {
	t.Parallel()
	ignores := exec.CommandContext(bounded.Context(t), executable(t), "beat", filepath.Join(t.TempDir(), "beats"))
	ignores.Env = append(os.Environ(), mainEnv+"=1")
	ignores.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // orphaned, so SIGTSTP does not stop it
	require.NoError(t, ignores.Start())
	c := &child{pid: ignores.Process.Pid, terminal: &terminal{fd: -1}}
	require.False(t, c.wasSuspended())
	c.pass(syscall.SIGTSTP)
	require.True(t, c.wasSuspended())
	c.pass(syscall.SIGCONT)
	require.True(t, c.wasSuspended())
	c.unheard = c.unheard.Add(-suspendWithin)
	require.False(t, c.wasSuspended(), "the command has ignored it")
	c.terminal.given = true
	require.True(t, c.wasSuspended(), "it may be Ctrl-Z")
	require.NoError(t, ignores.Process.Kill())
	require.Error(t, ignores.Wait())
}
