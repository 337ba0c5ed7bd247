//go:build race

package wheel_test

// raceDetector is on: sync.Pool forgets at random then, and everything is slower.
const raceDetector = true
