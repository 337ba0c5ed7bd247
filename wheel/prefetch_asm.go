//go:build amd64 || arm64

package wheel

// prefetch has the processor load t's cache line and does not wait for it. Schedule reads the clock meanwhile, which
// otherwise waits for every load before it: where a million records are taken in random order, a fifth of Schedule and
// Stop (bench/BENCHMARKS.md). Go has no other way to ask for it outside its runtime.
//
//go:noescape
func prefetch(t *Timer)
