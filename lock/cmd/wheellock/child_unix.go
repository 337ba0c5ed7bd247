//go:build unix

package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// defaultGrace is the default of -grace. A third of the lease is used if it is less.
const defaultGrace = 10 * time.Second

// ending has the signals that end the wait for the lock. By default they end a process.
var ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// passed has the signals that are passed on to the command.
var passed = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT,
}

// resumed makes a stopped command go on.
const resumed = syscall.SIGCONT

// suspendFor is how long this process waits for SIGCONT after it has suspended itself. If
// it still runs then, there is no shell that would send SIGCONT.
const suspendFor = 200 * time.Millisecond

// unheardFor is how long the command may take to stop after a SIGTSTP. After that the
// command has received the signal and does not stop.
const unheardFor = time.Second

// suspendWithin is how long after a SIGTSTP that this process has passed on a stop counts as its
// effect. Many commands tidy up before they stop, and the machine may be busy.
const suspendWithin = 10 * time.Second

// listen makes signals come to ch. SIGHUP and SIGINT stay ignored if they were when wheellock was
// started, as under nohup. The Go runtime has replaced the other ignored signals before main, so nothing
// can tell that they were ignored, and the command gets their default actions.
func listen(ch chan<- os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
}

// outlivePipes keeps this process alive when it writes to a pipe whose reader has gone. The
// write fails, and the process goes on. The command that it guards still gets SIGPIPE.
func outlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}

// child is a command in a process group of its own, with all that it starts.
type child struct {
	pid      int
	events   chan event // its stops, and at last its end
	terminal *terminal
	killer   syscall.Signal // the signal that ended the command, 0 if it exited; written before the event of its end
	unheard  time.Time      // when a SIGTSTP was sent that has not yet stopped the command; zero if there is none
}

// event says that the command has ended, or that a signal has stopped it.
type event struct {
	ended  bool
	status int            // as a shell gives it, if the command has ended
	signal syscall.Signal // the signal that has stopped the command
}

// startChild starts the command.
func startChild(path string, argv, env []string, files stdio) (*child, error) {
	c := &child{events: make(chan event), terminal: openTerminal()}
	started := make(chan error)
	go func() {
		// The command must die with this process, but Linux ties the death of the command to
		// the thread that forked it. The thread is never unlocked, so it ends with the command.
		runtime.LockOSThread()
		process, err := os.StartProcess(path, argv, &os.ProcAttr{
			Env: env, Files: []*os.File{files.in, files.out, files.err}, Sys: attributes(),
		})
		if err == nil {
			c.pid = process.Pid
			_ = process.Release() // os.Process does not report stops
		}
		started <- err
		if err == nil {
			c.await()
		}
	}()
	if err := <-started; err != nil {
		c.terminal.close()
		return nil, err
	}
	if c.terminal.isOf(files.in) && c.terminal.isOf(files.out) && c.terminal.give(c.pid) {
		c.send(resumed) // the command may have stopped, because it read from the terminal too early
	}
	// A message in the background of a terminal must not stop this process.
	signal.Ignore(syscall.SIGTTOU)
	return c, nil
}

// await sends each event of the command to c.events. Process 1 of a container is also the
// parent of orphaned processes. await reaps them until none is left, because alive would
// otherwise count processes that have ended.
func (c *child) await() {
	of := c.pid
	if os.Getpid() == 1 {
		of = -1
	}
	for ended := false; !ended || of == -1; {
		var w syscall.WaitStatus
		switch pid, err := syscall.Wait4(of, &w, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err == syscall.ECHILD && ended:
			return
		case err != nil:
			panic(fmt.Sprintf("wheellock: bug: wait4 of the command: %v", err))
		case pid != c.pid || ended:
		case w.Stopped():
			c.events <- event{signal: w.StopSignal()}
		case w.Signaled():
			ended, c.killer = true, w.Signal()
			c.events <- event{ended: true, status: statusSignal + int(w.Signal())}
		case w.Exited():
			ended = true
			c.events <- event{ended: true, status: w.ExitStatus()}
		}
	}
}

