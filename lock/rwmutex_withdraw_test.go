package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAWriterThatLeavesIsNotAnnouncedAfterwards: its last try is still on its way
// when it withdraws, and must not come last.
func TestAWriterThatLeavesIsNotAnnouncedAfterwards(t *testing.T) {
	for _, replicas := range []int{0, 1} {
		t.Run(fmt.Sprint("replicas=", replicas), func(t *testing.T) {
			t.Parallel()
			s := onRedis(t)
			cfg := lock.Config{Connections: 8, MaxPoll: time.Minute}
			if replicas > 0 {
				s, _ = fixture.WithReplica(t)
				cfg.Replicas = replicas
			}
			reader := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			for i := range 8 { // connections are chosen by a hash of the name
				st := fixture.Stall(t, s)
				writer := fixture.ClientOver(t, st, cfg)
				name := fmt.Sprintf("%s.%d", t.Name(), i)
				held := fixture.Hold(t, reader.RWMutex(name).Reader().Lock)
				short, cancel := context.WithCancel(ctx)
				left := make(chan error, 1)
				go func() {
					_, err := writer.RWMutex(name).Writer().Lock(short)
					left <- err
				}()
				writers := "{" + name + "}:wheellock_writers"
				require.Eventually(t, func() bool { return fixture.Exists(t, s, writers) }, time.Minute, time.Millisecond)
				st.Keep("rw_write")
				// The confirmed subscription, or this message, makes it try again.
				require.Eventually(t, func() bool {
					fixture.Do(t, s, "PUBLISH", "redisson_rwlock:{"+name+"}", "1")
					return st.Arrived("rw_write") > 0
				}, time.Minute, 5*time.Millisecond)
				cancel()
				require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
				// A withdrawal that could overtake the announcement has the time to.
				for end := time.Now().Add(50 * time.Millisecond); st.Arrived("rw_withdraw") == 0 && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				st.LetGo()
				gone := func() bool { return !fixture.Exists(t, s, writers) }
				require.Eventually(t, gone, time.Minute, 5*time.Millisecond, "readers are kept out for two minutes")
				bounded.Until(t, st.Settled)
				if replicas > 0 { // it may have been announced over another connection, and withdraws once more when that is answered
					require.Eventually(t, gone, time.Minute, 5*time.Millisecond, "readers are kept out for two minutes")
				}
				require.True(t, gone())
				require.NoError(t, held.Unlock(ctx))
			}
		})
	}
}
