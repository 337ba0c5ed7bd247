//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

// started is the command holding locks for hours, in a process of its own.
func started(t *testing.T, address string, stderr *fixture.Log) *exec.Cmd {
	t.Helper()
	cmd := command(t, "-redis", address, "-locks", "50", "-drivers", "wheel-batch", "-lease", "1h", "-duration", "10h")
	cmd.Stderr = stderr
	// As from a terminal, a signal then goes to the row's process as well.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) // where it hangs, if it does
			time.Sleep(time.Second)
			t.Log(stderr.String())
		}
	})
	return cmd
}

func requireExit(t *testing.T, code int, err error) {
	t.Helper()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	require.Equal(t, code, exit.ExitCode())
}

func TestCtrlCReleasesTheLocksAndSaysSo(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := fixture.RedisOrMini(t)
			var stderr fixture.Log
			cmd := started(t, srv.Addr(), &stderr)
			awaitKeys(t, srv, 50)
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, sig))
			requireExit(t, exitInterrupted, cmd.Wait())
			require.Contains(t, stderr.String(), "interrupted, releasing the locks")
			require.Contains(t, stderr.String(), "50 locks released")
			require.Empty(t, fixture.LockKeys(t, srv))
		})
	}
}

// childOf returns the process that the process pid has started, or 0.
func childOf(t *testing.T, pid int) (child int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // the process may have ended
		_, state, _ := strings.Cut(string(text), ") ")
		if words := strings.Fields(state); len(words) > 1 && words[1] == strconv.Itoa(pid) {
			child, err = strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
		}
	}
	return child
}

// TestASignalToARowAloneEndsTheRun too. It is not told whether a signal comes to this process as well.
func TestASignalToARowAloneEndsTheRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it finds the row's process in /proc")
	}
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	var stderr fixture.Log
	cmd := started(t, srv.Addr(), &stderr)
	awaitKeys(t, srv, 50)
	row := childOf(t, cmd.Process.Pid)
	require.NotZero(t, row)
	require.NoError(t, syscall.Kill(row, syscall.SIGTERM))
	requireExit(t, exitInterrupted, cmd.Wait())
	require.Contains(t, stderr.String(), "50 locks released")
	require.Empty(t, fixture.LockKeys(t, srv))
}

// With the server stopped there is nothing that a first signal could wait for.
func TestSecondCtrlCQuitsAtOnce(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	var stderr fixture.Log
	cmd := started(t, srv.Addr(), &stderr)
	awaitKeys(t, srv, 50)
	require.NoError(t, srv.Pause())
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "a second interrupt quits") }, waitLong, pollOften)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	requireExit(t, exitInterrupted, cmd.Wait())
	require.Contains(t, stderr.String(), "expire with their lease")
}

// A parent that is killed leaves a row that releases its locks by itself.
func TestRowReleasesItsLocksWhenItsParentDies(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	var stderr fixture.Log
	cmd := started(t, srv.Addr(), &stderr)
	awaitKeys(t, srv, 50)
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return len(fixture.LockKeys(t, srv)) == 0 }, waitLong, pollOften)
	requireExit(t, -1, cmd.Wait())
}
