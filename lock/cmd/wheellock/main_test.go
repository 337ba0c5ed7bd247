package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
)

// mainEnv is a variable of the environment that makes the program of the test run as wheellock.
const mainEnv = "WHEELLOCK_CMD_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		if len(os.Args) > 1 && os.Args[1] == "beat" {
			beat(os.Args[2:])
		}
		main()
	}
	// The tests wait far more than they work, so eight may run at once.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

// call is the command in a process of its own.
type call struct {
	*exec.Cmd
	stdout, stderr *bytes.Buffer
}

// wheellock returns the command on the server at url, not started yet.
func wheellock(t *testing.T, url string, args ...string) *call {
	t.Helper()
	for _, arg := range args {
		if arg == "sh" || arg == "cat" { // without it the command ends at once, and the test waits for what never comes
			needProgram(t, arg)
		}
	}
	c := &call{exec.CommandContext(bounded.Context(t), executable(t), args...), &bytes.Buffer{}, &bytes.Buffer{}}
	c.Stdout, c.Stderr = c.stdout, c.stderr
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "WHEELLOCK_") {
			c.Env = append(c.Env, entry)
		}
	}
	c.Env = append(c.Env, mainEnv+"=1")
	if url != "" {
		c.Env = append(c.Env, "WHEELLOCK_REDIS="+url)
	}
	return c
}

// inShell returns sh with a script in which $0 is wheellock.
func inShell(t *testing.T, url, script string) *call {
	t.Helper()
	needProgram(t, "sh")
	needProgram(t, "cat")
	w := wheellock(t, url)
	w.Path, w.Args = "/bin/sh", []string{"sh", "-c", script, w.Path}
	return w
}

// needProgram skips the test where PATH has no such program.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		fixture.SkipLacking(t, "this test needs "+name+" in PATH")
	}
}

// status waits for the command and returns its exit status, or -1 if a signal ended it.
func (c *call) status(t *testing.T) int {
	t.Helper()
	err := c.Wait()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v", err)
	return c.ProcessState.ExitCode()
}

// run runs the command and returns its status.
func (c *call) run(t *testing.T) int {
	t.Helper()
	require.NoError(t, c.Start())
	return c.status(t)
}

// requireOneLine makes sure that the command has said one line, with words in it.
func (c *call) requireOneLine(t *testing.T, words ...string) {
	t.Helper()
	said := c.stderr.String()
	require.Equal(t, 1, strings.Count(said, "\n"), said)
	require.True(t, strings.HasPrefix(said, "wheellock: "), said)
	for _, word := range words {
		require.Contains(t, said, word)
	}
}

func TestWrongUsageIsOneLineThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		says string
	}{
		{"start", "wheellock help"},
		{"run", "no name"},
		{"run -- true", "no name"},
		{"run n", "no command"},
		{"run n --", "no command"},
		{"run n true -x", "wheellock help run"},
		{"run n true", "write wheellock run n -- true"},
		{"run n m -- true", `"m" stands before the --`},
		{"run -what n -- true", "-what"},
		{"run -wait soon n -- true", "number of seconds"},
		{"run -lease 999ms n -- true", "from 1s"},
		{"run -lease 1s -grace 501ms n -- true", "half of the lease"},
		{"run -grace -5s n -- true", "negative"},
		{"run -grace forever n -- true", "number of seconds"},
		{"run -lease forever n -- true", "number of seconds"},
		{"run -lease -1 n -- true", "negative"},
		{"run -redis http://h n -- true", "must begin with redis://"},
		{"run -redis redis://:s3cret@h:port n -- true", "-redis"},
		{"run -redis redis+sentinel://:s3cret@h/m n -- true", "write redis-sentinel://"},
		{"run -cluster h n -- true", "write -redis redis-cluster://host:port,host:port"},
		{"inspect -sentinel h/m n", "write -redis redis-sentinel://host:port,host:port/0?master=mymaster"},
		{"check --cluster=h", "write -redis redis-cluster://host:port,host:port"},
		{"run -redis redis-cluster://h:1/1 n -- true", "no other"},
		{"run -redis redis-cluster://h:s3cret n -- true", "host:port"},
		{"run -redis redis-sentinel://h n -- true", "add ?master=mymaster"},
		{"run -redis redis-sentinel://h?pass=s3cret&master=m n -- true", "option of the URL is not known: the options are master, sentinel_user"},
		{"run -redis redis-sentinel://u:%ZZs3cret@h?master=m n -- true", "percent-encode"},
		{"run -redis redis-sentinel://u:12/s3cret@h:26379?master=m n -- true", "as %2F"},
		{"run -redis redis-cluster://u:12?s3cret@h:1 n -- true", "as %2F"},
		{"run -redis u:12/s3cret@h:1 n -- true", "as %2F"},
		{"run -redis redis://u:12?s3cret@h:1 n -- true", "as %2F"},
		{"run -redis redis://h,i n -- true", "several hosts"},
		{"run wheellock_token -- true", "counter of fencing tokens"},
		{"inspect", "one lock"},
		{"inspect a b", "one lock"},
		{"inspect -x a", "wheellock help inspect"},
		{"unlock a", "wheellock unlock -force a"},
		{"check a", `unexpected argument "a"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			w := wheellock(t, "redis://127.0.0.1:1", strings.Fields(c.args)...)
			require.Equal(t, statusUsage, w.run(t), w.stderr)
			w.requireOneLine(t, c.says)
			require.NotContains(t, w.stderr.String(), "s3cret")
			require.Empty(t, w.stdout.String())
		})
	}
}

// TestSettingsOfEarlierVersionsAreWrongUsage: if they were ignored, the lock would be taken
// on another server.
func TestSettingsOfEarlierVersionsAreWrongUsage(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"WHEELLOCK_CLUSTER": "redis-cluster://", "WHEELLOCK_SENTINEL": "redis-sentinel://"} {
		for _, url := range []string{"", "redis://127.0.0.1:1"} {
			w := wheellock(t, url, "inspect", "n")
			w.Env = append(w.Env, name+"=h")
			require.Equal(t, statusUsage, w.run(t))
			w.requireOneLine(t, name, "WHEELLOCK_REDIS="+says)
		}
	}
}

// TestAnEmptySettingOfTheEnvironmentIsWrongUsage: something has lost the address, and
// every machine would lock a Redis of its own.
func TestAnEmptySettingOfTheEnvironmentIsWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "n", "--", "true"}, {"inspect", "n"}, {"unlock", "-force", "n"}, {"check"}} {
		w := wheellock(t, "", args...)
		w.Env = append(w.Env, "WHEELLOCK_REDIS=")
		require.Equal(t, statusUsage, w.run(t))
		w.requireOneLine(t, "WHEELLOCK_REDIS is empty", "unset")
	}
	w := wheellock(t, "", "inspect", "-redis", "redis://127.0.0.1:1", "n")
	w.Env = append(w.Env, "WHEELLOCK_REDIS=", "WHEELLOCK_CLUSTER=h")
	require.Equal(t, statusUnknown, w.run(t), "a flag wins")
}

// TestTheStandardAddressIsToldOf: so the user sees that a setting was lost on the way.
func TestTheStandardAddressIsToldOf(t *testing.T) {
	t.Parallel()
	const told = "wheellock: no address of Redis is given, so redis://127.0.0.1:6379 is used: set -redis or WHEELLOCK_REDIS\n"
	for _, args := range [][]string{{"run", "test-of-the-standard-address", "--", "true"}, {"inspect", "n"}, {"check"}} {
		w := wheellock(t, "", args...)
		w.run(t)
		require.True(t, strings.HasPrefix(w.stderr.String(), told), w.stderr)
		w = wheellock(t, "", append(args[:1:1], append([]string{"-redis", "redis://127.0.0.1:6379"}, args[1:]...)...)...)
		w.run(t)
		require.NotContains(t, w.stderr.String(), "no address")
	}
}

// TestAQuietRunSaysTheStandardAddressOnlyIfItRuns: a scheduled run that is skipped sends no mail.
func TestAQuietRunSaysTheStandardAddressOnlyIfItRuns(t *testing.T) {
	p := newProgram(nil, stdio{})
	var said strings.Builder
	p.lines.init(&said)
	o, err := p.parseRun([]string{"-quiet", "n", "--", "c"})
	require.NoError(t, err)
	p.lines.flush(flushTimeout)
	require.Empty(t, said.String())
	p.sayAssumed(&o.servers)
	p.sayAssumed(&o.servers)
	p.lines.flush(flushTimeout)
	require.Equal(t, "wheellock: no address of Redis is given, so redis://127.0.0.1:6379 is used: set -redis or WHEELLOCK_REDIS\n", said.String())
}

func TestHelpIsOnStandardOutput(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"help", "-h", "--help", "help run", "run -h", "run n -h", "help inspect", "inspect -h", "help unlock", "help version"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			w := wheellock(t, "", strings.Fields(args)...)
			require.Zero(t, w.run(t))
			require.True(t, strings.HasPrefix(w.stdout.String(), "Usage: wheellock "), w.stdout)
			require.Empty(t, w.stderr.String())
		})
	}
	w := wheellock(t, "")
	require.Equal(t, statusUsage, w.run(t))
	require.Contains(t, w.stderr.String(), "Usage: wheellock ")
}

// TestManualSaysTheStatuses: each has a line of its own.
func TestManualSaysTheStatuses(t *testing.T) {
	manual, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, status := range []int{statusNotAcquired, statusLost, statusUnknown, statusUsage, statusNotRunnable, statusNotFound} {
		require.Regexp(t, fmt.Sprintf(`(?m)^//\s+%d\s`, status), string(manual))
	}
}

// TestManualNamesTheFlags: each has a line of its own, and there are no others.
func TestManualNamesTheFlags(t *testing.T) {
	manual, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	flags := map[string]bool{}
	for _, name := range []string{"run", "inspect", "unlock", "list", "check"} {
		w := wheellock(t, "", "help", name)
		require.Zero(t, w.run(t))
		for _, m := range regexp.MustCompile(`(?m)^  (-\w+)`).FindAllStringSubmatch(w.stdout.String(), -1) {
			flags[m[1]] = true
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(-\w+) `).FindAllStringSubmatch(string(manual), -1) {
		named[m[1]] = true
	}
	require.Equal(t, flags, named)
}
