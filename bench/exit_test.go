package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// Each fault is one line on stderr, nothing on stdout, and the right status.
func TestExitStatusAndOneClearLine(t *testing.T) {
	t.Parallel()
	secret := fixture.StartMini(t, redistest.MiniOptions{Password: "s3cret"})
	dead := fixture.Mini(t)
	require.NoError(t, dead.Kill())
	// miniredis has as many databases as are asked for.
	open, wrongDB := fixture.RedisOrMini(t), "DB"
	if open.Kind() == redistest.Mini {
		open, wrongDB = dead, ""
	}
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept.json")
	require.NoError(t, os.WriteFile(kept, []byte("{}"), 0o666))
	// Permissions do not stop root; a directory where the file must be does.
	blocked := filepath.Join(dir, "blocked")
	require.NoError(t, os.MkdirAll(filepath.Join(blocked, "report.json"), 0o777))

	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-locks", "0"}, exitUsage, "-locks"},
		{[]string{"-drivers", "turbo"}, exitUsage, "turbo"},
		{[]string{"-lease", "1ms"}, exitUsage, "-lease"},
		{[]string{"-lease", "soon"}, exitUsage, "-lease"},
		{[]string{"-duration", "-1s"}, exitUsage, "-duration"},
		{[]string{"-what"}, exitUsage, "-what"},
		{[]string{"again"}, exitUsage, "again"},
		{[]string{"-redis", "nowhere"}, exitUsage, "-redis"},
		{[]string{"-cluster", "nowhere"}, exitUsage, "-cluster"},
		{[]string{"-cluster", open.Addr(), "-redis", open.Addr()}, exitUsage, "one of them"},
		{[]string{"-cluster", dead.Addr()}, exitFault, dead.Addr()},
		{[]string{"-cluster", "redis://:wr0ng@" + secret.Addr()}, exitFault, "WRONGPASS"},
		{[]string{"-json", filepath.Join(dir, "no", "report.json")}, exitUsage, "-json"},
		{[]string{"-json", dir}, exitUsage, "-json"},
		{[]string{"-out", kept}, exitUsage, "-out"},
		{[]string{"-out", filepath.Join(kept, "below")}, exitUsage, "-out"},
		{[]string{"-out", blocked}, exitUsage, "-out"},
		{[]string{"-out", filepath.Join(dir, "made"), "-json", dir}, exitUsage, "-json"},
		{[]string{"-redis", dead.Addr(), "-out", filepath.Join(dir, "made")}, exitFault, dead.Addr()},
		{[]string{"-redis", dead.Addr(), "-json", filepath.Join(dir, "new.json")}, exitFault, dead.Addr()},
		{[]string{"-redis", dead.Addr(), "-json", kept}, exitFault, dead.Addr()},
		{[]string{"-redis", secret.Addr()}, exitFault, "NOAUTH"},
		{[]string{"-redis", "redis://:wr0ng@" + secret.Addr()}, exitFault, "WRONGPASS"},
		{[]string{"-redis", "redis://" + open.Addr() + "/99"}, exitFault, wrongDB},
		{[]string{"-redis", "redis://" + open.Addr() + "/db"}, exitFault, "database"},
	} {
		var stdout, stderr bytes.Buffer
		cmd := command(t, append([]string{"-locks=1", "-drivers=sweep", "-lease=100ms", "-duration=100ms"}, c.args...)...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit), "%v: %v", c.args, err)
		require.Equal(t, c.code, exit.ExitCode(), "%v: %s", c.args, stderr.String())
		require.Empty(t, stdout.String(), "%v", c.args)
		require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "%v: %s", c.args, stderr.String())
		require.Regexp(t, "^bench: ", stderr.String())
		require.Contains(t, stderr.String(), c.says, "%v", c.args)
		require.NotContains(t, stderr.String(), "wr0ng")
	}
	require.NoFileExists(t, filepath.Join(dir, "new.json"), "no report, no file")
	require.NoDirExists(t, filepath.Join(dir, "made"), "no report, no directory")
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, "{}", string(text), "no report, no change")
}

func TestHelpIsNoFault(t *testing.T) {
	t.Parallel()
	out, err := command(t, "-h").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "go run ./bench")
}

func TestUnusableREDIS_ADDRIsNamed(t *testing.T) {
	t.Parallel()
	dead := fixture.Mini(t)
	require.NoError(t, dead.Kill())
	cmd := command(t)
	cmd.Env = append(cmd.Env, redistest.EnvAddr+"="+dead.Addr())
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), redistest.EnvAddr)
}
