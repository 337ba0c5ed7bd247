package main

import (
	"bytes"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
)

func TestFlagsAreRead(t *testing.T) {
	o, err := parse([]string{
		"-redis", "redis://:s%40crt@h:1/2", "-locks", "5, 10", "-drivers", "sweep,wheel",
		"-lease", "6s", "-duration", "1m", "-json", "f", "-out", "d",
	}, nil)
	require.NoError(t, err)
	require.Equal(t, []int{5, 10}, o.locks)
	require.Equal(t, 6*time.Second, o.lease)
	require.Equal(t, time.Minute, o.duration)
	require.Equal(t, "f", o.json)
	require.Equal(t, "d", o.out)
	require.Equal(t, "redis://:s%40crt@h:1/2", o.redis)
	require.Len(t, o.drivers, 2)
	require.Equal(t, "sweep", o.drivers[0].Name)
}

func TestWithoutFlagsAllDriversRun(t *testing.T) {
	o, err := parse(nil, nil)
	require.NoError(t, err)
	require.Equal(t, "auto", o.redis)
	require.Nil(t, o.locks)
	require.Zero(t, o.lease)
	require.Zero(t, o.duration)
	require.Nil(t, o.cluster)
	require.Equal(t, report.Drivers(), []string{"afterfunc", "wheel", "afterfunc-batch", "wheel-batch", "library", "sweep"})
	require.Len(t, o.drivers, 6)
}

func TestBadFlagsAreUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-locks", "0"}, `-locks has "0"`},
		{[]string{"-locks", "-5"}, `-locks has "-5"`},
		{[]string{"-locks", "10,ten"}, `-locks has "ten"`},
		{[]string{"-locks", "10,"}, `-locks has ""`},
		{[]string{"-locks", ""}, `-locks has ""`},
		{[]string{"-locks", "10000001"}, "from 1 to 10000000"},
		{[]string{"-locks", "10,10"}, "10 twice"},
		{[]string{"-drivers", "wheels"}, "afterfunc, wheel,"},
		{[]string{"-drivers", ""}, `-drivers has ""`},
		{[]string{"-drivers", "sweep,sweep"}, "sweep twice"},
		{[]string{"-lease", "0s"}, "-lease is 0s"},
		{[]string{"-lease", "-3s"}, "-lease is -3s"},
		{[]string{"-lease", "99ms"}, "from 100ms"},
		{[]string{"-lease", "1000h"}, "to 720h"},
		{[]string{"-lease", "1.5ms"}, "whole milliseconds"},
		{[]string{"-lease", "three"}, `"three"`},
		{[]string{"-duration", "0s"}, "-duration is 0s"},
		{[]string{"-duration", "-1s"}, "-duration is -1s"},
		{[]string{"-duration", "25h"}, "to 24h"},
		{[]string{"-lease", "6s", "-duration", "5s"}, "at least -lease"},
		{[]string{"-json", ""}, "-json"},
		{[]string{"-out", ""}, "-out"},
		{[]string{"-redis", ""}, "-redis"},
		{[]string{"-redis", "localhost"}, "host:port"},
		{[]string{"-redis", "localhost:"}, "host:port"},
		{[]string{"-redis", "http://localhost:6379"}, `"http"`},
		{[]string{"-redis", "redis://"}, "cannot be parsed"},
		{[]string{"-redis", "redis://:sec%ret@h:1"}, "cannot be parsed"},
		{[]string{"-redis", ":secret@h:1"}, "not an address"},
		{[]string{"-cluster", ""}, "host:port"},
		{[]string{"-cluster", "a:1,"}, "host:port"},
		{[]string{"-cluster", "a:1,b"}, "host:port"},
		{[]string{"-cluster", "auto"}, "host:port"},
		{[]string{"-cluster", "unix:///a"}, `"unix"`},
		{[]string{"-cluster", "redis://a:1/2"}, "only database 0"},
		{[]string{"-cluster", "redis://:sec%ret@h:1"}, "cannot be parsed"},
		{[]string{"-cluster", "a:1", "-redis", "auto"}, "one of them"},
		{[]string{"-max", "-locks", "10"}, "-max finds"},
		{[]string{"-nope"}, "-nope"},
		{[]string{"1000"}, `"1000" is not a flag`},
	} {
		_, err := parse(c.args, nil)
		require.ErrorIs(t, err, errUsage, "%v", c.args)
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "\n")
		require.Regexp(t, "^bench: ", err.Error())
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "sec%ret")
	}
}

func TestMaxIsOfTheLibraryUnlessDriversAreNamed(t *testing.T) {
	o, err := parse([]string{"-max"}, nil)
	require.NoError(t, err)
	require.Len(t, o.drivers, 1)
	require.Equal(t, report.Library, o.drivers[0].Name)
	o, err = parse([]string{"-max", "-drivers", "wheel,sweep"}, nil)
	require.NoError(t, err)
	require.Len(t, o.drivers, 2)
}

func TestNodesOfAClusterAreRead(t *testing.T) {
	o, err := parse([]string{"-cluster", "a:1, redis://u:p@b:2"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "redis://u:p@b:2"}, o.cluster)
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var help bytes.Buffer
	_, err := parse([]string{"-h"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"-redis", "-cluster", "-max", "-locks", "-drivers", "-lease", "-duration", "-json", "-out"} {
		require.Contains(t, help.String(), name)
	}
}
