package lock_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAProfileSaysWhatGoroutinesAreFor: and counts none of them to the call that started them.
func TestAProfileSaysWhatGoroutinesAreFor(t *testing.T) {
	s := onRedis(t)
	held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex(t.Name()).Lock)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	waited := make(chan error, 1)
	pprof.Do(ctx, pprof.Labels("call", t.Name()), func(ctx context.Context) {
		mine, err := c.Mutex("mine").Lock(ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, mine.Unlock(ctx)) }()
		go func() {
			_, err := c.Mutex(t.Name()).Lock(ctx) // it listens
			waited <- err
		}()
		profile := func() string {
			var b bytes.Buffer
			require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
			return b.String()
		}
		for _, role := range []string{"write commands", "read answers", "subscribe", "read messages", "renew"} {
			require.Eventually(t, func() bool { return strings.Contains(profile(), `"wheellock":"`+role+`"`) }, time.Minute, time.Millisecond, role)
		}
		for stack := range strings.SplitSeq(profile(), "\n\n") {
			// One that has returned, and is just ending, has no function any more: those of Eventually do that.
			if strings.Contains(stack, `"call":`) && !strings.Contains(stack, "runtime.goexit1") {
				require.Contains(t, stack, "lock_test.TestAProfile", "it is one of the test's own")
			}
		}
		cancel()
		require.ErrorIs(t, bounded.Receive(t, waited), context.Canceled)
	})
	require.NoError(t, held.Unlock(bounded.Context(t)))
}
