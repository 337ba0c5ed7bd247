package report

import "fmt"

const (
	// busyBefore is the load average, as a part of the processors, from which a
	// machine counts as busy before a run. It is high because `go run` compiles.
	busyBefore = 0.5
	// busyDuring is the part of the processors, used by other programs, from
	// which a machine counts as busy during a run.
	busyDuring = 0.25
)

// Load is how busy the machine was. All of it is n/a where the system does not
// tell.
type Load struct {
	Processors int    `json:"processors"`   // of the machine; 0 if not known
	Average    Number `json:"load_average"` // of the minute before the run
	Others     Number `json:"others_cores"` // processors that other programs used during the rows, on average
}

// what a busy machine means for the figures.
const busyMeans = "Then renewals can be late and locks can be lost because of other programs, and CPU per renewal is too high. Run bench again when the machine is idle."

// wasBusyAtStart says whether the load average before the run was high.
func (l Load) wasBusyAtStart() bool {
	return l.Processors > 0 && l.Average.Known && l.Average.Value >= busyBefore*float64(l.Processors)
}

// WarningAtStart is a line for the time before the rows, when nothing else is
// known; empty if the machine is not busy.
func (l Load) WarningAtStart() string {
	if !l.wasBusyAtStart() {
		return ""
	}
	return fmt.Sprintf("warning: this machine may be busy: the load average was %s in the last minute, with %s (`go run` counts too when it compiles). %s",
		l.Average.digits(2), l.processors(), busyMeans)
}

// warning returns a line for the report; empty if the machine was not busy. It uses the
// values measured during the rows, and the load average only if there are none, because
// the compiler is part of the load average.
func (e Environment) warning() string {
	l := e.Load
	if !l.Others.Known || l.Processors == 0 {
		return l.WarningAtStart()
	}
	if l.Others.Value < busyDuring*float64(l.Processors) {
		return ""
	}
	return fmt.Sprintf("warning: this machine was busy: during the rows other programs used %s of %s on average. %s",
		l.Others.digits(2), l.processors(), busyMeans)
}

// load is a line that says how busy the machine was; empty if that is not known.
func (e Environment) load() string {
	l := e.Load
	if l.Processors == 0 || !l.Average.Known {
		return ""
	}
	text := fmt.Sprintf("Load average before the rows: %s, with %s", l.Average.digits(2), l.processors())
	if l.Others.Known {
		text += fmt.Sprintf("; other programs used %s of them during the rows", l.Others.digits(2))
	}
	return text
}

func (l Load) processors() string {
	if l.Processors == 1 {
		return "1 processor"
	}
	return Count(l.Processors) + " processors"
}
