package lock_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestALongWayIsDialledWithTheDefaults: TLS, a login, a name and a database take six round trips
// and more.
func TestALongWayIsDialledWithTheDefaults(t *testing.T) {
	t.Parallel()
	s := fixture.Secure(t)
	link := fixture.Link(t, 300*time.Millisecond)
	fixture.Do(t, s.Server, "CONFIG", "SET", "requirepass", "s3cret")
	to := url.URL{Scheme: "rediss", User: url.UserPassword("default", "s3cret"), Host: s.SecureAddr, Path: "/3", RawQuery: "client_name=far"}
	c, err := lock.Endpoint{URL: to.String(), TLS: s.Client, NetDial: link.Dial}.Open(lock.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { fixture.CloseNow(c) })
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}
