package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

// TestAClusterALongWayOffIsDialledWithTheDefaults, and its nodes answer for their slot table in time.
func TestAClusterALongWayOffIsDialledWithTheDefaults(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	link := fixture.Link(t, 300*time.Millisecond)
	source, err := cluster.Open("redis-cluster://"+strings.Join(rc.Addrs(), ",")+"?client_name=far", cluster.Options{NetDial: link.Dial})
	require.NoError(t, err)
	c := fixture.Client(t, source, lock.Config{})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}
