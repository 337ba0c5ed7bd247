package main

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
)

// On a server of our own the percentiles are of the row alone; anybody else's
// settings and counts are left as they are.
func TestScriptTimesAreOfTheHoldAndOnlyOurOwnServerIsSet(t *testing.T) {
	t.Parallel()
	srv := ownServer(t)
	if srv.Kind() != redistest.Process {
		t.Skip("miniredis does not tell how long scripts take")
	}
	conn := dialed(t, srv)
	// Slow scripts from before the row must not count.
	const slow = "local n = 0 for i = 1, 2000000 do n = n + i end return n"
	sha, err := redis.String(conn.Do("SCRIPT", "LOAD", slow))
	require.NoError(t, err)
	_, err = conn.Do("EVALSHA", sha, 0)
	require.NoError(t, err)
	before := useOf(srv, false)
	require.True(t, before.scripts.known)
	settings, err := redis.Strings(conn.Do("CONFIG", "GET", "latency-tracking*"))
	require.NoError(t, err)

	d, _ := driverNamed("sweep")
	one := func(srv *redistest.Server) row {
		p, err := newParent(srv, plan{drivers: []driver{d}, locks: []int{50}, lease: 2 * time.Second, duration: 3 * time.Second}, &output{})
		require.NoError(t, err)
		rows := p.rows(context.Background())
		require.NoError(t, verdict(rows), "%+v", rows)
		return rows[0]
	}
	connected, err := redistest.Connect(t.Context(), srv.URL())
	require.NoError(t, err)
	external := one(connected)
	require.Positive(t, external.Scripts.value)
	require.Positive(t, external.ScriptMean.value)
	require.False(t, external.ScriptP99.known)
	require.False(t, external.ScriptMax.known)
	after, err := redis.Strings(conn.Do("CONFIG", "GET", "latency-tracking*"))
	require.NoError(t, err)
	require.Equal(t, settings, after)
	require.Greater(t, useOf(srv, false).scripts.value, before.scripts.value, "its counts go on")

	own := one(srv)
	// A call that straddles an end is in Redis' count and not yet in ours.
	require.InDelta(t, own.Renewals.per(50).value, own.Scripts.value, 1)
	if len(settings) == 0 {
		t.Log("this Redis, before 7, knows no percentiles")
		return
	}
	require.LessOrEqual(t, own.ScriptP99.value, own.ScriptMax.value)
	require.Positive(t, own.ScriptMean.value)
	require.LessOrEqual(t, own.ScriptMean.value, own.ScriptMax.value*1.02, "the percentiles are to two digits")
}

func TestEmbeddedServerTellsNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, use{}, useOf(miniServer(t), true))
}
