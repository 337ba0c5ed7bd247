package lock

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause after the try-th unknown outcome in a row.
func backoff(try int) time.Duration {
	d := min(10*time.Millisecond<<min(try, 7), time.Second)
	return d - rand.N(d/4+1)
}

// pause waits for d; it returns early, with an error, if ctx ends, and early
// without one if stop is closed.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// isClosed reports whether ch is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
