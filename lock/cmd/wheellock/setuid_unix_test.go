//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
)

// nobody is the id of the user nobody, who may send no signal to a process of root.
const nobody = 65534

// rootsOwn returns a copy of a program that runs as root, whoever starts it (setuid). The test is
// skipped if it cannot be made.
func rootsOwn(t *testing.T, program string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a program that runs as root")
	}
	file := filepath.Join(openDir(t), "program")
	copied(t, program, file)
	require.NoError(t, os.Chmod(file, 0o755|os.ModeSetuid))
	return file
}

// openDir returns a folder that every user may use.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o777)) // which is the test's own, too
	return dir
}

// copied copies a program with cp. If this process wrote the file, a process that is forked meanwhile would
// inherit it open, and a program that is open for writing cannot be run.
func copied(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cp", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Chmod(to, 0o755))
}

// asNobody makes the user nobody start the command.
func (c *call) asNobody(t *testing.T) *call {
	t.Helper()
	dir := openDir(t)
	exe := filepath.Join(dir, "wheellock")
	copied(t, c.Path, exe)
	c.Path, c.Dir = exe, dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return c
}

// TestACommandThatRunsAsAnotherUserIsRefused: wheellock could not end it when the lock is lost.
func TestACommandThatRunsAsAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	program := rootsOwn(t, "/bin/sleep")
	w := wheellock(t, "redis://127.0.0.1:1", "run", "n", "--", program, "1").asNobody(t)
	require.Equal(t, statusNotRunnable, w.run(t), w.stderr)
	w.requireOneLine(t, program, "runs as another user", "sudo wheellock run")
}

// TestRootMayRunACommandOfAnotherUser: root may end every process.
func TestRootMayRunACommandOfAnotherUser(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	program := rootsOwn(t, "/bin/true")
	require.NoError(t, os.Chown(program, nobody, nobody))
	require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
	require.Zero(t, wheellock(t, s.URL(), "run", "n", "--", program).run(t))
}

// TestACommandThatMayNotBeEndedIsToldOf: a process of the command runs as root, so no
// signal of wheellock reaches it. wheellock does not say that it was ended.
func TestACommandThatMayNotBeEndedIsToldOf(t *testing.T) {
	t.Parallel()
	program := rootsOwn(t, executable(t))
	s := fixture.Server(t)
	for name, command := range map[string]string{
		"itself":           `exec "$0" beat "$1" root`,
		"what-it-started":  `"$0" beat "$1" root & wait`,
		"what-it-did-last": `trap '' TERM; "$0" beat "$1" root; exit 5`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(openDir(t), "beats")
			w := wheellock(t, s.URL(), "run", "-lease", "9s", "-grace", "200ms", name, "--", "sh", "-c", command, program, file).asNobody(t)
			said := &fixture.Log{}
			w.Stderr = said
			require.NoError(t, w.Start())
			awaitBeats(t, file)
			pid := pidOf(t, file)
			defer syscall.Kill(pid, syscall.SIGKILL)

			fixture.Do(t, s, "DEL", name)
			bounded.Until(t, func() bool { return strings.Contains(said.String(), "may not be ended") })
			n := len(beats(t, file))
			bounded.Until(t, func() bool { return len(beats(t, file)) > n+10 }) // beside the next holder
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			require.Equal(t, statusLost, w.status(t))
			require.Equal(t, 1, strings.Count(said.String(), "may not be ended"), said)
			require.Contains(t, said.String(), "sudo wheellock run")
		})
	}
}

func TestASignalThatCannotBePassedOnIsToldOf(t *testing.T) {
	t.Parallel()
	program := rootsOwn(t, executable(t))
	s := fixture.RedisOrMini(t)
	file := filepath.Join(openDir(t), "beats")
	w := wheellock(t, s.URL(), "run", "n", "--", "sh", "-c", `exec "$0" beat "$1" root`, program, file).asNobody(t)
	said := &fixture.Log{}
	w.Stderr = said
	require.NoError(t, w.Start())
	awaitBeats(t, file)
	require.NoError(t, w.Process.Signal(syscall.SIGTERM))
	bounded.Until(t, func() bool { return strings.Contains(said.String(), "terminated was not passed on") })
	pid := pidOf(t, file)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Equal(t, statusSignal+9, w.status(t))
}

// pidOf returns the pid of the process that has become root and beats into file.
func pidOf(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file + ".pid")
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return pid
}

// becomeRoot makes root the real user of a process that has root's rights by setuid.
func becomeRoot() {
	if err := syscall.Setreuid(0, 0); err != nil {
		panic(err)
	}
}
