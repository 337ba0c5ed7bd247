package integration_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/faults"
)

const module = "github.com/wheellock/wheellock"

func TestMain(m *testing.M) {
	if faults.IsWorker() {
		os.Exit(faults.RunWorker())
	}
	// Parallel tests mostly wait for servers: for failovers, containers and dead flows.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// moduleRoot is the directory of the module.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.mod"))
	return dir
}

// run runs a command in dir with env added to the environment, and returns its standard
// output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NoError(t, err, "%s %s in %s:\n%s%s", name, strings.Join(args, " "), dir, stdout.String(), stderr.String())
	return stdout.String()
}

// userModule makes a user's module, which uses this checkout and has the given
// files. It returns its directory and the environment for the go command there.
// Nothing is fetched, because all dependencies of this module were fetched before.
func userModule(t *testing.T, files map[string]string) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	gomod, err := os.ReadFile(filepath.Join(moduleRoot(t), "go.mod"))
	require.NoError(t, err)
	// Our own requirements pin the modules that -mod=mod adds, so that they are
	// in the module cache.
	_, requirements, _ := strings.Cut(string(gomod), "\ngo 1.25.0\n")
	write("go.mod", "module example.com/user\n\ngo 1.25.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+moduleRoot(t)+"\n"+requirements)
	gosum, err := os.ReadFile(filepath.Join(moduleRoot(t), "go.sum"))
	require.NoError(t, err)
	write("go.sum", string(gosum))
	for name, text := range files {
		write(name, text)
	}
	// The same flags as outside, so that packages need not be built again.
	return dir, []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -mod=mod -buildvcs=false", "GOWORK=off", "GOPROXY=off", "GO111MODULE=on"}
}
