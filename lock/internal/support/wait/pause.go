package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff returns the pause after n+1 unknown outcomes in a row. It grows from 10 ms to a
// second. A random part of up to a quarter is subtracted, so that clients do not try at the
// same time.
func Backoff(r *rand.Rand, n int) time.Duration {
	d := min(10*time.Millisecond<<min(n, 7), time.Second)
	return d - Upto(r, d/4+1)
}

// Ended returns why ctx has ended, or nil. A context of the program's own may close its Done
// and have no Err. It counts as cancelled.
func Ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil && Closed(ctx.Done()) {
		if err = ctx.Err(); err == nil { // it may have ended meanwhile
			err = context.Canceled
		}
	}
	return err
}

// Left returns how much time is left from now to until, by the clock that leaves less. The monotonic
// clock stands still while the machine is suspended or its virtual machine is paused, and Redis goes on. The
// wall clock may be set. If it is set forward, the result is too small.
func Left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// Sound returns ctx with an Err that says what Ended does. Package context panics if a parent
// has ended without an Err, so derive contexts only from a Sound one.
func Sound(ctx context.Context) context.Context { return sound{ctx} }

type sound struct{ context.Context }

func (s sound) Err() error { return Ended(s.Context) }

// Pause waits for d. It returns early with Ended if ctx ends, and early without an error
// if stop is closed.
func Pause(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	if err := Ended(ctx); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	case <-ctx.Done():
		return Ended(ctx)
	}
	return nil
}

// Closed reports whether ch is closed.
func Closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Signal puts a token into wake, which has capacity 1, unless one is there.
func Signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
