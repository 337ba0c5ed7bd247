//go:build !amd64 && !arm64

package points

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutine returns a number that tells the running goroutine from all others.
func goroutine() uintptr {
	var b [64]byte
	words := bytes.Fields(b[:runtime.Stack(b[:], false)])
	n, _ := strconv.ParseUint(string(words[1]), 10, 64) // goroutine 17 [running]:
	return uintptr(n)
}
