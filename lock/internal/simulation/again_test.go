package simulation_test

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	asItIs     sync.Once
	asItIsPath string // of the program of workers of the product as it is
	asItIsDir  string
)

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(asItIsDir)
	os.Exit(code)
}

// theProduct is the program of workers of the product as it is, built once.
func theProduct(t *testing.T) string {
	t.Helper()
	asItIs.Do(func() {
		var err error
		asItIsDir, err = os.MkdirTemp("", "simulation")
		require.NoError(t, err)
		asItIsPath = build(t, asItIsDir)
	})
	require.NotEmpty(t, asItIsPath, "it could not be built")
	return asItIsPath
}

// playAgain simulates a small world that broke a promise once.
func playAgain(t *testing.T, text string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the product is built anew for it")
	}
	s, err := read(text)
	require.NoError(t, err)
	r := work(t, theProduct(t), order{Scenario: &s})
	require.False(t, r.found, "%s", r.said)
}
