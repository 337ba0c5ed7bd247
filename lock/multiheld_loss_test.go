package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// reasonOf returns why held was lost.
func reasonOf(t *testing.T, held *lock.MultiHeld) lock.Reason {
	t.Helper()
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	return lost.Reason
}

// TestAMultiLockWhoseClientHasClosedIsNotRenewed: the holder does not unlock when it is told.
func TestAMultiLockWhoseClientHasClosedIsNotRenewed(t *testing.T) {
	for _, releases := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := locktest.NewServer(t)
			a, b := srv.Client(lock.Config{ReleaseOnClose: releases}), srv.Client(lock.Config{})
			held := fixture.Hold(t, fixture.MultiLock(t, a.Mutex("a"), b.Mutex("b")).Lock)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			closed := make(chan error, 1)
			go func() { closed <- a.Close(ctx) }()
			time.Sleep(59 * time.Minute)
			require.Len(t, srv.Locks(), 2, "they are renewed until Close ends")
			require.Equal(t, lock.Closed, reasonOf(t, held))
			require.True(t, held.Valid())
			require.Equal(t, 2, held.Members())
			require.True(t, held.Deadline().After(time.Now()))

			require.ErrorIs(t, <-closed, context.DeadlineExceeded)
			require.False(t, held.Valid())
			require.False(t, held.Deadline().After(time.Now()))
			time.Sleep(10 * time.Minute)
			require.Empty(t, srv.Locks())
			require.Equal(t, lock.Closed, reasonOf(t, held))
			require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
		})
	}
}

// TestALossIsToldWhileTheClientOfAnotherMemberCloses: the third member is not renewed any more.
func TestALossIsToldWhileTheClientOfAnotherMemberCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		a, b, c := srv.Client(lock.Config{}), srv.Client(lock.Config{}), srv.Client(lock.Config{})
		held := fixture.Hold(t, fixture.MultiLock(t, a.Mutex("a"), b.Mutex("b"), c.Mutex("c")).Lock)
		closed := make(chan error, 1)
		go func() { closed <- a.Close(context.Background()) }()
		<-held.Done()
		require.Equal(t, lock.Closed, reasonOf(t, held))
		require.True(t, held.Valid())

		require.True(t, srv.Delete("b"))
		time.Sleep(10 * time.Minute)
		var lost *lock.LostError
		require.ErrorAs(t, held.Err(), &lost)
		require.Equal(t, lock.NotOwner, lost.Reason)
		require.Equal(t, "b", lost.Name)
		require.False(t, held.Valid())
		require.False(t, held.Deadline().After(time.Now()))
		require.Empty(t, srv.Locks())
		require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
		require.NoError(t, <-closed)
	})
}

// TestAHolderThatUnlocksWhileAClientClosesKeepsItsLocksUntilThen, for longer than a lease.
func TestAHolderThatUnlocksWhileAClientClosesKeepsItsLocksUntilThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		a, b := srv.Client(lock.Config{}), srv.Client(lock.Config{})
		held := fixture.Hold(t, fixture.MultiLock(t, a.Mutex("a"), b.Mutex("b")).Lock)
		closed := make(chan error, 1)
		go func() { closed <- a.Close(context.Background()) }()
		time.Sleep(10 * time.Minute)
		require.Len(t, srv.Locks(), 2)
		require.True(t, held.Valid())
		require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrClosed)
		require.NoError(t, <-closed)
		require.Empty(t, srv.Locks())
	})
}

// redOnServers returns a RedLock of m on three servers, and the servers and clients of its members.
func redOnServers(t *testing.T) (*lock.RedLock, []*locktest.Server, []*lock.Client) {
	t.Helper()
	return redOn(t, 3)
}

func redOn(t *testing.T, n int) (*lock.RedLock, []*locktest.Server, []*lock.Client) {
	t.Helper()
	var servers []*locktest.Server
	var clients []*lock.Client
	for range n {
		s := locktest.NewServer(t)
		servers, clients = append(servers, s), append(clients, s.Client(lock.Config{}))
	}
	return redOf(clients), servers, clients
}

// locksOn returns how many of the servers have a lock.
func locksOn(servers []*locktest.Server) (n int) {
	for _, s := range servers {
		n += len(s.Locks())
	}
	return n
}

// TestALostRedLockIsNotValidThoughAClosingClientHasItsMember: with that member there is a quorum.
func TestALostRedLockIsNotValidThoughAClosingClientHasItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red, servers, clients := redOnServers(t)
		held := fixture.Hold(t, red.Lock)
		closed := make(chan error, 1)
		go func() { closed <- clients[0].Close(context.Background()) }()
		synctest.Wait()
		require.NoError(t, held.Err())
		require.True(t, servers[1].Delete("m"))
		<-held.Done()
		require.Equal(t, lock.NotOwner, reasonOf(t, held))
		require.Equal(t, 2, locksOn(servers))
		require.False(t, held.Valid())
		require.Less(t, held.Members(), 2)
		require.False(t, held.Deadline().After(time.Now()))
		time.Sleep(10 * time.Minute)
		require.Zero(t, locksOn(servers))
		require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
		require.NoError(t, <-closed)
	})
}

