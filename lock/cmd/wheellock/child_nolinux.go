//go:build unix && !linux

package main

import "syscall"

// attributes cannot ask here for the command's death when this process is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
