package sentinel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// TestCheckAsksTheMaster, and says so if the Sentinels have none of that name, or a Sentinel is taken for a server.
func TestCheckAsksTheMaster(t *testing.T) {
	t.Parallel()
	rs := fixture.Sentinels(t, redistest.SentinelOptions{})
	source, err := sentinel.New(sentinel.Config{Master: rs.Name, Sentinels: rs.Addrs()})
	require.NoError(t, err)
	var log fixture.Log
	c := fixture.Client(t, source, lock.Config{Replicas: 1, Logger: log.Logger()})
	ctx := bounded.Context(t)
	require.NoError(t, c.Check(ctx))
	require.Empty(t, fixture.Keys(t, rs.Servers[0], "*"))
	log.Await(t, 1, "its min-replicas-to-write is 0")
	require.Contains(t, log.String(), rs.Servers[0].Addr())

	none, err := sentinel.New(sentinel.Config{Master: "other", Sentinels: rs.Addrs()})
	require.NoError(t, err)
	err = fixture.Client(t, none, lock.Config{}).Check(ctx)
	require.ErrorContains(t, err, "the Sentinels watch no master of that name")
	require.NotContains(t, err.Error(), "cannot be reached")
	err = fixture.ClientOf(t, rs.Sentinels[0], lock.Config{}).Check(ctx)
	require.ErrorContains(t, err, "this is a Sentinel")
	require.NotContains(t, err.Error(), "does not know")
}
