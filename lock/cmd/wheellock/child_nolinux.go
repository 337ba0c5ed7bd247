//go:build unix && !linux

package main

import "syscall"

// attributes cannot make the command die when this process is killed: only Linux can.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
