package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
)

func TestAServerIsCalledWhatItIs(t *testing.T) {
	t.Parallel()
	redis, valkey := redistest.Software{Name: "Redis", Version: "7.0.15"}, redistest.Software{Name: "Valkey", Version: "8.0.1"}
	require.Equal(t, "external Redis 7.0.15 at h:1", named("external Redis at h:1", redis))
	require.Equal(t, "external Valkey 8.0.1 at h:1", named("external Redis at h:1", valkey))
	require.Equal(t, "Redis Cluster 7.0.15, 2 masters: h:1, h:2", named("Redis Cluster, 2 masters: h:1, h:2", redis))
	require.Equal(t, "Valkey Cluster 8.0.1, 2 masters: h:1, h:2", named("Redis Cluster, 2 masters: h:1, h:2", valkey))
}
