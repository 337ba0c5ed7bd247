package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

func TestFlagsStandBeforeAndAfterTheName(t *testing.T) {
	p := &program{stdio: stdio{out: os.Stdout}}
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
	p := &program{}
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
	p := &program{env: []string{"WHEELLOCK_REDIS=redis://env"}}
	o, err := p.parseRun([]string{"n", "--", "c"})
	require.NoError(t, err)
	require.Equal(t, servers{redis: "redis://env"}, o.servers)
	o, err = p.parseRun([]string{"-cluster", "a,b", "n", "--", "c"})
	require.NoError(t, err)
	require.Equal(t, servers{cluster: "a,b"}, o.servers)
}

func TestAddressesOfSeveralServers(t *testing.T) {
	for text, want := range map[string]seeds{
		"a":                            {addrs: []string{"a:6379"}},
		"a:1, b,[::1]:2,[::1]":         {addrs: []string{"a:1", "b:6379", "[::1]:2", "[::1]:6379"}},
		"redis://:p%40w@a:1,b:2":       {addrs: []string{"a:1", "b:2"}, password: "p@w"},
		"rediss://u:p@a,b:2/mymaster":  {addrs: []string{"a:6379", "b:2"}, user: "u", password: "p", tls: true, path: "mymaster"},
		"a,b/mymaster?db=3":            {addrs: []string{"a:6379", "b:6379"}, path: "mymaster"},
		"redis://u:p@a/m?sentinel_u=x": {addrs: []string{"a:6379"}, user: "u", password: "p", path: "m"},
	} {
		got, err := parseSeeds("-cluster", text, "6379")
		require.NoError(t, err, text)
		got.query = nil
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", ",a", "a:b:c", "a:99999", ":6379", "unix:///x"} {
		_, err := parseSeeds("-cluster", text, "6379")
		require.Error(t, err, text)
		require.Equal(t, statusUsage, statusOf(err))
	}
}

func TestAddressesWithoutASchemeAreURLsToo(t *testing.T) {
	for _, s := range []servers{
		{redis: "localhost"},
		{redis: "127.0.0.1:6379"},
		{redis: "/run/redis.sock"},
		{redis: "redis://h/2"},
		{cluster: "a,b"},
		{sentinel: "a,b/m?db=2&sentinel_password=x&sentinel_user=y"},
	} {
		c, err := s.open(lock.Config{})
		require.NoError(t, err)
		closeClient(c)
	}
}
