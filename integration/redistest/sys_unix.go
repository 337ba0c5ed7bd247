//go:build unix

package redistest

import (
	"os"
	"syscall"
)

func suspend(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitSuspended(pid)
}

func unsuspend(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

func terminate(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	// A suspended process takes SIGTERM only when it runs again.
	return p.Signal(syscall.SIGCONT)
}

func killTree(p *os.Process) {
	// The group is the server and the children that write its files.
	if syscall.Kill(-p.Pid, syscall.SIGKILL) != nil {
		_ = p.Kill()
	}
}
