//go:build amd64 || arm64

package wheel

// prefetch makes the processor load t's cache line, and does not wait for the line. Schedule reads the clock meanwhile.
// Without prefetch, reading the clock waits for every load before it, which takes a fifth of Schedule and Stop where a
// million records are used in random order (bench/BENCHMARKS.md). Outside its runtime, Go has no other way to prefetch.
//
//go:noescape
func prefetch(t *Timer)
