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

// defaultGrace is that of -grace, but at most a third of the lease.
const defaultGrace = 10 * time.Second

// ending are the signals that end the wait for the lock, as they would end a process.
var ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// passed are the signals that the command gets too.
var passed = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT,
}

// resumed is what makes a stopped command go on.
const resumed = syscall.SIGCONT

// suspendFor is how long a process that has suspended itself waits for SIGCONT: if it
// is still running then, there is no shell that would send it.
const suspendFor = 200 * time.Millisecond

// unheardFor is for how long a SIGTSTP counts as not heard. After that the command has
// heard it, and does not stop.
const unheardFor = time.Second

// listen makes signals come to ch. One that was ignored when wheellock was started
// stays ignored, as under nohup.
func listen(ch chan<- os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
}

// outlivePipes makes writes to a pipe that nobody reads fail, instead of ending this
// process: it has a command to look after. What it starts is not concerned.
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
	killer   syscall.Signal // what has ended it, 0 if it exited; written before the event that says so
	unheard  time.Time      // when it was sent a SIGTSTP that has not stopped it; zero if there is none
}

// event is a change of the command.
type event struct {
	ended  bool
	status int            // as a shell gives it, of an end
	signal syscall.Signal // that has stopped it
}

// startChild starts the command.
func startChild(path string, argv, env []string, files stdio) (*child, error) {
	c := &child{events: make(chan event), terminal: openTerminal()}
	started := make(chan error)
	go func() {
		// The command is to die with this process, but Linux ties that to the thread that
		// forked it. Never unlocked: the thread ends with the command.
		runtime.LockOSThread()
		process, err := os.StartProcess(path, argv, &os.ProcAttr{
			Env: env, Files: []*os.File{files.in, files.out, files.err}, Sys: attributes(),
		})
		if err == nil {
			c.pid = process.Pid
			_ = process.Release() // it tells of no stops
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
		c.send(resumed) // it may have asked for the terminal too early
	}
	// A message in the background of a terminal must not stop this process.
	signal.Ignore(syscall.SIGTTOU)
	return c, nil
}

// await tells of all that happens to the command.
func (c *child) await() {
	for {
		var w syscall.WaitStatus
		switch _, err := syscall.Wait4(c.pid, &w, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			panic(fmt.Sprintf("wheellock: bug: the command is not to be waited for: %v", err))
		case w.Stopped():
			c.events <- event{signal: w.StopSignal()}
		case w.Signaled():
			c.killer = w.Signal()
			c.events <- event{ended: true, status: statusSignal + int(w.Signal())}
			return
		case w.Exited():
			c.events <- event{ended: true, status: w.ExitStatus()}
			return
		}
	}
}

// send sends a signal to the command and all that it has started in its group.
func (c *child) send(s syscall.Signal) { _ = syscall.Kill(-c.pid, s) }

// alive reports whether anything of the command is left.
func (c *child) alive() bool { return syscall.Kill(-c.pid, 0) != syscall.ESRCH }

// barred reports whether what is left of the command runs as another user, so that no
// signal of this process reaches it.
func (c *child) barred() bool { return syscall.Kill(-c.pid, 0) == syscall.EPERM }

// runsAsAnother reports whether a program runs as another user than this process. Such a
// program can make itself one that this process may send no signal. Root may send any.
func runsAsAnother(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSetuid == 0 {
		return false
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	me := os.Geteuid()
	return ok && me != 0 && int(of.Uid) != me
}

// terminate tells it to end. One that is stopped hears it when it goes on.
func (c *child) terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

func (c *child) kill() { c.send(syscall.SIGKILL) }

// sentence says what is done to it.
func (c *child) sentence(do action, grace time.Duration) string {
	if do == kill {
		return "the command is killed"
	}
	return fmt.Sprintf("the command is told to end (SIGTERM) and killed in %v", grace)
}

// pass gives it a signal that came to this process. A command that stops to get the
// terminal has not heard a SIGTSTP that comes then, and SIGCONT takes that away: so it
// is sent again.
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
		c.unheard = time.Time{}
		c.send(syscall.SIGTSTP)
	}
}

// halted is called when the command was stopped. If it wants the terminal, it gets it.
// If it was suspended from there, this process suspends itself, for the shell that
// waits for it. It reports whether the command is to go on now. Who stops the command
// with SIGSTOP lets it go on with SIGCONT; the lock is kept.
func (c *child) halted(e event, suspending func()) bool {
	switch e.signal {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		c.terminal.wanted = true
		if c.terminal.give(c.pid) {
			return true
		}
	case syscall.SIGTSTP:
		c.unheard = time.Time{}
	default:
		return false
	}
	suspending()
	to := os.Getpid()
	if c.terminal.takeBack() {
		to = 0 // the command alone has heard of it, and not the rest of the shell's job
	}
	resume := make(chan os.Signal, 1)
	signal.Notify(resume, syscall.SIGCONT)
	defer signal.Stop(resume)
	// Not SIGTSTP, which Go does not give back, nor SIGSTOP, which stops a process that
	// no shell lets go on.
	_ = syscall.Kill(to, syscall.SIGTTIN)
	select {
	case <-resume:
	case <-time.After(suspendFor):
	}
	return true
}

// close takes the terminal back when the command has ended. Where Ctrl-C has ended it,
// it ends this process in the same way: a shell ends its script only then.
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
		to = 0 // the command alone has heard it from the terminal, and not the script
	}
	_ = syscall.Kill(to, syscall.SIGINT)
	time.Sleep(suspendFor) // it comes by then, unless it is ignored
}
