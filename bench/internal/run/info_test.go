package run

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// On a server of our own the percentiles are of the row alone; anybody else's
// settings and counts are left as they are.
func TestScriptTimesAreOfTheHoldAndOnlyOurOwnServerIsSet(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	if srv.Kind() != redistest.Process {
		t.Skip("miniredis does not tell how long scripts take")
	}
	conn := fixture.Dial(t, srv)
	// Slow scripts from before the row must not count.
	const slow = "local n = 0 for i = 1, 2000000 do n = n + i end return n"
	sha, err := redis.String(conn.Do("SCRIPT", "LOAD", slow))
	require.NoError(t, err)
	_, err = conn.Do("EVALSHA", sha, 0)
	require.NoError(t, err)
	before := readUsage(holders.OneServer(srv), false)
	require.True(t, before.scripts.Known)
	settings, err := redis.Strings(conn.Do("CONFIG", "GET", "latency-tracking*"))
	require.NoError(t, err)

	d, _ := holders.DriverNamed("sweep")
	one := func(srv *redistest.Server) report.Row {
		p, err := NewParent(holders.OneServer(srv), Plan{Drivers: []holders.Driver{d}, Locks: []int{10}, Lease: 2 * time.Second, Duration: 3 * time.Second}, &fixture.Log{}, noProgress{})
		require.NoError(t, err)
		rows := p.Rows(context.Background())
		require.NoError(t, report.CheckSound(rows), "%+v", rows)
		return rows[0]
	}
	connected, err := redistest.Connect(t.Context(), srv.URL())
	require.NoError(t, err)
	external := one(connected)
	require.Positive(t, external.Scripts.Value)
	require.Positive(t, external.ScriptMean.Value)
	require.False(t, external.ScriptP99.Known)
	require.False(t, external.ScriptMax.Known)
	after, err := redis.Strings(conn.Do("CONFIG", "GET", "latency-tracking*"))
	require.NoError(t, err)
	require.Equal(t, settings, after)
	require.Greater(t, readUsage(holders.OneServer(srv), false).scripts.Value, before.scripts.Value, "its counts go on")

	own := one(srv)
	// A call that straddles an end is in Redis' count and not yet in ours.
	require.InDelta(t, own.Renewals.Per(10).Value, own.Scripts.Value, 1)
	require.True(t, own.LateMax.Known)
	require.False(t, own.LateP99.Known, "and neither have a few renewals")
	if len(settings) == 0 {
		t.Log("this Redis, before 7, knows no percentiles")
		return
	}
	require.False(t, own.ScriptP99.Known, "a few calls have no 99th percentile")
	require.Positive(t, own.ScriptMean.Value)
	require.LessOrEqual(t, own.ScriptMean.Value, own.ScriptMax.Value*1.02, "the percentiles are to two digits")
}

func TestEmbeddedServerTellsNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, usage{cpus: make([]report.Number, 1)}, readUsage(holders.OneServer(fixture.Mini(t)), true))
}
