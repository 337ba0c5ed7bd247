package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
)

// beat is a command that works: it writes the time to the file args[0] until it is ended. With
// "ignore" it ignores SIGTERM. With "root" it becomes root and writes its pid to a second file. It
// ends by itself after longer than any test waits, so that a test that fails leaves no process behind.
func beat(args []string) {
	switch {
	case len(args) > 1 && args[1] == "root":
		becomeRoot()
		if err := os.WriteFile(args[0]+".pid", []byte(strconv.Itoa(os.Getpid())), 0o666); err != nil {
			panic(err)
		}
	case len(args) > 1:
		signal.Ignore(syscall.SIGTERM)
	}
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		panic(err)
	}
	for end := time.Now().Add(bounded.Limit + time.Minute); time.Now().Before(end); {
		fmt.Fprintf(f, "%d\n", time.Now().UnixNano())
		time.Sleep(time.Millisecond)
	}
	os.Exit(1)
}

// beats returns the times that a command has written to file so far.
func beats(t *testing.T, file string) []time.Time {
	t.Helper()
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var out []time.Time
	lines := strings.Split(string(text), "\n")
	for _, line := range lines[:len(lines)-1] {
		ns, err := strconv.ParseInt(line, 10, 64)
		require.NoError(t, err)
		out = append(out, time.Unix(0, ns))
	}
	return out
}

// awaitBeats waits until a command has written more than ten times.
func awaitBeats(t *testing.T, file string) {
	t.Helper()
	bounded.Until(t, func() bool { return len(beats(t, file)) > 10 })
}
