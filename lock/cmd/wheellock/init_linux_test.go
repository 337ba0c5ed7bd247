package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
)

// asInit starts the call as process 1 of a new pid namespace, as in a container.
func (c *call) asInit(t *testing.T) {
	t.Helper()
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	}
	if err := c.Start(); err != nil {
		t.Skipf("no namespace of processes can be made here: %v", err)
	}
}

// childrenOf returns the states of the children of a process, by pid.
func childrenOf(t *testing.T, parent int) map[int]string {
	t.Helper()
	found := map[int]string{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if words := strings.Fields(rest); len(words) > 1 && words[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			found[pid] = words[0]
		}
	}
	return found
}

// TestAsProcess1ItReapsOrphans: in a container no other process does.
func TestAsProcess1ItReapsOrphans(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	w := wheellock(t, s.URL(), "run", "n", "--", "sh", "-c", "for i in 1 2 3; do (cat "+fifo+" &); done; cat; exit 9")
	in, err := w.StdinPipe()
	require.NoError(t, err)
	w.asInit(t)
	bounded.Until(t, func() bool { return len(childrenOf(t, w.Process.Pid)) == 4 }) // the shell, and the orphans
	ends, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, ends.Close()) // the orphans end
	bounded.Until(t, func() bool { return len(childrenOf(t, w.Process.Pid)) == 1 })
	require.NoError(t, in.Close())
	require.Equal(t, 9, w.status(t))
	require.Empty(t, w.stderr.String())
	require.False(t, fixture.Exists(t, s, "n"))
}

// TestAsProcess1ItDoesNotWaitForZombies: a process that has ended when it was told to is not taken for one
// that works on.
func TestAsProcess1ItDoesNotWaitForZombies(t *testing.T) {
	t.Parallel()
	for what, command := range map[string]string{
		"it ends first":     "sleep 1000 & exec sleep 1000",
		"an orphan is left": "(sleep 1000 &); exec sleep 1000",
		"one works on":      "(trap '' TERM; sleep 1000 &); exec sleep 1000",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			w := wheellock(t, s.URL(), "run", "-lease", "9s", "-grace", "2s", "n", "--", "sh", "-c", command)
			w.asInit(t)
			bounded.Until(t, func() bool { return len(childrenOf(t, w.Process.Pid)) > 0 && fixture.Exists(t, s, "n") })
			bounded.Until(t, func() bool { // all of it runs
				for pid := range childrenOf(t, w.Process.Pid) {
					text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
					if !strings.HasPrefix(string(text), "sleep") {
						return false
					}
				}
				return true
			})
			fixture.Do(t, s, "DEL", "n")
			require.Equal(t, statusLost, w.status(t))
			require.Contains(t, w.stderr.String(), "the command is told to end (SIGTERM)")
			require.Equal(t, what == "one works on", strings.Contains(w.stderr.String(), "has not ended by itself, so it is killed"), w.stderr)
		})
	}
}
