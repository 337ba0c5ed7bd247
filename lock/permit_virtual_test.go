package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// TestAPermitsHolderIsToldFirstWhateverTheClocksShow: the deadlines are times of day,
// but the server's. A client that does not use that clock, because it is old or may not
// ask for it, must agree within the margin.
func TestAPermitsHolderIsToldFirstWhateverTheClocksShow(t *testing.T) {
	fixture.Slow(t)
	const margin = 25 * time.Millisecond // of a lease of 1 s
	for ahead, first := range map[time.Duration]bool{
		-time.Hour: true, 0: true, 15 * time.Millisecond: true, // a tick is 10 ms
		100 * time.Millisecond: false, time.Second: false,
	} {
		for _, limited := range []bool{true, false} {
			t.Run(fmt.Sprintf("ahead=%v limited=%v", ahead, limited), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := startVirtualFair(t)
					c := v.client(lock.Config{})
					sem := c.PermitSemaphore("p")
					_, err := sem.TrySet(context.Background(), 1)
					require.NoError(t, err)
					held, err := sem.AcquireFor(context.Background(), 1, time.Second)
					require.NoError(t, err)
					begin := time.Now()
					require.Equal(t, begin.Add(time.Second-margin), held.Deadline())
					// Another client, whose clock is ahead, wants it all the time.
					for told := false; ; time.Sleep(time.Millisecond) {
						synctest.Wait()
						if held.Err() != nil {
							told = true
						}
						now, limit := time.Now().Add(ahead).UnixMilli(), int64(0)
						if limited {
							limit = time.Now().Add(time.Second).UnixMilli()
						}
						answer := v.do("EVAL", script.PermitTake.Text(), 2, "p", "{p}:timeout",
							"another-one!", 1, 0, now+1000, now, "redisson_sc:{p}", "publish", limit).([]any)
						if answer[0] == int64(1) {
							require.Equal(t, first || limited, told, "after %v", time.Since(begin))
							if limited {
								require.Less(t, time.Since(begin), 1100*time.Millisecond, "and nobody waits for longer")
							}
							return
						}
						if ahead < 0 && time.Since(begin) > 2*time.Second {
							require.False(t, limited)
							require.True(t, told, "and the permit comes back later")
							return
						}
					}
				})
			})
		}
	}
}
