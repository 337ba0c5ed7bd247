package redistest

import (
	"io"
	"os/exec"
	"runtime"
	"time"
)

// child is one life of a server process.
type child struct {
	// immutable
	cmd *exec.Cmd
	pid int

	done chan struct{} // closed when the process is gone and its output read
	err  error         // what it ended with; readable after done
}

// fork starts the program, in a process group of its own.
func fork(path string, args []string, output io.Writer) (*child, error) {
	c := &child{cmd: exec.Command(path, args...), done: make(chan struct{})}
	c.cmd.Stdout = output
	c.cmd.Stderr = output
	c.cmd.SysProcAttr = processAttributes()
	// A server's own children, which write its files, hold the output open.
	c.cmd.WaitDelay = time.Second
	started := make(chan error, 1)
	go func() {
		// The child is to die with this process, but Linux ties that to the
		// thread that forked it. Never unlocked: the thread ends with this
		// goroutine, when the child is gone.
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		<-c.done
		return nil, err
	}
	c.pid = c.cmd.Process.Pid
	return c, nil
}

// kill ends the process and its children, and returns when the process is gone.
func (c *child) kill() {
	select {
	case <-c.done:
		// Its pid may be another's by now.
		return
	default:
	}
	killTree(c.cmd.Process)
	<-c.done
}

// terminate ends the process in good order, or by force if that takes too
// long, and returns when it is gone.
func (c *child) terminate() {
	select {
	case <-c.done:
		return
	default:
	}
	if terminate(c.cmd.Process) == nil {
		t := time.NewTimer(stopTimeout)
		defer t.Stop()
		select {
		case <-c.done:
			return
		case <-t.C:
		}
	}
	c.kill()
}
