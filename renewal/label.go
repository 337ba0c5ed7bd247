package renewal

import (
	"context"
	"runtime/pprof"
)

// label names the goroutine that runs it in profiles. It has none of the labels of whoever
// started it then.
func label(role string) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("wheellock", role)))
}
