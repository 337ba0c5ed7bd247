//go:build !unix

package redistest

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr { return nil }

func suspend(int) error { return fmt.Errorf("%w on %s", ErrNotSupported, runtime.GOOS) }

func unsuspend(int) error { return fmt.Errorf("%w on %s", ErrNotSupported, runtime.GOOS) }

// terminate fails, so that the caller kills.
func terminate(*os.Process) error { return fmt.Errorf("%w on %s", ErrNotSupported, runtime.GOOS) }

func killTree(p *os.Process) { _ = p.Kill() }
