package redistest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

func TestAClusterMovesASlotAndFailsOver(t *testing.T) {
	t.Parallel()
	c := fixture.Cluster(t, redistest.ClusterOptions{Replicas: 1})
	require.Len(t, c.Servers, 6)
	const slot = 12182 // of "foo"
	owner, err := c.Owner(slot)
	require.NoError(t, err)
	require.Equal(t, 2, owner)
	fixture.Do(t, c.Servers[2], "SET", "foo", "1")
	require.NoError(t, c.BeginMove(slot, 2, 0))
	_, err = fixture.Dial(t, c.Servers[2]).Do("GET", "{foo}")
	require.ErrorContains(t, err, "ASK 12182")
	require.NoError(t, c.MoveKeys(slot, 2, 0))
	require.NoError(t, c.EndMove(slot, 2, 0))
	require.Equal(t, []byte("1"), fixture.Do(t, c.Servers[0], "GET", "foo"))

	require.NoError(t, c.Servers[1].Kill())
	require.Eventually(t, func() bool {
		owner, err := c.Owner(8000)
		return err == nil && owner == 4
	}, time.Minute, 20*time.Millisecond)
}

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	s := fixture.Sentinels(t, redistest.SentinelOptions{})
	require.Len(t, s.Servers, 3)
	require.Len(t, s.Sentinels, 3)
	require.NoError(t, s.Servers[0].Kill())
	require.Eventually(t, func() bool {
		m, err := s.Master(s.Sentinels[1])
		if err != nil {
			return false
		}
		i := slices.IndexFunc(s.Servers, func(x *redistest.Server) bool { return x.Addr() == m["ip"]+":"+m["port"] })
		if i < 1 {
			return false
		}
		info, err := s.Servers[i].Info("replication")
		return err == nil && info["role"] == "master"
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, s.Sentinels[0].Restart(bounded.Context(t)), "with the configuration that it had")
	m, err := s.Master(s.Sentinels[0])
	require.NoError(t, err)
	require.Equal(t, "mymaster", m["name"])
}
