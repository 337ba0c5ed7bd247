package world_test

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

// whileTheSlotMoves runs f in a bubble with a client of two servers. Server a has all slots. f makes it
// answer as if they were being moved to b. A script of a RWMutex that takes, releases or deletes does not
// follow the redirection.
func whileTheSlotMoves(t *testing.T, f func(t *testing.T, is *fixture.Islands, rw *lock.RWMutex)) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a", "b")
		c, err := lock.NewTopology(is, lock.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(context.Background())
		require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
		is.AssignSlots("a")
		f(t, is, c.RWMutex("rw"))
		time.Sleep(time.Minute)
		require.Zero(t, c.Stats().Held)
		require.NoError(t, c.Close(context.Background()))
		require.Empty(t, fixture.Keys(t, is.Server("a"), "*rw*"))
		require.Empty(t, fixture.Keys(t, is.Server("b"), "*rw*"))
	})
}

// TestLockOfARWMutexWhoseSlotMovesTriesAfterPauses that grow to a second, and has the lock soon after
// the slot has arrived. A caller that gives up leaves nothing that is sent again and again.
func TestLockOfARWMutexWhoseSlotMovesTriesAfterPauses(t *testing.T) {
	for kind, of := range map[string]func(*lock.RWMutex) *lock.Mutex{"Reader": (*lock.RWMutex).Reader, "Writer": (*lock.RWMutex).Writer} {
		for said, told := range map[redis.Error]string{
			"ASK 1 b": "ASK 1 b",
			"TRYAGAIN Multiple keys request during rehashing of slot": "TRYAGAIN Multiple keys request during rehashing of slot",
			"MOVED 1 ?:99": "TRYAGAIN the slot is on its way to a node that tells no name, and that is not known yet",
		} {
			t.Run(kind+" "+string(said), func(t *testing.T) {
				whileTheSlotMoves(t, func(t *testing.T, is *fixture.Islands, rw *lock.RWMutex) {
					is.Refuse("a", said)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					_, err := of(rw).Lock(ctx)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, err, lock.ErrUnknown)
					require.ErrorContains(t, err, "its hash slot is being moved")
					tries := is.CountRefused()
					require.Greater(t, tries, 60)
					require.Less(t, tries, 8+60*4/3+10, "a pause is at most a quarter shorter than it may be")
					is.Refuse("a", "")
					time.Sleep(time.Minute) // a writer has withdrawn

					is.Refuse("a", said)
					_, err = of(rw).TryLock(t.Context())
					require.EqualError(t, err, `lock: acquire of "rw": its hash slot is being moved: `+told+": this request took nothing, so try again when the slot has arrived")
					tries = is.CountRefused()
					time.Sleep(time.Minute)
					require.Equal(t, tries, is.CountRefused(), "nothing is left to give back")

					got := make(chan *lock.Held, 1)
					go func() {
						held, err := of(rw).Lock(context.Background())
						if err != nil {
							t.Error(err)
						}
						got <- held
					}()
					time.Sleep(time.Minute)
					require.Empty(t, got)
					is.Refuse("a", "")
					began := time.Now()
					held := <-got
					require.LessOrEqual(t, time.Since(began), time.Second)
					require.NoError(t, held.Unlock(context.Background()))
				})
			})
		}
	}
}

// TestUnlockOfARWMutexWhoseSlotMovesEndsInTime. If Unlock could not release the hold, the client releases
// it later by itself.
func TestUnlockOfARWMutexWhoseSlotMovesEndsInTime(t *testing.T) {
	for kind, of := range map[string]func(*lock.RWMutex) *lock.Mutex{"Reader": (*lock.RWMutex).Reader, "Writer": (*lock.RWMutex).Writer} {
		t.Run(kind, func(t *testing.T) {
			whileTheSlotMoves(t, func(t *testing.T, is *fixture.Islands, rw *lock.RWMutex) {
				held, err := of(rw).Lock(t.Context())
				require.NoError(t, err)
				is.RefuseWithASK("a", "b")
				began := time.Now()
				err = held.Unlock(t.Context())
				require.LessOrEqual(t, time.Since(began), 3*time.Second, "the default of UnlockTimeout")
				require.ErrorIs(t, err, lock.ErrUnknown)
				require.EqualError(t, err, `lock: release of "rw": its hash slot is being moved: ASK 1 b: the client keeps trying`)
				require.False(t, held.Valid())
				require.True(t, fixture.Exists(t, is.Server("a"), "rw"))
				is.Refuse("a", "")
				time.Sleep(time.Second)
				require.False(t, fixture.Exists(t, is.Server("a"), "rw"), "before its lease ends")
			})
		})
	}
}

// TestForceUnlockOfARWMutexWhoseSlotMovesDeletesNothing and says so.
func TestForceUnlockOfARWMutexWhoseSlotMovesDeletesNothing(t *testing.T) {
	whileTheSlotMoves(t, func(t *testing.T, is *fixture.Islands, rw *lock.RWMutex) {
		held, err := rw.Reader().Lock(t.Context())
		require.NoError(t, err)
		fixture.Do(t, is.Server("b"), "HSET", "rw", "mode", "read", "java:1", "1") // it has gone ahead of its timeout
		is.RefuseWithASK("a", "b")
		_, err = rw.Reader().ForceUnlock(t.Context())
		require.EqualError(t, err, `lock: force of "rw": its hash slot is being moved: ASK 1 b: try again when the slot has arrived`)
		require.Len(t, fixture.Hash(t, is.Server("b"), "rw"), 2)
		require.True(t, held.Valid())
		fixture.Do(t, is.Server("b"), "DEL", "rw")
		is.Refuse("a", "")
		require.NoError(t, held.Unlock(t.Context()))
	})
}
