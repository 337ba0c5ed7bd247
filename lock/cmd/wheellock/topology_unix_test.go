//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// requireRuns requires that a command runs under a lock, and that inspect and list show the lock.
func requireRuns(t *testing.T, url string) {
	t.Helper()
	w := wheellock(t, "", "run", "-redis", url, "n", "--", "echo", "run")
	require.Zero(t, w.run(t), w.stderr)
	require.Equal(t, "run\n", w.stdout.String())
	require.Empty(t, w.stderr.String())
	w = wheellock(t, "", "inspect", "-redis", url, "n")
	require.Zero(t, w.run(t), w.stderr)
	require.Equal(t, "n: free\n", w.stdout.String())
	w = wheellock(t, "", "run", "-redis", url, "-label", "web-1", "n", "--", executable(t), "list", "-redis", url)
	require.Zero(t, w.run(t), w.stderr)
	require.Regexp(t, `^n: mutex, .* held by web-1 \(\S+@web-1:\d+:\d+\)\n$`, w.stdout.String())
}

func TestACommandUnderALockOfACluster(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	requireRuns(t, "redis-cluster://"+strings.Join(rc.Addrs(), ","))
	w := wheellock(t, "redis://"+rc.Addrs()[0], "run", "a{b", "-redis", "redis-cluster://"+rc.Addrs()[0], "--", "true")
	require.Equal(t, statusUsage, w.run(t))
	w.requireOneLine(t, "hash tag")
	w = wheellock(t, "redis://"+rc.Addrs()[0], "run", "n", "--", "true")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "redis-cluster://")
}

func TestACommandUnderALockBehindSentinels(t *testing.T) {
	t.Parallel()
	rs := fixture.Sentinels(t, redistest.SentinelOptions{})
	requireRuns(t, "redis-sentinel://"+strings.Join(rs.Addrs(), ",")+"/0?master="+rs.Name)
	w := wheellock(t, "", "run", "-redis", "redis-sentinel://"+rs.Addrs()[0]+"?master=other", "n", "--", "true")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "No such master")
}
