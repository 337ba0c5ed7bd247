package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// find returns the file of a command, found as a shell finds it. Its error says why the
// command cannot be run.
func find(command string) (string, error) {
	path, err := exec.LookPath(command)
	if errors.Is(err, exec.ErrDot) { // a user with . in PATH wants that
		err = nil
	}
	switch {
	case err == nil && runsAsAnother(path):
		return "", &statusError{statusNotRunnable, fmt.Sprintf("%s: the command runs as another user (setuid), so it could not be ended when the lock is lost: "+
			"start it with sudo wheellock run", command)}
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound) && !inPath(command):
		return "", &statusError{statusNotFound, fmt.Sprintf("%s: the command is not found", command)}
	}
	return "", &statusError{statusNotRunnable, fmt.Sprintf("%s: the command cannot be run: %v", command, reason(err))}
}

// inPath reports whether PATH has a file of this name, even one that is not executable. A
// shell has different statuses for a file that is not executable and for a missing file.
func inPath(command string) bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, command)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// notStarted says why a command that was found was not started.
func notStarted(command, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &statusError{statusNotFound, fmt.Sprintf("%s: the command cannot be run: %s, or the interpreter that its first line names, does not exist", command, path)}
	case errors.Is(err, syscall.ENOEXEC):
		return &statusError{statusNotRunnable, fmt.Sprintf("%s: the command cannot be run: it is no program for this machine, and a script needs a first line like #!/bin/sh", command)}
	}
	return &statusError{statusNotRunnable, fmt.Sprintf("%s: the command cannot be run: %v", command, reason(err))}
}

// reason returns what is wrong with a file, without the name of the file.
func reason(err error) error {
	var found *exec.Error
	if errors.As(err, &found) {
		err = found.Err
	}
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fs.ErrPermission // it is in PATH
	}
	return err
}
