//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// unread returns a full pipe that is not read, as by a pager that waits or a log driver that blocks.
func unread(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	require.NoError(t, syscall.Pipe(ends[:]))
	for _, fd := range ends {
		syscall.CloseOnExec(fd)
	}
	in, out := os.NewFile(uintptr(ends[0]), "unread"), os.NewFile(uintptr(ends[1]), "full")
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	require.NoError(t, syscall.SetNonblock(ends[1], true))
	for _, size := range []int{4096, 1} {
		for err := error(nil); err == nil; {
			_, err = syscall.Write(ends[1], make([]byte, size))
		}
	}
	require.NoError(t, syscall.SetNonblock(ends[1], false))
	return out
}

// deserted returns a pipe whose reader has gone.
func deserted(t *testing.T) *os.File {
	t.Helper()
	in, out, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, in.Close())
	t.Cleanup(func() { out.Close() })
	return out
}

// unheard runs f with a standard error that is not read: a full pipe, and a pipe whose reader has gone.
func unheard(t *testing.T, f func(t *testing.T, stderr *os.File)) {
	for name, stderr := range map[string]func(*testing.T) *os.File{"full": unread, "closed": deserted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, stderr(t))
		})
	}
}

func TestADeletionEndsTheCommandThoughNobodyReads(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"obeys", "ignores SIGTERM"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			unheard(t, func(t *testing.T, stderr *os.File) {
				s := fixture.Server(t)
				file := filepath.Join(t.TempDir(), "beats")
				w := wheellock(t, s.URL(), "run", "-lease", "9s", "-grace", "200ms", "n", "--", "sh", "-c", workers[how], executable(t), file)
				w.Stderr = stderr
				require.NoError(t, w.Start())
				awaitBeats(t, file)
				fixture.Do(t, s, "DEL", "n")
				require.Equal(t, statusLost, w.status(t))
			})
		})
	}
}

func TestASilenceEndsTheCommandThoughNobodyReads(t *testing.T) {
	t.Parallel()
	unheard(t, func(t *testing.T, stderr *os.File) {
		s := fixture.Server(t)
		p := fixture.Proxy(t, s, nil)
		file := filepath.Join(t.TempDir(), "beats")
		w := wheellock(t, "redis://"+p.Addr(), "run", "-lease", "9s", "n", "--", "sh", "-c", workers["ignores SIGTERM"], executable(t), file)
		w.Stderr = stderr
		require.NoError(t, w.Start())
		awaitBeats(t, file)
		p.BlackHole()
		held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex("n").Lock)
		before := len(beats(t, file))
		require.Equal(t, statusLost, w.status(t))
		require.Len(t, beats(t, file), before, "it did not run beside the next holder")
		require.NoError(t, held.Unlock(bounded.Context(t)))
	})
}

func TestSIGTERMIsPassedOnThoughNobodyReads(t *testing.T) {
	t.Parallel()
	unheard(t, func(t *testing.T, stderr *os.File) {
		s := fixture.Server(t)
		// sh itself says on its standard error that sleep was terminated.
		ready := filepath.Join(t.TempDir(), "ready")
		w := wheellock(t, s.URL(), "run", "-lease", "10m", "n", "--", "sh", "-c", `exec 2>&-; trap "exit 3" TERM; : > "$0"; while :; do sleep 0.01; done`, ready)
		w.Stderr = stderr
		require.NoError(t, w.Start())
		bounded.Until(t, func() bool { _, err := os.Stat(ready); return err == nil })
		require.NoError(t, s.Kill())
		require.NoError(t, w.Process.Signal(syscall.SIGTERM))
		require.Equal(t, 3, w.status(t))
	})
}

func TestSIGTERMEndsTheWaitThoughNobodyReads(t *testing.T) {
	t.Parallel()
	unheard(t, func(t *testing.T, stderr *os.File) {
		s := fixture.RedisOrMini(t)
		fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex("n").Lock)
		w := wheellock(t, s.URL(), "run", "-wait", "forever", "n", "--", "true")
		w.Stderr = stderr
		require.NoError(t, w.Start())
		fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{n}", 1)
		require.NoError(t, w.Process.Signal(syscall.SIGTERM))
		require.Equal(t, statusSignal+int(syscall.SIGTERM), w.status(t))
	})
}

func TestTheStatusComesThoughNobodyReads(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex("held").Lock)
	for name, c := range map[string]struct {
		status int
		url    string
		args   []string
	}{
		"its own":      {7, s.URL(), []string{"run", "n", "--", "sh", "-c", "exit 7"}},
		"not acquired": {statusNotAcquired, s.URL(), []string{"run", "held", "--", "true"}},
		"unknown":      {statusUnknown, "redis://127.0.0.1:1", []string{"run", "n", "--", "true"}},
		"usage":        {statusUsage, s.URL(), []string{"run"}},
		"not found":    {statusNotFound, s.URL(), []string{"run", "n", "--", "no-such-command-anywhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unheard(t, func(t *testing.T, stderr *os.File) {
				args := slices.Clone(c.args)
				if i := slices.Index(args, "n"); i >= 0 {
					args[i] = t.Name() // others run beside it
				}
				w := wheellock(t, c.url, args...)
				w.Stderr = stderr
				require.Equal(t, c.status, w.run(t))
				require.False(t, fixture.Exists(t, s, t.Name()), "the lock was released")
			})
		})
	}
}
