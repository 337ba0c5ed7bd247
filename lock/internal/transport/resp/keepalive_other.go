//go:build !linux

package resp

import (
	"net"
	"time"
)

// probesAfter does not know, because every system has its own way to ask.
func probesAfter(*net.TCPConn) (idle time.Duration, known bool) { return 0, false }
