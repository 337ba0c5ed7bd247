//go:build linux || darwin

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminal is the terminal that this process belongs to. Its foreground is the process
// group that may read from the terminal, and gets Ctrl-C and Ctrl-Z.
type terminal struct {
	fd     int  // -1: there is none
	own    int  // the process group of this process
	given  bool // the command's group is the foreground
	wanted bool // whenever this process is the foreground, the command gets it
}

func openTerminal() *terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &terminal{fd: fd, own: syscall.Getpgrp()}
}

// isOf reports whether a file is the terminal.
func (t *terminal) isOf(f *os.File) bool {
	_, ok := groupOf(int(f.Fd()))
	return t.fd >= 0 && ok
}

// foreground reports whether this process is in the foreground.
func (t *terminal) foreground() bool {
	group, ok := groupOf(t.fd)
	return ok && group == t.own
}

// give makes a group the foreground if this process is the foreground. It reports whether
// the command's group is the foreground now.
func (t *terminal) give(group int) bool {
	if !t.foreground() {
		return t.given
	}
	t.wanted = true
	t.given = setGroup(t.fd, group)
	return t.given
}

// takeBack undoes give, and reports whether there was anything to undo. SIGTTOU must be
// ignored by then.
func (t *terminal) takeBack() bool {
	given := t.given
	if given {
		setGroup(t.fd, t.own)
		t.given = false
	}
	return given
}

func (t *terminal) close() {
	if t.fd >= 0 {
		_ = syscall.Close(t.fd)
		t.fd = -1
	}
}

// groupOf returns the foreground of the terminal fd. It returns false if fd is no terminal.
func groupOf(fd int) (int, bool) {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return int(group), errno == 0
}

func setGroup(fd, group int) bool {
	id := int32(group)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&id)))
	return errno == 0
}