// send sends a signal to the process group of the command.
func (c *child) send(s syscall.Signal) { _ = syscall.Kill(-c.pid, s) }

// alive reports whether the process group of the command has a process left.
func (c *child) alive() bool { return syscall.Kill(-c.pid, 0) != syscall.ESRCH }

// barred reports whether all that is left of the command runs as another user. This process
// may then send it no signal.
func (c *child) barred() bool { return syscall.Kill(-c.pid, 0) == syscall.EPERM }

// runsAsAnother reports whether a program runs as another user than this process. This process
// may not be allowed to send a signal to such a program. Root may send a signal to any program.
func runsAsAnother(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSetuid == 0 {
		return false
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	me := os.Geteuid()
	return ok && me != 0 && int(of.Uid) != me
}

// terminate tells the command to end. A stopped command receives SIGTERM only after SIGCONT.
func (c *child) terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

func (c *child) kill() { c.send(syscall.SIGKILL) }

// sentence returns what wheellock does to the command.
func (c *child) sentence(do action, grace time.Duration) string {
	if do == kill {
		return "the command is killed"
	}
	return fmt.Sprintf("the command is told to end (SIGTERM) and killed in %v", grace)
}

// pass sends a signal that came to this process on to the command. If the command has
// stopped to get the terminal, it does not receive a SIGTSTP, and the next SIGCONT removes
// that SIGTSTP. So pass sends the SIGTSTP again.
func (c *child) pass(s os.Signal) {
	switch s {
	case syscall.SIGTSTP:
		c.unheard = time.Now()
	case syscall.SIGCONT:
		if c.terminal.wanted {
			c.terminal.give(c.pid)
		}
	}
	c.send(s.(syscall.Signal))
	if s == syscall.SIGCONT && time.Since(c.unheard) < unheardFor {
		c.send(syscall.SIGTSTP)
	}
}

// handleStop is called when the command was stopped. If the command wants the terminal, handleStop
// gives it the terminal. If the command was suspended from the terminal, this process
// suspends itself too, because a shell waits for that. handleStop reports whether the command
// must go on now. It does nothing if another process has stopped the command: the sender lets
// the command go on with SIGCONT, and would not let this process go on. So the lock is kept.
func (c *child) handleStop(e event, suspending func()) bool {
	switch e.signal {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		c.terminal.wanted = true
		if c.terminal.give(c.pid) {
			return true
		}
	case syscall.SIGTSTP:
		if !c.wasSuspended() {
			return false
		}
		c.unheard = time.Time{}
	default:
		return false
	}
	suspending()
	to := os.Getpid()
	if c.terminal.takeBack() {
		to = 0 // only the command got Ctrl-Z, and not the rest of the shell's job
	}
	resume := make(chan os.Signal, 1)
	signal.Notify(resume, syscall.SIGCONT)
	defer signal.Stop(resume)
	// Not SIGTSTP: Go cannot restore its default. Not SIGSTOP: it would also stop a process
	// that no shell lets go on.
	_ = syscall.Kill(to, syscall.SIGTTIN)
	select {
	case <-resume:
	case <-time.After(suspendFor):
	}
	return true
}

// wasSuspended reports whether a SIGTSTP that has stopped the command came from the terminal or from
// this process. While the command has the terminal, any SIGTSTP counts as Ctrl-Z.
func (c *child) wasSuspended() bool {
	return c.terminal.given || time.Since(c.unheard) < suspendWithin
}

// close takes the terminal back when the command has ended. If Ctrl-C has ended the
// command, close ends this process in the same way, because a shell ends its script only
// then.
func (c *child) close() {
	given := c.terminal.takeBack()
	interrupted := c.killer == syscall.SIGINT && c.terminal.foreground()
	c.terminal.close()
	if !interrupted {
		return
	}
	signal.Reset(syscall.SIGINT)
	to := os.Getpid()
	if given {
		to = 0 // the terminal sent SIGINT only to the command, and not to the script
	}
	_ = syscall.Kill(to, syscall.SIGINT)
	time.Sleep(suspendFor) // the signal comes by then, unless it is ignored
}
