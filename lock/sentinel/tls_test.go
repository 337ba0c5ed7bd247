package sentinel_test

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// TestTLSIsForSentinelsAndTheMaster, which both ask for a certificate of the client.
func TestTLSIsForSentinelsAndTheMaster(t *testing.T) {
	t.Parallel()
	s := fixture.Secure(t)
	f := &fake{addr: s.SecureAddr, epoch: 1}
	secure, err := faultproxy.Start(faultproxy.Config{Decide: f.answer, TLS: &tls.Config{
		Certificates: []tls.Certificate{s.Identity}, ClientCAs: s.Client.RootCAs, ClientAuth: tls.RequireAnyClientCert,
	}})
	require.NoError(t, err)
	t.Cleanup(secure.Close)
	source, err := sentinel.New(sentinel.Config{Master: "mymaster", Sentinels: []string{secure.Addr()}, TLS: s.Client})
	require.NoError(t, err)
	opened, err := sentinel.Open("rediss-sentinel://"+secure.Addr()+"?master=mymaster", sentinel.Config{TLS: s.Client})
	require.NoError(t, err)
	for _, source := range []*sentinel.Topology{source, opened} {
		c := fixture.Client(t, source, lock.Config{})
		held := fixture.Hold(t, c.Mutex("m").Lock)
		require.NoError(t, held.Unlock(bounded.Context(t)))
	}
	plain, err := sentinel.New(sentinel.Config{Master: "mymaster", Sentinels: []string{secure.Addr()}})
	require.NoError(t, err)
	_, err = plain.MasterAddr(bounded.Context(t))
	require.ErrorIs(t, err, sentinel.ErrNoSentinel)
}

// TestAURLWithTLSIsNeverWithout: a sentinel without TLS is not asked.
func TestAURLWithTLSIsNeverWithout(t *testing.T) {
	t.Parallel()
	f := startFake(t, "127.0.0.1:1", 1)
	source, err := sentinel.Open("rediss-sentinel://"+f.Addr()+"?master=mymaster", sentinel.Config{})
	require.NoError(t, err)
	_, err = source.MasterAddr(bounded.Context(t))
	require.ErrorIs(t, err, sentinel.ErrNoSentinel)
	plain, err := sentinel.Open("redis-sentinel://"+f.Addr()+"?master=mymaster", sentinel.Config{})
	require.NoError(t, err)
	addr, err := plain.MasterAddr(bounded.Context(t))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", addr)
}
