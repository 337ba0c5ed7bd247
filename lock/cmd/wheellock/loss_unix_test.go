//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// workers are scripts that beat into the file "$1". They differ in how they can be ended.
var workers = map[string]string{
	"obeys":                      `exec "$0" beat "$1"`,
	"ignores SIGTERM":            `exec "$0" beat "$1" ignore`,
	"is stopped":                 `"$0" beat "$1" & while kill -0 $! && [ ! -s "$1" ]; do :; done; kill -STOP $$; wait`,
	"works in the background":    `"$0" beat "$1" ignore & wait`,
	"has left its work behind":   `"$0" beat "$1" ignore & exec sleep 1000`,
	"ends and leaves work there": `trap 'exit 5' TERM; "$0" beat "$1" ignore & wait`,
}

// TestACommandIsEndedBeforeAnotherCanHaveTheLock: the network to Redis is cut, and
// another client waits for the lock.
func TestACommandIsEndedBeforeAnotherCanHaveTheLock(t *testing.T) {
	t.Parallel()
	for how, command := range workers {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			p := fixture.Proxy(t, s, nil)
			file := filepath.Join(t.TempDir(), "beats")
			w := wheellock(t, "redis://"+p.Addr(), "run", "-lease", "6s", "-grace", "1s", "n", "--", "sh", "-c", command, executable(t), file)
			require.NoError(t, w.Start())
			awaitBeats(t, file)
			other := fixture.ClientOf(t, s, lock.Config{})
			taken := make(chan time.Time, 1)
			go func() {
				held, err := other.Mutex("n").Lock(bounded.Context(t))
				taken <- time.Now()
				if err != nil {
					t.Error(err)
					return
				}
				_ = held.Unlock(bounded.Context(t))
			}()
			p.BlackHole()
			at := bounded.Receive(t, taken)
			require.Equal(t, statusLost, w.status(t))
			all := beats(t, file)
			require.True(t, all[len(all)-1].Before(at), "it beat %v after another had the lock", all[len(all)-1].Sub(at))
			require.Contains(t, w.stderr.String(), "Redis does not renew the lock")
		})
	}
}

func TestACommandWhoseLockIsDeletedIsEnded(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	for how, command := range workers {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "beats")
			name := strings.ReplaceAll(how, " ", "-")
			w := wheellock(t, s.URL(), "run", "-lease", "9s", "-grace", "200ms", name, "--", "sh", "-c", command, executable(t), file)
			require.NoError(t, w.Start())
			awaitBeats(t, file)
			fixture.Do(t, s, "DEL", name)
			require.Equal(t, statusLost, w.status(t))
			require.Contains(t, w.stderr.String(), "wheellock: "+name+": the lock is lost (not the owner any more): the command is told to end (SIGTERM)")
			n := len(beats(t, file))
			require.NoError(t, exec.CommandContext(t.Context(), "sleep", "0.05").Run())
			require.Len(t, beats(t, file), n, "nothing of it works on")
		})
	}
}

// TestACommandOfARedisThatHangsIsEnded: while Redis stands still, the lease runs out.
func TestACommandOfARedisThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	file := filepath.Join(t.TempDir(), "beats")
	w := wheellock(t, s.URL(), "run", "-lease", "9s", "n", "--", "sh", "-c", workers["ignores SIGTERM"], executable(t), file)
	require.NoError(t, w.Start())
	awaitBeats(t, file)
	require.NoError(t, s.Pause())
	require.Equal(t, statusLost, w.status(t))
	require.Contains(t, w.stderr.String(), "it is killed")
}

// TestACommandThatIsThroughBeforeItsTrustEndsHasItsOwnStatus: Redis is gone, but the
// command had the lock all the time.
func TestACommandThatIsThroughBeforeItsTrustEndsHasItsOwnStatus(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	w, in := holding(t, s, "-lease", "10m", "n")
	require.NoError(t, s.Kill())
	require.NoError(t, in.Close())
	require.Zero(t, w.status(t))
	require.Contains(t, w.stderr.String(), "was not released")
}

// TestALossThatIsFoundAtTheEndIsTold: no renewal came between the loss and the end of the command.
func TestALossThatIsFoundAtTheEndIsTold(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w, in := holding(t, s, "-lease", "10m", "n")
	fixture.Do(t, s, "DEL", "n")
	require.NoError(t, in.Close())
	require.Equal(t, statusLost, w.status(t))
	w.requireOneLine(t, "lost", "another may have run", "the status of the command was 0")
}

// TestAStoppedCommandKeepsItsLock: it may go on later.
func TestAStoppedCommandKeepsItsLock(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w := wheellock(t, s.URL(), "run", "-lease", "6s", "n", "--", "sh", "-c", `echo $$ >&2; kill -STOP $$; echo on`)
	var stderr fixture.Log
	w.Stderr = &stderr
	require.NoError(t, w.Start())
	bounded.Until(t, func() bool { return strings.HasSuffix(stderr.String(), "\n") })
	held, began := fixture.Hash(t, s, "n"), time.Now()
	bounded.Until(t, func() bool { return time.Since(began) > 7*time.Second }) // more than a lease
	require.NotEmpty(t, held)
	require.Equal(t, held, fixture.Hash(t, s, "n"))
	require.NoError(t, w.Process.Signal(syscall.SIGCONT), "which is passed on")
	require.Zero(t, w.status(t))
	require.Equal(t, "on\n", w.stdout.String())
}

// TestAForcedUnlockEndsTheCommand of the holder.
func TestAForcedUnlockEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	w, _ := holding(t, s, "-lease", "9s", "n")
	force := wheellock(t, s.URL(), "unlock", "-force", "n")
	require.Zero(t, force.run(t), force.stderr)
	require.Equal(t, "n: unlocked\n", force.stdout.String())
	require.Equal(t, statusLost, w.status(t))
	force = wheellock(t, s.URL(), "unlock", "n", "-force")
	require.Zero(t, force.run(t))
	require.Equal(t, "n: was free\n", force.stdout.String())
}
