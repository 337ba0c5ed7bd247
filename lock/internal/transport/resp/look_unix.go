//go:build unix

package resp

import (
	"io"
	"net"
	"os"
	"syscall"
)

// descriptor reads a file descriptor without waiting. Only the goroutine that reads the connection
// uses it.
type descriptor struct {
	raw  syscall.RawConn
	read func(fd uintptr) // what tryRead calls; made once, so that a call allocates nothing

	// the argument and the results of read
	p   []byte
	n   int
	err error
}

// tryReadOf returns a function that reads what c has received, without waiting. It returns nil if c is
// no socket of package net, because a wrapper may read other bytes than its socket does.
func tryReadOf(c net.Conn) func(p []byte) (int, error) {
	var file syscall.Conn
	switch c := c.(type) {
	case *net.TCPConn:
		file = c
	case *net.UnixConn:
		file = c
	default:
		return nil
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	d := &descriptor{raw: raw}
	d.read = func(fd uintptr) {
		for d.err = syscall.EINTR; d.err == syscall.EINTR; {
			d.n, d.err = syscall.Read(int(fd), d.p) // does not block, because package net makes all sockets non-blocking
		}
	}
	return d.tryRead
}

func (d *descriptor) tryRead(p []byte) (int, error) {
	d.p = p
	// Control and not Read, because Read does nothing once the deadline has passed.
	err := d.raw.Control(d.read)
	d.p = nil
	switch {
	case err != nil:
		return 0, err
	case d.err == syscall.EAGAIN:
		return 0, nil
	case d.err != nil:
		return 0, os.NewSyscallError("read", d.err)
	case d.n == 0:
		return 0, io.EOF
	}
	return d.n, nil
}
