package container_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/integration/redistest/container"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var available = sync.OnceValue(func() error { return container.Available(context.Background()) })

// need skips the test where there are no containers.
func need(t *testing.T) {
	t.Helper()
	if err := available(); err != nil && !container.Required() {
		fixture.Lack(t, err)
	}
	require.NoError(t, available())
}

// start starts a server for the length of the test.
func start(t *testing.T, o container.Options) *redistest.Server {
	t.Helper()
	need(t)
	return kept(t)(container.Start(bounded.Context(t), o))
}

// kept stops a server at the end of the test.
func kept(t *testing.T) func(*redistest.Server, error) *redistest.Server {
	return func(s *redistest.Server, err error) *redistest.Server {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Stop()) })
		return s
	}
}
