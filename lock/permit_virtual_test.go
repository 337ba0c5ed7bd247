package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// TestAPermitsHolderIsToldFirstIfClocksAgreeWithinTheMargin, and not if they
// differ by more: the deadlines are times of day.
func TestAPermitsHolderIsToldFirstIfClocksAgreeWithinTheMargin(t *testing.T) {
	const margin = 25 * time.Millisecond // of a lease of 1 s
	for ahead, first := range map[time.Duration]bool{
		-time.Hour: true, 0: true, 15 * time.Millisecond: true, // a tick is 10 ms
		100 * time.Millisecond: false, time.Second: false,
	} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
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
					now := time.Now().Add(ahead).UnixMilli()
					answer := v.do("EVAL", script.PermitTake.Text(), 2, "p", "{p}:timeout",
						"another-one!", 1, 0, now+1000, now, "redisson_sc:{p}", "publish").([]any)
					if answer[0] == int64(1) {
						require.Equal(t, first, told, "after %v", time.Since(begin))
						return
					}
					if ahead < 0 && time.Since(begin) > 2*time.Second {
						require.True(t, told, "and the permit comes back later")
						return
					}
				}
			})
		})
	}
}
