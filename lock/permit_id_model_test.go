package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock"
)

// TestPermitsByIDAgainstAModel: two clients take permits and release and set those of
// each other by their ids; the model is a map of ids.
func TestPermitsByIDAgainstAModel(t *testing.T) {
	servers := twoServers(t, lock.Config{})
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		calls := drawCalls(rt, []string{
			"acquire", "acquire", "acquire", "release", "release", "release some", "set lease", "lease", "unlock", "set", "delete", "expire",
		}, 6)
		name := keyOf(t)
		for server, clients := range servers {
			exists, ends, free := true, false, int64(12)
			require.NoError(rt, clients[0].PermitSemaphore(name).Set(ctx, free), server)
			taken := map[string]bool{} // by id: its lease was set to a day
			var known []string         // ids that were given out, in their order
			var helds []*lock.Held
			for _, x := range calls {
				sem, what := clients[x.Client].PermitSemaphore(name), fmt.Sprint(server, x)
				nth := func() string { // some id, taken or not, or one that never was
					if len(known) == 0 {
						id, _ := javaID(byte(x.N))
						return id
					}
					return known[int(x.N)*7%len(known)]
				}
				gone := func(ids []string) []string {
					var gone []string
					for _, id := range ids {
						if _, ok := taken[id]; !ok {
							gone = append(gone, id)
						}
					}
					return gone
				}
				release := func(ids []string) {
					err := sem.Release(ctx, ids...)
					if gone := gone(ids); gone != nil {
						requireGone(rt, err, gone...)
						return
					}
					require.NoError(rt, err, what)
					for _, id := range ids {
						delete(taken, id)
					}
					free += int64(len(ids))
				}
				switch x.Op {
				case "acquire":
					held, err := sem.TryAcquireFor(ctx, x.N, time.Hour)
					if free < x.N {
						require.ErrorIs(rt, err, lock.ErrNotAcquired, what)
						break
					}
					require.NoError(rt, err, what)
					free -= x.N
					helds = append(helds, held)
					for _, id := range held.Permits() {
						require.NotContains(rt, known, id, "ids are new")
						known, taken[id] = append(known, id), false
					}
				case "release":
					release([]string{nth()})
				case "release some":
					ids := slices.Clone(known[max(0, len(known)-int(x.N)):])
					slices.Reverse(ids)
					release(ids)
				case "set lease":
					id := nth()
					err := sem.SetLease(ctx, id, 24*time.Hour)
					if gone := gone([]string{id}); gone != nil {
						requireGone(rt, err, gone...)
						break
					}
					require.NoError(rt, err, what)
					taken[id] = true
				case "lease":
					id := nth()
					left, err := sem.Lease(ctx, id)
					if gone := gone([]string{id}); gone != nil {
						requireGone(rt, err, gone...)
						break
					}
					require.NoError(rt, err, what)
					want := time.Hour
					if taken[id] {
						want = 24 * time.Hour
					}
					require.InDelta(rt, want, left, float64(time.Minute), what)
				case "unlock":
					if len(helds) == 0 {
						break
					}
					held := helds[0]
					helds = helds[1:]
					ids := held.Permits()
					missing := len(gone(ids))
					err := held.Unlock(ctx)
					if missing > 0 {
						require.ErrorIs(rt, err, lock.ErrLost, what)
					} else {
						require.NoError(rt, err, what)
					}
					for _, id := range ids {
						delete(taken, id)
					}
					free += int64(len(ids) - missing)
				case "set":
					require.NoError(rt, sem.Set(ctx, 3*x.N), what)
					exists, free = true, 3*x.N-int64(len(taken))
				case "delete":
					done, err := sem.Delete(ctx)
					require.NoError(rt, err, what)
					require.Equal(rt, exists, done, what)
					exists, free, ends = false, 0, false
					clear(taken)
				case "expire":
					done, err := sem.Expire(ctx, time.Hour)
					require.NoError(rt, err, what)
					require.Equal(rt, exists, done, what)
					ends = exists
				}
				info, err := sem.Inspect(ctx)
				require.NoError(rt, err, what)
				require.Equal(rt, lock.PermitInfo{Exists: exists, Available: free, Taken: int64(len(taken))}, info, what)
				left, err := sem.TTL(ctx)
				require.NoError(rt, err, what)
				switch {
				case !exists:
					require.Zero(rt, left, what)
				case !ends:
					require.EqualValues(rt, -1, left, what)
				default:
					require.InDelta(rt, time.Hour, left, float64(time.Minute), what)
				}
			}
			for _, held := range helds {
				_ = held.Unlock(ctx)
			}
		}
	})
}
