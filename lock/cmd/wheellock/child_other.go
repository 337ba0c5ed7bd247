//go:build !unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// defaultGrace is that of -grace: nothing tells the command to end.
const defaultGrace time.Duration = 0

// ending are the signals that end the wait for the lock.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM}

// passed are none: Ctrl-C reaches the command by itself, because it shares the
// console. They are caught so that this process outlives it.
var passed = ending

// resumed is of systems that stop processes.
const resumed = syscall.Signal(0)

func listen(ch chan<- os.Signal, signals []os.Signal) { signal.Notify(ch, signals...) }

func outlivePipes() {}

func number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}

// child is a command. What it starts itself is not known.
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

// terminate kills it, because there is no way to tell any program to end.
func (c *child) terminate() { c.kill() }

func (c *child) kill() { _ = c.process.Kill() }

// barred is of systems in which a program can run as another user.
func (c *child) barred() bool { return false }

func runsAsAnother(string) bool { return false }

// sentence says what is done to it.
func (c *child) sentence(action, time.Duration) string { return "the command is killed" }

func (c *child) pass(os.Signal) {}

func (c *child) halted(event, func()) bool { return false }

func (c *child) close() {}
