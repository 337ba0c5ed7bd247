package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// TestTheSizeOfAHold: with a million locks each byte counts.
func TestTheSizeOfAHold(t *testing.T) {
	hold, inRun := lock.HoldSizes()
	require.EqualValues(t, 208, hold)
	require.EqualValues(t, 216, inRun)
}

// BenchmarkHandedOverMemory is the live heap of one lock that was handed over, with its
// name.
func BenchmarkHandedOverMemory(b *testing.B) {
	c, ctx := fixture.ClientOf(b, fixture.Server(b), lock.Config{}), context.Background()
	const locks = 20_000
	for b.Loop() {
		helds := make([]*lock.Held, 0, locks)
		before := liveHeap()
		for i := range locks {
			m := c.Mutex("lock:" + strconv.Itoa(i))
			first, err := m.Lock(ctx)
			require.NoError(b, err)
			got := make(chan *lock.Held)
			go func() {
				held, err := m.Lock(ctx)
				if err != nil {
					b.Error(err)
				}
				got <- held
			}()
			for lock.GateLen(m) == 0 {
				runtime.Gosched()
			}
			require.NoError(b, first.Unlock(ctx))
			helds = append(helds, <-got)
		}
		b.ReportMetric(float64(liveHeap()-before)/locks, "B/lock")
		for _, held := range helds {
			require.NoError(b, held.Unlock(ctx))
		}
	}
}

// TestAHoldThatWasHandedOverKeepsNoQueue: nor a waiter, and nobody listens for it.
func TestAHoldThatWasHandedOverKeepsNoQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	inBubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, other *lock.Client) {
		const locks = 2000
		ctx := context.Background()
		var helds []*lock.Held
		got := make(chan *lock.Held)
		for i := range locks {
			name := fmt.Sprint("lock:", i)
			first, err := other.Mutex(name).Lock(ctx)
			require.NoError(t, err)
			for range 2 {
				go func() {
					held, err := c.Mutex(name).Lock(ctx)
					if err != nil {
						t.Error(err)
					}
					got <- held
				}()
				synctest.Wait()
			}
			require.NoError(t, first.Unlock(ctx))
			require.NoError(t, (<-got).Unlock(ctx))
			helds = append(helds, <-got)
		}
		require.Zero(t, lock.Callers(c))
		time.Sleep(time.Minute)
		require.Equal(t, locks, c.Stats().Held)
		require.Empty(t, fixture.Strings(t, s, "PUBSUB", "CHANNELS", "*lock:*"))
		for _, held := range helds {
			require.NoError(t, held.Unlock(ctx))
		}
	})
}

// TestARunGoesOnThoughNobodyIsInLineForAMoment: another client has its turn as soon.
func TestARunGoesOnThoughNobodyIsInLineForAMoment(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		other, err := lock.New(b.s.Pool(0), lock.Config{})
		require.NoError(b, err)
		theirs := make(chan *lock.Held, 1)
		held, err := b.m.Lock(ctx)
		require.NoError(b, err)
		go func() {
			held, err := other.Mutex("m").Lock(ctx)
			if err != nil {
				b.Error(err)
			}
			theirs <- held
		}()
		synctest.Wait()
		turns := 0
		for ; len(theirs) == 0; turns++ {
			require.Less(b, turns, 100)
			b.wait(1, b.m.Lock)
			time.Sleep(100 * time.Microsecond)
			require.NoError(b, held.Unlock(ctx))
			synctest.Wait()
			if len(b.held) == 0 {
				time.Sleep(3 * time.Millisecond)
				require.NotEmpty(b, theirs)
				continue
			}
			held = <-b.held
			require.Zero(b, lock.Callers(b.c))
		}
		require.InDelta(b, 17, turns, 1)
		require.NoError(b, (<-theirs).Unlock(ctx))
		require.NoError(b, (<-b.held).Unlock(ctx))
		require.NoError(b, other.Close(ctx))
	})
}
