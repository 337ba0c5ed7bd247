package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
)

// console is a pseudo-terminal. A test types at its master. shows has the text that the terminal shows.
type console struct {
	master, slave *os.File
	shows         fixture.Log
}

func newConsole(t *testing.T) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	var n, unlock int32
	raw, err := master.SyscallConn() // Fd would make reads block for ever
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		_, _, unlocked := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock)))
		_, _, numbered := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPTN, uintptr(unsafe.Pointer(&n)))
		require.Zero(t, unlocked|numbered)
	}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	c := &console{master: master, slave: slave}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(&c.shows, master)
	}()
	t.Cleanup(func() {
		_ = slave.Close()
		_ = master.Close()
		bounded.Receive(t, shown)
	})
	return c
}

// start starts w in a session of its own, as a shell of the console would be.
func (c *console) start(t *testing.T, w *call) {
	t.Helper()
	w.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	w.Stdin, w.Stderr = c.slave, c.slave
	if _, piped := w.Stdout.(*fixture.Log); !piped {
		w.Stdout = c.slave
	}
	require.NoError(t, w.Start())
}

func (c *console) awaits(t *testing.T, text string) {
	t.Helper()
	bounded.Until(t, func() bool { return strings.Contains(c.shows.String(), text) })
}

func (c *console) types(t *testing.T, text string) {
	t.Helper()
	_, err := c.master.WriteString(text)
	require.NoError(t, err)
}

// suspends types Ctrl-Z until the script says that its command is suspended. A Ctrl-Z may be lost if
// the command has stopped to read, has got the terminal, and does not go on yet: SIGCONT then removes
// the SIGTSTP, and wheellock does not hear of it.
func (c *console) suspends(t *testing.T) {
	t.Helper()
	const again = 20 * time.Second
	c.types(t, "\x1a")
	typed := time.Now()
	bounded.Until(t, func() bool {
		if time.Since(typed) > again {
			c.types(t, "\x1a")
			typed = time.Now()
		}
		return strings.Contains(c.shows.String(), "suspended\r\n")
	})
}

func TestACommandMayReadFromTheTerminal(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	w := inShell(t, fixture.RedisOrMini(t).URL(), `"$0" run n -- sh -c 'echo name?; read x; echo "hello $x"'; read y; echo "back in the script: $y"`)
	c.start(t, w)
	c.awaits(t, "name?")
	c.types(t, "you\n")
	c.awaits(t, "hello you")
	c.types(t, "me\n")
	c.awaits(t, "back in the script: me")
	require.Zero(t, w.status(t))
}

// TestACommandOfAPipelineGetsTheTerminalWhenItReads, and not before: other commands of
// the pipeline may want it too.
func TestACommandOfAPipelineGetsTheTerminalWhenItReads(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	w := inShell(t, fixture.RedisOrMini(t).URL(), `"$0" run n -- sh -c 'read x; echo "hello $x"'`)
	var stdout fixture.Log
	w.Stdout = &stdout
	c.start(t, w)
	c.types(t, "you\n")
	require.Zero(t, w.status(t))
	require.Equal(t, "hello you\n", stdout.String())
}

func TestCtrlCReachesTheCommand(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"the terminal", "a pipe"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t)
			w := inShell(t, fixture.RedisOrMini(t).URL(), `trap : INT; "$0" run n -- sh -c 'trap "exit 5" INT; echo ready >&2; while :; do sleep 0.01; done'; exit $?`)
			if to == "a pipe" {
				w.Stdout = &fixture.Log{}
			}
			c.start(t, w)
			c.awaits(t, "ready")
			c.types(t, "\x03")
			require.Equal(t, 5, w.status(t))
		})
	}
}

// TestCtrlCEndsTheScriptToo, as it does without wheellock: a shell goes on only if its
// command has handled Ctrl-C.
func TestCtrlCEndsTheScriptToo(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"the terminal", "a pipe"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t)
			w := inShell(t, fixture.RedisOrMini(t).URL(), `"$0" run n -- sh -c 'echo ready >&2; while :; do sleep 0.01; done'; echo went on >&2; exit 9`)
			if to == "a pipe" {
				w.Stdout = &fixture.Log{}
			}
			c.start(t, w)
			c.awaits(t, "ready")
			c.types(t, "\x03")
			require.Equal(t, -1, w.status(t))
			require.NotContains(t, c.shows.String(), "went on")
		})
	}
}

// TestCtrlZSuspendsTheCommandAndUs, and fg lets both go on.
func TestCtrlZSuspendsTheCommandAndUs(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"", " | cat"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t)
			w := inShell(t, fixture.RedisOrMini(t).URL(), `set -m; "$0" run n -- sh -c 'echo ready >&2; read x; echo "hello $x"'`+to+`; echo suspended; fg; echo ended`)
			c.start(t, w)
			c.awaits(t, "ready")
			c.suspends(t)
			require.Contains(t, c.shows.String(), "n: suspended, so the lock is not renewed")
			c.types(t, "you\n")
			c.awaits(t, "hello you")
			c.awaits(t, "ended")
			require.Zero(t, w.status(t))
		})
	}
}

// TestALockThatIsLostWhileSuspendedEndsTheCommand before it goes on.
func TestALockThatIsLostWhileSuspendedEndsTheCommand(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	s := fixture.RedisOrMini(t)
	w := inShell(t, s.URL(), `set -m; "$0" run -lease 4s n -- sh -c 'echo ready; read x; echo "hello $x"'; echo suspended; read y; fg; echo "status $?"`)
	c.start(t, w)
	c.awaits(t, "ready")
	c.suspends(t)
	fixture.AwaitGone(t, s, "n")
	c.types(t, "go on\n")
	c.awaits(t, "status 121")
	require.Zero(t, w.status(t))
	require.NotContains(t, c.shows.String(), "\nhello")
}
