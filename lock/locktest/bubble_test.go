package locktest_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// failing is a TB that records the calls of Fatalf, and panics.
type failing struct {
	*testing.T
	said []string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
	panic(f)
}

func TestAServerOutsideTheBubbleOfItsClientIsOneClearFailure(t *testing.T) {
	f := &failing{T: t}
	srv := locktest.NewServer(f)
	link := srv.Link()
	synctest.Test(t, func(t *testing.T) {
		require.Panics(t, func() { srv.Client(lock.Config{}) })
		require.Panics(t, func() { link.Client(lock.Config{}) })
		require.Panics(t, func() { _, _ = lock.New(link.Pool(), lock.Config{}) })
		locktest.NewServer(t).Client(lock.Config{})
	})
	require.Len(t, f.said, 3)
	for _, said := range f.said {
		require.Contains(t, said, "outside the synctest bubble")
		require.Equal(t, f.said[0], said)
	}
}
