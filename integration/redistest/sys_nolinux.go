//go:build unix && !linux

package redistest

import "syscall"

// processAttributes cannot ask here for the child's death with ours.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitSuspended has no portable way to ask; SIGSTOP is taken within
// microseconds.
func awaitSuspended(int) error { return nil }
