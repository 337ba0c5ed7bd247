//go:build unix

package faults

import (
	"os"
	"syscall"
)

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func unsuspend(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
