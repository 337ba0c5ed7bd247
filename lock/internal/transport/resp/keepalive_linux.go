package resp

import (
	"net"
	"syscall"
	"time"
)

// probesAfter returns how long c is idle before TCP probes it, if TCP does. known is false if the system
// does not tell.
func probesAfter(c *net.TCPConn) (idle time.Duration, known bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		seconds, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		idle, known = time.Duration(seconds)*time.Second, err == nil
	})
	return idle, known
}
