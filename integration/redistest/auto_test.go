package redistest_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

func TestAutoPrefersTheAddressGiven(t *testing.T) {
	mini := fixture.StartMini(t, redistest.MiniOptions{Password: "pw"})
	t.Setenv(redistest.EnvAddr, mini.URL())
	srv, err := redistest.Auto(t.Context())
	require.NoError(t, err)
	require.Equal(t, redistest.External, srv.Kind())
	require.Equal(t, mini.Addr(), srv.Addr())
	require.Equal(t, "external Redis at "+mini.Addr(), srv.String())
	fixture.Do(t, srv, "PING")

	require.ErrorIs(t, srv.Pause(), redistest.ErrNotSupported)
	require.ErrorIs(t, srv.Kill(), redistest.ErrNotSupported)
	require.ErrorIs(t, srv.Restart(t.Context()), redistest.ErrNotSupported)
	require.NoError(t, srv.Stop())
	fixture.Do(t, srv, "PING") // Stop left it alone
}

func TestAutoTakesAProcessIfThereIsOne(t *testing.T) {
	fixture.Server(t)
	t.Setenv(redistest.EnvAddr, "")
	srv, err := redistest.Auto(t.Context())
	require.NoError(t, err)
	defer srv.Stop()
	require.Equal(t, redistest.Process, srv.Kind())
}

func TestAutoFallsBackToMiniredisUnlessRequired(t *testing.T) {
	t.Setenv(redistest.EnvAddr, "")
	t.Setenv("PATH", t.TempDir())

	t.Setenv(redistest.EnvRequire, "")
	srv, err := redistest.Auto(t.Context())
	require.NoError(t, err)
	defer srv.Stop()
	require.Equal(t, redistest.Mini, srv.Kind())

	t.Setenv(redistest.EnvRequire, "1")
	_, err = redistest.Auto(t.Context())
	require.ErrorIs(t, err, redistest.ErrNoServer)
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	// A port without a listener: bound, and then freed.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := l.Addr().String()
	require.NoError(t, l.Close())
	_, err = redistest.Connect(t.Context(), dead)
	require.ErrorContains(t, err, "connect to Redis at "+dead)

	_, err = redistest.Connect(t.Context(), "localhost")
	require.ErrorContains(t, err, `"localhost" is no host:port`)

	_, err = redistest.Connect(t.Context(), "redis://u:hunter2@%zz/")
	require.ErrorContains(t, err, "cannot be parsed")
	require.NotContains(t, err.Error(), "hunter2")

	mini := fixture.StartMini(t, redistest.MiniOptions{Password: "pw"})
	_, err = redistest.Connect(t.Context(), mini.Addr())
	require.ErrorContains(t, err, "NOAUTH")

	t.Setenv(redistest.EnvAddr, dead)
	_, err = redistest.Auto(t.Context())
	require.ErrorContains(t, err, "(from REDIS_ADDR)")
}
