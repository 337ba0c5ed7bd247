package run

import (
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
)

// The phases of a row in which it holds its locks and waits. The progress of PhaseHold and PhaseWatch
// is counted in seconds, and the progress of other phases in locks. phaseSettle has no progress.
const (
	PhaseHold  = "hold"
	PhaseWatch = "watch"

	phaseSettle = "settle"
)

// Progress hears how far the rows are. One goroutine calls its methods and waits
// for them.
type Progress interface {
	// Start is called before the first row, with the numbers of locks of all
	// rows, in the order in which they will run.
	Start(locks []int)
	// Begin is called before every row, and End after it.
	Begin(r report.Row, now time.Time)
	End(now time.Time)
	// Step is called when a row's process reports, about once a second, with
	// the phase that it is in and how much of that is done.
	Step(phase string, done int, now time.Time)
}
