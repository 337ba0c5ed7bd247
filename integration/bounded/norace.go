//go:build !race

package bounded

// RaceDetector is off.
const RaceDetector = false
