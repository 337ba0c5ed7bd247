//go:build !unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// defaultGrace is the default of -grace. It is 0, because no signal tells a command to end.
const defaultGrace time.Duration = 0

// ending has the signals that end the wait for the lock.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM}

// passed has signals that are caught and not passed on. Ctrl-C reaches the command by
// itself, because the command shares the console. They are caught so that this process
// outlives the command.
var passed = ending

// resumed is not used here, because this system does not stop processes.
const resumed = syscall.Signal(0)

func listen(ch chan<- os.Signal, signals []os.Signal) { signal.Notify(ch, signals...) }

func outlivePipes() {}

func number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}

// child is a command. The processes that it starts are not known.
type child struct {
	process *os.Process
	events  chan event
	done    chan struct{} // closed when it has ended
}

// event is the end of the command.
type event struct {
	ended  bool
	status int
}

func startChild(path string, argv, env []string, files stdio) (*child, error) {
	process, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env, Files: []*os.File{files.in, files.out, files.err}})
	if err != nil {
		return nil, err
	}
	c := &child{process: process, events: make(chan event, 1), done: make(chan struct{})}
	go func() {
		status := statusLost
		if state, err := process.Wait(); err == nil {
			status = state.ExitCode()
		}
		close(c.done)
		c.events <- event{ended: true, status: status}
	}()
	return c, nil
}

func (c *child) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// terminate kills the command, because there is no way to tell every program to end.
func (c *child) terminate() { c.kill() }

func (c *child) kill() { _ = c.process.Kill() }

// barred is false, because a program cannot run as another user here.
func (c *child) barred() bool { return false }

func runsAsAnother(string) bool { return false }

// sentence returns what wheellock does to the command.
func (c *child) sentence(action, time.Duration) string { return "the command is killed" }

func (c *child) pass(os.Signal) {}

func (c *child) handleStop(event, func()) bool { return false }

func (c *child) close() {}
