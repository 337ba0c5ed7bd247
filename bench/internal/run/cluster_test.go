package run

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

func ownCluster(t *testing.T) *redistest.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("a Cluster takes long to start")
	}
	return fixture.Cluster(t, redistest.ClusterOptions{})
}

// Every row keeps its locks on all masters of a Cluster, and says what each did.
func TestEveryRowRunsOnACluster(t *testing.T) {
	t.Parallel()
	c := ownCluster(t)
	target, err := holders.ConnectCluster(t.Context(), []string{"127.0.0.1:1", c.Addrs()[1]})
	require.NoError(t, err)
	require.Len(t, target.Servers(), 3)
	require.False(t, target.IsOwn())
	_, err = checkExpiry(context.Background(), target, controlName, ControlLease)
	require.NoError(t, err)
	const n = 60
	p, err := NewParent(target, Plan{Drivers: holders.Drivers(), Locks: []int{n}, Lease: 2400 * time.Millisecond, Duration: 2400 * time.Millisecond}, &fixture.Log{}, noProgress{})
	require.NoError(t, err)
	for _, r := range p.Rows(context.Background()) {
		require.True(t, r.IsSound(), "%+v", r)
		require.Len(t, r.Masters, 3)
		sum := 0.0
		for _, m := range r.Masters {
			require.Positive(t, m.Renewals.Value, "%s: %s", r.Driver, m.Address)
			require.True(t, m.CPU.Known)
			sum += m.Renewals.Value
		}
		require.Equal(t, r.Renewals, report.NumberOf(sum))
		require.GreaterOrEqual(t, sum, 2.0*n)
	}
}
