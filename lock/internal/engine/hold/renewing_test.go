package hold_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAHoldIsRenewedFromTheFirstReEntryThatNeedsIt: a re-entry by Lock needs renewal, and
// one by LockFor does not.
func TestAHoldIsRenewedFromTheFirstReEntryThatNeedsIt(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		outer, err := b.m.LockFor(ctx, 10*time.Second)
		require.NoError(b, err)
		inner, err := b.m.Lock(outer.Context(ctx))
		require.NoError(b, err)
		time.Sleep(5 * time.Minute)
		require.NoError(b, inner.Err())
		require.NoError(b, inner.Unlock(ctx))
		time.Sleep(5 * time.Minute)
		require.ErrorIs(b, outer.Err(), lock.ErrLost, "nobody needs it any more")
	})
}

// whileASlotMoves runs f with a hold of "m" whose slot moves from server b to a, where its key is already.
func whileASlotMoves(t *testing.T, f func(t *testing.T, is *fixture.Islands, c *lock.Client, held *lock.Held)) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a", "b")
		c, err := lock.NewTopology(is, lock.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		ctx := context.Background()
		_, err = c.Mutex("m").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
		is.AssignSlots("a")
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		is.RefuseWithASK("b", "a")
		is.AssignSlots("b")
		time.Sleep(time.Second)
		require.True(t, held.Valid())
		require.Equal(t, 1, is.CountRefused())
		f(t, is, c, held)
	})
}

// TestAHoldWhoseKeyHasGoneBackIsRenewed, again and again: the move of its slot is taken back.
func TestAHoldWhoseKeyHasGoneBackIsRenewed(t *testing.T) {
	whileASlotMoves(t, func(t *testing.T, is *fixture.Islands, c *lock.Client, held *lock.Held) {
		move := func(from, to string) {
			fields, err := redis.StringMap(is.Do(t, from, "HGETALL", "m"), nil)
			require.NoError(t, err)
			require.NotEmpty(t, fields)
			for field, value := range fields {
				is.Do(t, to, "HSET", "m", field, value)
			}
			is.Do(t, to, "PEXPIRE", "m", is.Do(t, from, "PTTL", "m"))
			is.Do(t, from, "DEL", "m")
		}
		for range 3 {
			move("a", "b")
			is.Refuse("b", "")
			time.Sleep(time.Minute)
			require.True(t, held.Valid())
			refused := is.CountRefused()
			is.RefuseWithASK("b", "a")
			move("b", "a")
			time.Sleep(time.Minute)
			require.True(t, held.Valid())
			require.Equal(t, refused+1, is.CountRefused(), "it stays on a")
		}
		// It follows its slot again.
		move("a", "b")
		is.Refuse("b", "")
		time.Sleep(time.Minute)
		move("b", "a")
		is.AssignSlots("a")
		is.Refuse("b", "CLUSTERDOWN The cluster is down")
		time.Sleep(time.Minute)
		require.True(t, held.Valid())
		require.Empty(t, c.Stats().Renewal.Lost)
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// TestTheReaderWhoseKeyIsGoneIsLookedForOnBothServers, again and again: one of its two keys may be on its way.
func TestTheReaderWhoseKeyIsGoneIsLookedForOnBothServers(t *testing.T) {
	whileASlotMoves(t, func(t *testing.T, is *fixture.Islands, c *lock.Client, held *lock.Held) {
		is.AssignSlots("a")
		reader, err := c.RWMutex("rw").Reader().Lock(context.Background())
		require.NoError(t, err)
		require.NoError(t, held.Unlock(context.Background()))
		is.AssignSlots("b")
		time.Sleep(time.Second)
		require.True(t, reader.Valid())
		refused := is.CountRefused()
		is.Do(t, "a", "DEL", "rw")
		<-reader.Done()
		require.ErrorIs(t, reader.Err(), lock.ErrLost)
		again := is.CountRefused() - refused
		require.Greater(t, again, 2)
		require.Less(t, again, 60)
	})
}

// TestAHoldThatIsGoneWhileItsSlotMovesIsToldSoon: in a third of the lease there is a renewal.
func TestAHoldThatIsGoneWhileItsSlotMovesIsToldSoon(t *testing.T) {
	whileASlotMoves(t, func(t *testing.T, is *fixture.Islands, _ *lock.Client, held *lock.Held) {
		is.Do(t, "a", "DEL", "m")
		time.Sleep(10*time.Second + 100*time.Millisecond)
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		require.Equal(t, 2, is.CountRefused(), "b is asked once more")
	})
	// If b cannot be asked, the holder is told when its trust ends.
	whileASlotMoves(t, func(t *testing.T, is *fixture.Islands, _ *lock.Client, held *lock.Held) {
		end := held.Deadline()
		is.Do(t, "a", "DEL", "m")
		is.Refuse("b", "CLUSTERDOWN The cluster is down")
		<-held.Done()
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		require.WithinRange(t, time.Now(), end.Add(-time.Second), end.Add(100*time.Millisecond))
		require.False(t, held.Valid())
	})
}
