package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

func TestFlagsStandBeforeAndAfterTheName(t *testing.T) {
	p := newProgram(nil, stdio{out: os.Stdout, err: os.Stderr})
	for _, args := range [][]string{
		{"-wait", "90", "-lease=3s", "n", "--", "c", "-x", "--", "y"},
		{"n", "-wait=1m30s", "-lease", "3s", "--", "c", "-x", "--", "y"},
		{"-wait", "1.5m", "n", "-lease", "3", "--", "c", "-x", "--", "y"},
	} {
		o, err := p.parseRun(args)
		require.NoError(t, err)
		require.Equal(t, "n", o.name)
		require.Equal(t, []string{"c", "-x", "--", "y"}, o.command)
		require.Equal(t, 90*time.Second, o.wait)
		require.Equal(t, 3*time.Second, o.lease)
		require.Equal(t, min(defaultGrace, time.Second), o.grace, "a third of a short lease")
	}
}

func TestDefaultsOfRun(t *testing.T) {
	p := newProgram(nil, stdio{err: os.Stderr})
	o, err := p.parseRun([]string{"n", "--", "c"})
	require.NoError(t, err)
	require.Zero(t, o.wait, "one try")
	require.Equal(t, lock.DefaultLease, o.lease)
	require.Equal(t, defaultGrace, o.grace)
	require.Equal(t, servers{redis: standardRedis}, o.servers)
	for _, arg := range []string{"forever", "-1", "-1s"} {
		o, err = p.parseRun([]string{"n", "-wait", arg, "--", "c"})
		require.NoError(t, err)
		require.Negative(t, o.wait)
	}
	o, err = p.parseRun([]string{"n", "-grace", "0", "--", "c"})
	require.NoError(t, err)
	require.Zero(t, o.grace)
}

func TestFlagsBeatTheEnvironment(t *testing.T) {
	p := newProgram([]string{"WHEELLOCK_REDIS=redis://env"}, stdio{})
	o, err := p.parseRun([]string{"n", "--", "c"})
	require.NoError(t, err)
	require.Equal(t, servers{redis: "redis://env"}, o.servers)
	o, err = p.parseRun([]string{"-redis", "redis-cluster://a,b", "n", "--", "c"})
	require.NoError(t, err)
	require.Equal(t, servers{redis: "redis-cluster://a,b"}, o.servers)
}

func TestAddressesWithoutASchemeAreURLsToo(t *testing.T) {
	for _, s := range []servers{
		{redis: "localhost"},
		{redis: "127.0.0.1:6379"},
		{redis: "/run/redis.sock"},
		{redis: "redis://h/2"},
		{redis: "redis-cluster://u:p@a,b:2"},
		{redis: "rediss-cluster://a"},
		{redis: "redis-sentinel://a,b/2?master=m&sentinel_password=x&sentinel_user=y"},
		{redis: "rediss-sentinel://a?master=m"},
	} {
		c, err := s.open(lock.Config{})
		require.NoError(t, err)
		closeClient(c)
	}
}

// TestAnErrorOfUsageShowsNoURL: a URL may have a password, and the standard error is often a log.
func TestAnErrorOfUsageShowsNoURL(t *testing.T) {
	for _, args := range [][]string{
		{"redis://:s3cret@h"},
		{"run", "redis://:s3cret@h", "--", "true"},
		{"run", "n", "redis://:s3cret@h", "--", "true"},
		{"run", "n", "psql", "postgres://u:s3cret@h"},
		{"run", "n", "sh", "-c", "psql \"postgres://u:s3cret@h\" -c 'select \t1'"},
		{"run", "-wait", "redis://:s3cret@h", "n", "--", "true"},
		{"run", "-wait=redis://:s3cret\"x@h", "n", "--", "true"},
		{"run", "-=redis://:s3cret@h", "n", "--", "true"},
		{"inspect", "redis://:s3cret@h"},
		{"unlock", "rediss-cluster://:s3cret@h"},
		{"list", "redis://:s3cret@h"},
		{"check", "redis://:s3cret@h"},
	} {
		said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		require.NoError(t, err)
		require.Equal(t, statusUsage, run(args, []string{"WHEELLOCK_REDIS=redis://h"}, stdio{err: said}), args)
		require.NoError(t, said.Close())
		text, err := os.ReadFile(said.Name())
		require.NoError(t, err)
		require.NotEmpty(t, text)
		require.NotContains(t, string(text), "s3cret", args)
	}
}
