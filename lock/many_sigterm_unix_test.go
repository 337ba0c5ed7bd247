//go:build unix

package lock_test

import (
	"context"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestFiftyThousandSessionsAreGivenBackAtSIGTERM: the example of TryLockMany, at the size that it is
// for, on a real server.
func TestFiftyThousandSessionsAreGivenBackAtSIGTERM(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n = 5_000
	}
	s := fixture.Server(t)
	client, err := lock.Open(s.URL(), lock.Config{KeyPrefix: "app:"})
	require.NoError(t, err)
	names := fixture.Names("session:", n)
	other := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"}).Mutex(names[7]).Lock)

	running, stop := signal.NotifyContext(bounded.Context(t), syscall.SIGTERM)
	defer stop()
	served, left, err := serveSessions(running, client, names, func(ctx context.Context, mine []*lock.Held) {
		require.Len(t, fixture.Keys(t, s, "app:session:*"), n)
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
		bounded.Receive(t, ctx.Done())
		for _, held := range mine {
			if !held.Valid() {
				t.Error("lost", held.Name())
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, []int{n - 1, 0}, []int{served, left})
	require.Equal(t, []string{"app:" + names[7]}, fixture.Keys(t, s, "app:session:*"))
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, client.Close(bounded.Context(t)))
}