// TestARedLockOfClosingClientsIsRenewedWhileItHasAQuorum: of three clients two close, and the first of
// them gives up.
func TestARedLockOfClosingClientsIsRenewedWhileItHasAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red, servers, clients := redOnServers(t)
		held := fixture.Hold(t, red.Lock)
		closed := make(chan error, 2)
		for i, limit := range []time.Duration{time.Second, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			go func() { closed <- clients[i].Close(ctx) }()
		}
		<-held.Done()
		time.Sleep(10 * time.Minute)
		require.Equal(t, lock.Closed, reasonOf(t, held))
		require.Equal(t, 2, locksOn(servers))
		require.True(t, held.Valid())
		require.Equal(t, 2, held.Members())

		require.True(t, servers[2].Delete("m"))
		time.Sleep(10 * time.Minute)
		require.Equal(t, lock.NotOwner, reasonOf(t, held))
		require.Zero(t, locksOn(servers))
		require.False(t, held.Valid())
		require.ErrorIs(t, <-closed, context.DeadlineExceeded)
		require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
		require.NoError(t, <-closed)
	})
}

// TestDoOfSeveralMembersTellsAllThatItsUnlockSays: f returns why it was stopped, which is the loss of
// the second member.
func TestDoOfSeveralMembersTellsAllThatItsUnlockSays(t *testing.T) {
	for name, c := range map[string]struct {
		ends  func(other *locktest.Server) // what becomes of another member
		texts []string                     // of the error of Do
		open  bool                         // another member did not answer
	}{
		"one loss":       {func(*locktest.Server) {}, []string{`lock: "b" is lost`}, false},
		"two losses":     {func(s *locktest.Server) { s.Delete("a") }, []string{`"a" is lost`, `"b" is lost`}, false},
		"without answer": {(*locktest.Server).Pause, []string{`release of "a": outcome unknown`, `"b" is lost`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := locktest.NewServer(t), locktest.NewServer(t)
				m := fixture.MultiLock(t, one.Client(lock.Config{}).Mutex("a"), two.Client(lock.Config{}).Mutex("b"))
				var told error
				err := m.Do(t.Context(), func(ctx context.Context, _ *lock.MultiHeld) error {
					require.True(t, two.Delete("b"))
					<-ctx.Done()
					c.ends(one)
					told = context.Cause(ctx)
					return told
				})
				require.ErrorIs(t, err, told)
				for _, text := range c.texts {
					require.ErrorContains(t, err, text)
				}
				require.Equal(t, len(c.texts) == 1, err == told, "once is enough")
				require.Equal(t, c.open, errors.Is(err, lock.ErrUnknown))
				if c.open {
					one.Resume()
				}
			})
		})
	}
}

// TestDoOfARedLockTellsTheLossOfEachMember: all members have one name.
func TestDoOfARedLockTellsTheLossOfEachMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red, servers, _ := redOnServers(t)
		err := red.Do(t.Context(), func(ctx context.Context, _ *lock.MultiHeld) error {
			require.True(t, servers[0].Delete("m"))
			require.True(t, servers[1].Delete("m"))
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorContains(t, err, "unlock of 3 members: 2 lost")
	})
}

// TestDoneIsClosedWhenErrIsNotNil: Err is called while an Unlock begins.
func TestDoneIsClosedWhenErrIsNotNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.NewServer(t).Client(lock.Config{})
		held := fixture.Hold(t, fixture.MultiLock(t, c.Mutex("a"), c.Mutex("b")).Lock)
		done, work := held.Done(), held.Context(t.Context())
		lock.BeginUnlock(held)
		err := held.Err()
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.True(t, fixture.IsClosed(done))
		require.Equal(t, err, context.Cause(work))
	})
}

// TestARedLockIsToldOfItsDeadlineAfterOneThatMovedAway: a renewal comes when the timer of the deadline has
// just fired. The clients' own timers are later than a RedLock's.
func TestARedLockIsToldOfItsDeadlineAfterOneThatMovedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red, _, _ := redOnServers(t)
		held, err := red.LockFor(t.Context(), 10*time.Second)
		require.NoError(t, err)
		done := held.Done()
		time.Sleep(time.Until(held.Deadline()) - 1)
		for member := range 3 {
			require.NoError(t, lock.PartOf(held, member).Extend(t.Context(), 10*time.Second))
		}
		lock.StopTimer(held)
		lock.AtDeadline(held)
		time.Sleep(time.Until(held.Deadline()) - 1)
		require.False(t, fixture.IsClosed(done))
		time.Sleep(time.Millisecond)
		require.True(t, fixture.IsClosed(done))
		require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
	})
}
