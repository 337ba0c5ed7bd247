//go:build race

package bounded

// RaceDetector is on: everything is several times slower, and sync.Pool forgets at random.
const RaceDetector = true
