package world_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// TestALockThatIsNotRenewedIsCheckedOnAServerThatHasComeBack: it may be empty, or another one with its name.
func TestALockThatIsNotRenewedIsCheckedOnAServerThatHasComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a")
		c, err := lock.NewTopology(is, lock.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		ctx := context.Background()
		_, err = c.Mutex("early").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
		is.AssignSlots("a")
		renewed, err := c.Mutex("renewed").TryLock(ctx)
		require.NoError(t, err)
		fixed, err := c.Mutex("fixed").LockFor(ctx, time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, is.Server("a").Kill())
		time.Sleep(time.Second)
		require.NoError(t, is.Server("a").Restart(ctx))
		time.Sleep(20 * time.Second) // some renewals
		require.ErrorIs(t, renewed.Err(), lock.ErrLost)
		require.ErrorIs(t, fixed.Err(), lock.ErrLost)
	})
}

func TestHoldsFollowTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a", "b")
		c, err := lock.NewTopology(is, lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		_, err = c.Mutex("early").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
		is.AssignSlots("a")
		var helds []*lock.Held
		for i := range 100 {
			held, err := c.Mutex(fmt.Sprint("m", i)).Lock(ctx)
			require.NoError(t, err)
			helds = append(helds, held)
		}
		fixed, err := c.Mutex("fixed").LockFor(ctx, time.Hour)
		require.NoError(t, err)
		// Half of the slots go to b, which has got some of the locks.
		got := map[string]bool{}
		for i, held := range helds {
			if i%2 == 0 {
				field, err := redis.Strings(is.Do(t, "a", "HKEYS", held.Name()), nil)
				require.NoError(t, err)
				is.Do(t, "b", "HSET", held.Name(), field[0], 1)
				is.Do(t, "b", "PEXPIRE", held.Name(), 20000)
				got[held.Name()] = true
			}
		}
		renewed := c.Stats().Renewal.Renewed
		is.AssignSlots("a", "b")
		time.Sleep(100 * time.Millisecond) // far less than to the next renewals
		lost := 0
		for _, held := range helds {
			onB := redisc.Slot(held.Name())%2 == 1
			if onB && !got[held.Name()] {
				var e *lock.LostError
				require.ErrorAs(t, held.Err(), &e)
				require.Equal(t, lock.NotOwner, e.Reason)
				lost++
				continue
			}
			require.True(t, held.Valid(), held.Name())
			if onB {
				renewed++
			}
		}
		require.Greater(t, lost, 10)
		if redisc.Slot("fixed")%2 == 1 {
			require.ErrorIs(t, fixed.Err(), lock.ErrLost)
		} else {
			require.NoError(t, fixed.Err())
		}
		require.GreaterOrEqual(t, c.Stats().Renewal.Renewed, renewed, "those on b at once, and others if they are due")
		time.Sleep(time.Minute)
		is.AssignSlots("", "b") // a slot without a server stays where it was
		time.Sleep(time.Minute)
		for _, held := range helds {
			if held.Valid() {
				require.NoError(t, held.Unlock(ctx))
				lost++
			}
		}
		require.Equal(t, 100, lost)
		fixture.CloseNow(c)
	})
}

// slowIsland is a Topology in which the answers of a come over a Wire.
type slowIsland struct {
	*fixture.Islands
	toA *redis.Pool
}

func (s slowIsland) Dial(ctx context.Context, server string) (redis.Conn, error) {
	if server == "a" {
		return s.toA.DialContext(ctx)
	}
	return s.Islands.Dial(ctx, server)
}

// TestAHoldWhoseSlotMovedBeforeItWasKnownIsChecked: the old server granted it, and the new one does not
// have it.
func TestAHoldWhoseSlotMovedBeforeItWasKnownIsChecked(t *testing.T) {
	for name, lease := range map[string]time.Duration{"renewed": 0, "fixed": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := fixture.NewIslands(t, "a", "b")
				wire := fixture.NewWire(is.Server("a"))
				c := fixture.Client(t, slowIsland{is, wire.Pool()}, lock.Config{Lease: time.Minute})
				ctx := context.Background()
				_, err := c.Mutex("first").TryLock(ctx)
				require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
				is.AssignSlots("a")
				require.NoError(t, fixture.Hold(t, c.Mutex("first").Lock).Unlock(ctx))
				wire.Delay(100 * time.Millisecond)
				go func() {
					time.Sleep(50 * time.Millisecond)
					is.AssignSlots("a", "b") // by turns
				}()
				moves := "m"
				for redisc.Slot(moves)%2 == 0 {
					moves += "m"
				}
				take := c.Mutex(moves).Lock
				if lease > 0 {
					take = func(ctx context.Context) (*lock.Held, error) { return c.Mutex(moves).LockFor(ctx, lease) }
				}
				held := fixture.Hold(t, take)
				time.Sleep(time.Second)
				var lost *lock.LostError
				require.ErrorAs(t, held.Err(), &lost)
				require.Equal(t, lock.NotOwner, lost.Reason)
			})
		})
	}
}

// TestAServerThatIsNoMoreIsForgotten, with its connections and goroutines, when no
// request can be on its way to the server any more. If the server comes back, it is used again.
func TestAServerThatIsNoMoreIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a", "b")
		c, err := lock.NewTopology(is, lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		go func() {
			is.Announce(topology.Layout{Servers: []topology.Server{{Name: "a"}}, Slots: make([]int, 16384)})
		}()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		fixed, err := c.Mutex("fixed").LockFor(ctx, time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		is.AssignSlots("b")
		time.Sleep(time.Minute)
		require.ErrorIs(t, held.Err(), lock.ErrLost, "b has it not")
		require.ErrorIs(t, fixed.Err(), lock.ErrLost)
		require.Positive(t, is.Connections("a"), "somebody may be on the way")
		before := c.Stats().Renewal
		time.Sleep(2 * time.Minute)
		require.Zero(t, is.Connections("a"))
		require.Equal(t, before.Renewed, c.Stats().Renewal.Renewed, "what was counted stays")
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 2}, c.Stats().Renewal.Lost)
		is.AssignSlots("a")
		held, err = c.Mutex("n").Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, c.Close(ctx))
		require.Zero(t, is.Connections("a")+is.Connections("b"))
	})
}
