package report

import (
	"fmt"
	"strings"
)

// The drivers, as the rows name them.
const (
	AfterFunc      = "afterfunc"
	Wheel          = "wheel"
	AfterFuncBatch = "afterfunc-batch"
	WheelBatch     = "wheel-batch"
	Library        = "library"
	Sweep          = "sweep"
)

// Drivers are all of them, in the order in which a table has them.
func Drivers() []string {
	return []string{AfterFunc, Wheel, AfterFuncBatch, WheelBatch, Library, Sweep}
}

// Row is one driver at one number of locks. Its numbers are n/a if the row did
// not come that far.
type Row struct {
	Driver            string `json:"driver"`
	Locks             int    `json:"locks"`
	HoldSeconds       Number `json:"hold_s"`
	AcquireSeconds    Number `json:"acquire_s"`
	Renewals          Number `json:"renewals"`
	RenewalsPerSecond Number `json:"renewals_per_s"`
	Batch             Number `json:"locks_per_batch"` // renewals of one round trip, on average
	ClientCPUSeconds  Number `json:"client_cpu_s"`
	ServerCPUSeconds  Number `json:"redis_cpu_s"` // of all masters
	ClientCPU         Number `json:"client_cpu_us_per_renewal"`
	RedisCPU          Number `json:"redis_cpu_us_per_renewal"`
	RSS               Number `json:"rss_bytes"`
	Heap              Number `json:"heap_bytes"`
	Goroutines        Number `json:"goroutines"`
	GCCycles          Number `json:"gc_cycles"`
	LateP50           Number `json:"late_p50_ms"`
	LateP99           Number `json:"late_p99_ms"`
	LateMax           Number `json:"late_max_ms"`
	Missed            Number `json:"missed"`
	Lost              Number `json:"lost"`
	Connections       Number `json:"connections"` // dialled by the row, acquisition included
	Scripts           Number `json:"scripts"`     // calls of a script that the server had, during the hold
	ScriptMean        Number `json:"script_us_mean"`
	ScriptP99         Number `json:"script_us_p99"` // only of a server that bench started, from Redis 7 on
	ScriptMax         Number `json:"script_us_max"` // likewise

	Cores   Cores    `json:"cores"`
	Masters []Master `json:"masters,omitempty"` // of a Cluster

	ServerCPU []CPUSample `json:"redis_cpu_samples,omitempty"` // after the hold; with -out, of the most locks

	Faults []string `json:"faults,omitempty"` // each a line; empty if all is well

	Interrupted bool `json:"interrupted,omitempty"`
	Released    int  `json:"released,omitempty"` // locks that were held to the end and given back
}

// IsSound says that the row was measured whole and no lock was in danger.
func (r Row) IsSound() bool { return r.KeptAll() && len(r.Faults) == 0 }

// KeptAll says that every lock was kept: none was missed, and none was lost.
func (r Row) KeptAll() bool { return r.Missed.isZero() && r.Lost.isZero() }

// String names the row.
func (r Row) String() string { return fmt.Sprintf("%s, %s", r.Driver, locks(r.Locks)) }

// locks is a number of them in words.
func locks(n int) string {
	if n == 1 {
		return "1 lock"
	}
	return Count(n) + " locks"
}

// Losses is a line that says how many locks were lost and missed; empty if none
// was.
func (r Row) Losses() string {
	said := losses(r.Lost, r.Missed)
	if said == "" {
		return ""
	}
	return fmt.Sprintf("%v: %s", r, said)
}

// losses says in words how many locks were lost and missed; empty if none was.
func losses(lost, missed Number) string {
	var said []string
	switch {
	case lost.Value > 0:
		said = append(said, "lost "+locks(int(lost.Value)))
	case missed.Value > 0 && lost.Known:
		said = append(said, "lost no lock")
	}
	if missed.Value > 0 {
		said = append(said, "missed the renewal of "+locks(int(missed.Value)))
	}
	return strings.Join(said, ", ")
}

// faultsOf are lines that say what rows lost and missed and what else went wrong
// with them, each line of one row.
func faultsOf(rows []Row) []string {
	var out []string
	for _, r := range rows {
		if losses := r.Losses(); losses != "" {
			out = append(out, losses)
		}
		for _, fault := range r.Faults {
			out = append(out, fmt.Sprintf("%v: %s", r, fault))
		}
	}
	return out
}

// CheckSound returns an error if any row is not sound. The error says how many locks
// all rows have lost and missed.
func CheckSound(rows []Row) error {
	bad, faulty := 0, 0
	lost, missed := NumberOf(0), NumberOf(0)
	for _, r := range rows {
		if r.IsSound() {
			continue
		}
		bad++
		lost.Value, missed.Value = lost.Value+r.Lost.Value, missed.Value+r.Missed.Value
		if r.Losses() == "" {
			faulty++
		}
	}
	if bad == 0 {
		return nil
	}
	said := losses(lost, missed)
	if faulty > 0 {
		said = strings.TrimPrefix(fmt.Sprintf("%s, %d without a complete result", said, faulty), ", ")
	}
	return fmt.Errorf("bench: FAILED: %d of %d rows: %s", bad, len(rows), said)
}

// Master is what one master of a Cluster did in a row's hold.
type Master struct {
	Address  string `json:"address"`
	Renewals Number `json:"renewals"`
	CPU      Number `json:"redis_cpu_s"`
}

// CPUSample is how busy the server was in the time before an instant.
type CPUSample struct {
	At    Number `json:"s"`     // since sampling began
	Cores Number `json:"cores"` // of CPU, on average since the sample before
}

// OneLine is the text of an error without line breaks and without the prefix
// "bench: ", which is put before all that is printed.
func OneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"bench: ", "redistest: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
