package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitSuspended waits until a process that was sent SIGSTOP has taken it: on
// another core it may run on for a moment.
func awaitSuspended(pid int) error {
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// pid (name) state ...; the name may hold anything, also brackets.
		if _, after, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") ")); ok && len(after) > 0 && after[0] == 'T' {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d does not stop", pid)
}
