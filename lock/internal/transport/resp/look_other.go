//go:build !unix

package resp

import "net"

// tryReadOf returns nil, because on this system a socket is not read without waiting.
func tryReadOf(net.Conn) func(p []byte) (int, error) { return nil }
