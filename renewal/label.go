package renewal

import (
	"context"
	"runtime/pprof"
)

// label names the calling goroutine in profiles. It replaces the labels that the goroutine has
// from the goroutine that started it.
func label(role string) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("wheellock", role)))
}
