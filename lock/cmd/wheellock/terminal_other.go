//go:build unix && !linux && !darwin

package main

import "os"

// terminal does nothing here. A command that reads from the terminal stays stopped.
type terminal struct {
	given  bool // never
	wanted bool
}

func openTerminal() *terminal { return &terminal{} }

func (*terminal) isOf(*os.File) bool { return false }

func (*terminal) foreground() bool { return false }

func (*terminal) give(int) bool { return false }

func (*terminal) takeBack() bool { return false }

func (*terminal) close() {}
