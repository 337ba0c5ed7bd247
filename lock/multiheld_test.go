package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// requireLosses requires that err counts n members that are lost, and says so n times.
func requireLosses(t *testing.T, err error, members, n int) {
	t.Helper()
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorContains(t, err, fmt.Sprintf("unlock of %d members: %d lost: ", members, n))
	require.Equal(t, n, strings.Count(err.Error(), " is lost: "), err)
}

// TestALostMultiHeldTellsEachLossOnce, though its members and it know of the loss.
func TestALostMultiHeldTellsEachLossOnce(t *testing.T) {
	for members := 1; members <= 3; members++ {
		for gone := 1; gone <= members; gone++ {
			t.Run(fmt.Sprint(gone, " of ", members), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := locktest.NewServer(t)
					c := srv.Client(lock.Config{})
					names := fixture.Names("m", members)
					var ms []*lock.Mutex
					for _, name := range names {
						ms = append(ms, c.Mutex(name))
					}
					held := fixture.Hold(t, fixture.MultiLock(t, ms...).Lock)
					for _, name := range names[members-gone:] {
						require.True(t, srv.Delete(name))
					}
					<-held.Done()
					requireLosses(t, held.Unlock(t.Context()), members, gone)
				})
			})
		}
	}
}

// TestAMultiHeldWhoseClientClosesTellsThatOnce: the members are released, and its loss is told.
func TestAMultiHeldWhoseClientClosesTellsThatOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c, other := srv.Client(lock.Config{}), srv.Client(lock.Config{})
		held := fixture.Hold(t, fixture.MultiLock(t, c.Mutex("a"), other.Mutex("b")).Lock)
		closed := make(chan error)
		go func() { closed <- c.Close(context.Background()) }()
		<-held.Done()
		err := held.Unlock(t.Context())
		requireLosses(t, err, 2, 1)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NoError(t, <-closed)
		require.Empty(t, srv.Locks())
	})
}

// TestALostRedLockTellsEachLossOnce: its trust ends a little before that of its members.
func TestALostRedLockTellsEachLossOnce(t *testing.T) {
	for after, lost := range map[time.Duration]int{0: 1, time.Second: 3} {
		synctest.Test(t, func(t *testing.T) {
			var ms []*lock.Mutex
			for range 3 {
				ms = append(ms, locktest.NewServer(t).Client(lock.Config{}).Mutex("m"))
			}
			r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, ms...)
			require.NoError(t, err)
			held, err := r.LockFor(t.Context(), 10*time.Second)
			require.NoError(t, err)
			<-held.Done()
			time.Sleep(after)
			requireLosses(t, held.Unlock(t.Context()), 3, lost)
		})
	}
}
