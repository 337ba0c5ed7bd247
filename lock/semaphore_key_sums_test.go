package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestASemaphoreSetLaterIsNotDeletedByARequestThatIsLate, nor does it end with an
// Expire of the one before, and ReleaseIfExists gives it nothing twice.
func TestASemaphoreSetLaterIsNotDeletedByARequestThatIsLate(t *testing.T) {
	s := onRedis(t)
	for _, target := range []string{"semaphore_delete", "semaphore_expire", "semaphore_release", "*"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, target, 29, 300*time.Millisecond)
			ctx := context.Background()
			c, err := lock.New(f.Pool(), lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond})
			require.NoError(t, err)
			// sure asks until the answer is known: an unknown deed takes place, once.
			sure := func(op func() (bool, error), over func() bool) {
				t.Helper()
				done, err := op()
				if errors.Is(err, lock.ErrUnknown) {
					require.Eventually(t, over, time.Minute, time.Millisecond)
					return
				}
				require.NoError(t, err)
				require.True(t, done)
			}
			end := time.Now().Add(faultTime())
			want := map[string]string{}
			rounds := 0
			for ; time.Now().Before(end); rounds++ {
				key := keyOf(t)
				for kind := range semaphores(c, key) {
					key := key + kind
					sem := semaphores(c, key)[kind]
					fixture.Do(t, s, "SET", key, 3) // a bystander: its deeds are known
					if kind == "Semaphore" {
						sure(func() (bool, error) { return c.Semaphore(key).ReleaseIfExists(ctx, 4) },
							func() bool { return string(fixture.Do(t, s, "GET", key).([]byte)) == "7" })
						require.Equal(t, []byte("7"), fixture.Do(t, s, "GET", key))
					}
					sure(func() (bool, error) { return sem.Expire(ctx, time.Hour) },
						func() bool { return fixture.PTTL(t, s, key) > 0 })
					sure(func() (bool, error) { return sem.Delete(ctx) },
						func() bool { return !fixture.Exists(t, s, key) })
					fixture.Do(t, s, "SET", key, rounds)
					fixture.Do(t, s, "ZADD", "{"+key+"}:timeout", javaNever, "java-permit-0001")
					want[key] = fmt.Sprint(rounds)
				}
			}
			faults := f.rest()
			require.NoError(t, c.Close(ctx))
			f.stopLate(t)
			for key, n := range want {
				require.Equal(t, []byte(n), fixture.Do(t, s, "GET", key))
				require.EqualValues(t, -1, fixture.PTTL(t, s, key))
				require.EqualValues(t, -1, fixture.PTTL(t, s, "{"+key+"}:timeout"))
			}
			t.Logf("%d rounds, %d faults: %v", rounds, faults, f)
			require.Positive(t, faults)
		})
	}
}
