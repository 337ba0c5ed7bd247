package holders

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

func TestWhatIsNoClusterIsSaid(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	if srv.Kind() != redistest.Process {
		t.Skip("miniredis says that it has all slots")
	}
	_, err := ConnectCluster(t.Context(), []string{srv.Addr()})
	require.ErrorContains(t, err, "no slots of a Redis Cluster")
}
