package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock"
)

func TestASemaphoreThatComesAndGoesAgainstAModel(t *testing.T) {
	servers := twoServers(t, lock.Config{})
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		calls := drawCalls(rt, []string{"set", "acquire", "release", "release if", "release if", "none", "delete", "expire"}, 6)
		name := keyOf(t)
		for server, clients := range servers {
			exists, ends, free := false, false, int64(0)
			for _, x := range calls {
				sem, what := clients[x.Client].Semaphore(name), fmt.Sprint(server, x)
				switch x.Op {
				case "set":
					done, err := sem.TrySet(ctx, x.N)
					require.NoError(rt, err, what)
					require.Equal(rt, !exists, done, what)
					if done {
						exists, free = true, x.N
					}
				case "acquire":
					err := sem.TryAcquire(ctx, x.N)
					if free >= x.N {
						require.NoError(rt, err, what)
						free -= x.N
					} else {
						require.ErrorIs(rt, err, lock.ErrNotAcquired, what)
					}
				case "release":
					require.NoError(rt, sem.Release(ctx, x.N), what)
					exists, free = true, free+x.N
				case "release if":
					done, err := sem.ReleaseIfExists(ctx, x.N)
					require.NoError(rt, err, what)
					require.Equal(rt, exists, done, what)
					if exists {
						free += x.N
					}
				case "none":
					require.NoError(rt, sem.Acquire(ctx, 0), what)
					require.NoError(rt, sem.Release(ctx, 0), what)
					done, err := sem.ReleaseIfExists(ctx, 0)
					require.NoError(rt, err, what)
					require.Equal(rt, exists, done, what)
				case "delete":
					done, err := sem.Delete(ctx)
					require.NoError(rt, err, what)
					require.Equal(rt, exists, done, what)
					exists, ends, free = false, false, 0
				case "expire":
					done, err := sem.Expire(ctx, time.Hour)
					require.NoError(rt, err, what)
					require.Equal(rt, exists, done, what)
					ends = exists
				}
				n, err := sem.Available(ctx)
				require.NoError(rt, err, what)
				require.Equal(rt, free, n, what)
				left, err := sem.TTL(ctx)
				require.NoError(rt, err, what)
				require.Equal(rt, []bool{exists, ends}, []bool{left != 0, left > 0}, what)
			}
		}
	})
}
