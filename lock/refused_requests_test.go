package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// forNow are the answers of a server that refuses all scripts for now.
var forNow = []redis.Error{
	"NOREPLICAS Not enough good replicas to write.",
	"MISCONF Errors writing to the AOF file: No space left on device",
	"@user_script: 65: -MISCONF Errors writing to the AOF file: No space left on device",
	"READONLY You can't write against a read only replica.",
	"LOADING Redis is loading the dataset in memory",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"CLUSTERDOWN The cluster is down",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"ERR max number of clients reached",
}

// onAnIsland runs f in a bubble with a client of one server.
func onAnIsland(t *testing.T, f func(t *testing.T, is *fixture.Islands, c *lock.Client)) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a")
		c, err := lock.NewTopology(is, lock.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(context.Background())
		require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
		is.Give("a")
		defer fixture.CloseNow(c)
		f(t, is, c)
		require.NoError(t, c.Close(context.Background()))
		require.Empty(t, fixture.LockKeys(t, is.Server("a")))
	})
}

// TestAServerThatRefusesForNowGetsFewRequests: at most three a second of each Lock that waits, and two of
// each hold that is lost and unlocked. Each caller is told what the server says, and a caller
// that has left leaves nothing that is sent again. bench/BENCHMARKS.md has the table that -v prints.
func TestAServerThatRefusesForNowGetsFewRequests(t *testing.T) {
	const period = 30 * time.Second
	each := func(n int, s time.Duration) float64 { return float64(n) / s.Seconds() }
	for i, said := range forNow {
		code, _, _ := strings.Cut(strings.TrimPrefix(string(said), "@user_script: 65: -"), " ")
		crowds := []int{1, 10, 100, 300}
		if i > 0 && fixture.Briefly() {
			crowds = crowds[:2]
		}
		for _, callers := range crowds {
			onAnIsland(t, func(t *testing.T, is *fixture.Islands, c *lock.Client) {
				is.Refuse("a", said)
				_, err := c.Mutex("tried").TryLock(t.Context())
				require.ErrorIs(t, err, lock.ErrUnknown)
				require.ErrorContains(t, err, string(said))
				tried := is.SentOn()
				ctx, cancel := context.WithTimeout(t.Context(), period)
				defer cancel()
				errs := make([]error, callers)
				var wg sync.WaitGroup
				for i := range callers {
					wg.Go(func() { _, errs[i] = c.Mutex(fmt.Sprint("m", i)).Lock(ctx) })
				}
				wg.Wait()
				for _, err := range errs {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, err, lock.ErrUnknown)
					require.ErrorContains(t, err, string(said))
				}
				waited := is.SentOn() - tried
				time.Sleep(period)
				left := is.SentOn() - tried - waited
				t.Logf("%s: %d callers: %.1f scripts/s while they wait, %.1f afterwards", code, callers, each(waited, period), each(left, period))
				require.LessOrEqual(t, each(waited, period), 3*float64(callers)) // after TRYAGAIN a second script asks for a lock without a token
				if code != "READONLY" {                                          // it ends its connection, and what else is under way there has no answer
					require.Zero(t, left)
				}
				require.LessOrEqual(t, each(left, period), float64(callers))
				is.Refuse("a", "")
			})
		}
		if i > 0 && fixture.Briefly() || code == "READONLY" { // it ends a connection at each answer
			continue
		}
		onAnIsland(t, func(t *testing.T, is *fixture.Islands, c *lock.Client) {
			const lost = 3000
			var helds []*lock.Held
			for i := range lost {
				held, err := c.Mutex(fmt.Sprint("m", i)).Lock(t.Context())
				require.NoError(t, err)
				helds = append(helds, held)
			}
			is.Refuse("a", said)
			for _, held := range helds {
				<-held.Done()
			}
			var wg sync.WaitGroup
			errs := make([]error, lost)
			for i, held := range helds {
				wg.Go(func() { errs[i] = held.Unlock(t.Context()) })
			}
			before := is.SentOn()
			time.Sleep(period)
			after := is.SentOn() - before
			wg.Wait()
			for _, err := range errs {
				require.ErrorIs(t, err, lock.ErrLost)
				var reply redis.Error
				require.True(t, errors.As(err, &reply), "%v", err)
				require.Equal(t, said, reply)
			}
			t.Logf("%s: %d lost holds: %.1f scripts/s", code, lost, each(after, period))
			require.LessOrEqual(t, each(after, period), 2.0*lost)
			is.Refuse("a", "")
			time.Sleep(period)
		})
	}
}
