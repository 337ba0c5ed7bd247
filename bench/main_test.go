package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// mainEnv is a variable of the environment that makes the program of the test run as the command.
const mainEnv = "WHEELLOCK_BENCH_MAIN"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(run.RowEnv) != "":
		os.Exit(run.RowMain(os.Stdin, os.Stdout))
	case os.Getenv(mainEnv) != "":
		os.Exit(program(os.Args[1:], os.Stdout, os.Stderr))
	}
	// The tests wait far more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	waitLong  = bounded.Limit // what a test waits for is never late by then
	pollOften = 20 * time.Millisecond
)

// awaitKeys waits until n locks of rows are held, or the test ends.
func awaitKeys(t *testing.T, srv *redistest.Server, n int) {
	t.Helper()
	for begun := time.Now(); t.Context().Err() == nil && time.Since(begun) < waitLong; time.Sleep(pollOften) {
		rows := 0
		for _, name := range fixture.LockKeys(t, srv) {
			if !strings.HasSuffix(name, ":control") {
				rows++
			}
		}
		if rows >= n {
			return
		}
	}
	if t.Context().Err() == nil { // it may run beside the test, so it fails nothing that has ended
		t.Errorf("%d locks are not held after %v", n, waitLong)
	}
}

// result is what a run left behind.
type result struct {
	code           int
	stdout, stderr string
	report         report.Report
}

// runBench runs the command in this process, its rows in others.
func runBench(ctx context.Context, t *testing.T, args ...string) result {
	t.Helper()
	return whileBusy(func() result {
		var stderr fixture.Log
		return runBenchOn(ctx, t, &stderr, &stderr, args...)
	})
}

// runBenchUntilHold is runBench, and calls whenHeld as soon as a row holds all of
// its locks and knows it: that is when a terminal shows its hold.
func runBenchUntilHold(t *testing.T, whenHeld func() error, args ...string) result {
	t.Helper()
	var stderr fixture.Log
	called := make(chan error, 1)
	go func() {
		held := func() bool { return strings.Contains(stderr.String(), ": hold ") }
		for begun := time.Now(); !held() && time.Since(begun) < waitLong; {
			time.Sleep(pollOften)
		}
		called <- whenHeld()
	}()
	r := whileBusy(func() result {
		return runBenchOn(context.Background(), t, &screen{out: &stderr, width: func() int { return 200 }}, &stderr, args...)
	})
	require.NoError(t, <-called)
	require.Contains(t, r.stderr, ": hold ")
	return r
}

// whileBusy repeats a run that the machine was too busy for: a request of it was not answered in time.
func whileBusy(run func() result) (r result) {
	for range 10 {
		r = run()
		said := strings.TrimSpace(r.stderr)
		last := said[strings.LastIndexByte(said, '\n')+1:]
		if !strings.Contains(last, "cannot be acquired") || !strings.Contains(last, "no answer in time") {
			break
		}
	}
	return r
}

// runBenchOn is runBench with a terminal, or something else, that writes to
// stderr.
func runBenchOn(ctx context.Context, t *testing.T, terminal io.Writer, stderr *fixture.Log, args ...string) result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	var stdout fixture.Log
	b := &bench{stdout: &stdout, stderr: terminal}
	r := result{code: b.run(ctx, append(args, "-json", file))}
	r.stdout, r.stderr = stdout.String(), stderr.String()
	t.Logf("%v\n%s%s", args, r.stdout, r.stderr)
	if text, err := os.ReadFile(file); err == nil {
		require.NoError(t, json.Unmarshal(text, &r.report))
	}
	return r
}

// command is the command in a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1", redistest.EnvAddr+"=")
	return cmd
}
