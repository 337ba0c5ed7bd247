package redistest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

func TestVirtualServerBelongsToTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := redistest.StartVirtual(redistest.MiniOptions{Password: "pw"})
		require.NoError(t, err)
		defer func() { require.NoError(t, srv.Stop()) }()
		require.Equal(t, redistest.Virtual, srv.Kind())
		p := srv.Pool(4)
		defer p.Close()
		c := p.Get()
		defer c.Close()
		fixture.DoOn(t, c, "SET", "k", "v", "PX", time.Hour.Milliseconds())
		time.Sleep(time.Hour - time.Millisecond)
		require.Equal(t, int64(1), fixture.DoOn(t, c, "PTTL", "k"))

		require.NoError(t, srv.Kill())
		_, err = srv.Dial()
		require.ErrorIs(t, err, redistest.ErrNotRunning)
		require.NoError(t, srv.Restart(t.Context()))
		again, err := srv.Dial()
		require.NoError(t, err)
		defer again.Close()
		require.Equal(t, int64(0), fixture.DoOn(t, again, "DBSIZE"))
	})
}
