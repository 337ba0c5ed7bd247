// Wheelbench measures what whole processes pay for timers: CPU, memory, lateness, and the collector's work.
// Each row runs in a child process of its own; the rows of one table come one after the other in one
// run, so that they can be compared. It prints a line of JSON for each run and then the tables, with
// the median of the runs.
//
//	go run ./wheelbench [-rows rearm,idle,connections,...] [-impls wheel,afterfunc] [-n 1000] [-duration 10s] [-runs 3]
package main

import (
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
)

// result is what a child found. Not all rows have all of it.
type result struct {
	rows.Run

	CPUPerFire float64 `json:"cpu_ns_per_fire,omitempty"`
	FiresPerS  float64 `json:"fires_per_s,omitempty"`
	P50        float64 `json:"late_p50_ms,omitempty"`
	P99        float64 `json:"late_p99_ms,omitempty"`
	Max        float64 `json:"late_max_ms,omitempty"`
	Early      int     `json:"early,omitempty"` // timers that fired before their deadline, in the window or not
	Fired      int64   `json:"fired,omitempty"` // in the window
	RSS        float64 `json:"rss_mb_over_callers,omitempty"`
	GCs        uint32  `json:"gc_cycles"`
	CPU        float64 `json:"cpu_ms,omitempty"`
	WakeUps    int64   `json:"wake_ups,omitempty"`
	NsPerTimer float64 `json:"ns_per_timer,omitempty"`
	Goroutines int     `json:"goroutines,omitempty"`
	Bytes      float64 `json:"bytes_per_timer,omitempty"`
	GCCPU      float64 `json:"gc_cpu_ms_per_cycle,omitempty"`
}

type column = rows.Column[result]

var (
	cpuPerFire = column{Name: "CPU ns/fire", Of: func(r result) float64 { return r.CPUPerFire }, Form: "%.0f"}
	firesPerS  = column{Name: "fires/s", Of: func(r result) float64 { return r.FiresPerS }, Form: "%.0f"}
	p50        = column{Name: "late p50 ms", Of: func(r result) float64 { return r.P50 }, Form: "%.1f"}
	p99        = column{Name: "late p99 ms", Of: func(r result) float64 { return r.P99 }, Form: "%.1f"}
	worst      = column{Name: "late max ms", Of: func(r result) float64 { return r.Max }, Form: "%.1f"}
	early      = column{Name: "early", Of: func(r result) float64 { return float64(r.Early) }, Form: "%.0f"}
	rss        = column{Name: "RSS MB", Of: func(r result) float64 { return r.RSS }, Form: "%.0f"}
	gcs        = column{Name: "GCs", Of: func(r result) float64 { return float64(r.GCs) }, Form: "%.0f"}
	cpu        = column{Name: "CPU ms", Of: func(r result) float64 { return r.CPU }, Form: "%.2f"}
	wakeUps    = column{Name: "wake-ups", Of: func(r result) float64 { return float64(r.WakeUps) }, Form: "%.0f"}
	nsPerTimer = column{Name: "ns/timer", Of: func(r result) float64 { return r.NsPerTimer }, Form: "%.0f"}
	goroutines = column{Name: "goroutines", Of: func(r result) float64 { return float64(r.Goroutines) }, Form: "%.0f"}
	perTimer   = column{Name: "B/timer", Of: func(r result) float64 { return r.Bytes }, Form: "%.0f"}
	fired      = column{Name: "fired", Of: func(r result) float64 { return float64(r.Fired) }, Form: "%.0f"}
	perCall    = column{Name: "CPU ns/call", Of: func(r result) float64 { return r.CPUPerFire }, Form: "%.0f"}
	callsPerS  = column{Name: "calls/s", Of: func(r result) float64 { return r.FiresPerS }, Form: "%.0f"}
	process    = column{Name: "RSS of all MB", Of: func(r result) float64 { return r.RSS }, Form: "%.0f"}
	gcCPU      = column{Name: "GC CPU ms/cycle", Of: func(r result) float64 { return r.GCCPU }, Form: "%.1f"}
)

var tables = []rows.Table[result]{
	{
		Name: "rearm", Title: "%d timers, each re-armed from its callback every second",
		Counts:  []int{100_000, 1_000_000},
		Impls:   []string{"wheel", "afterfunc", "timingwheel", "gozero", "antlabs"},
		Measure: measureRearm,
		Columns: []column{cpuPerFire, firesPerS, p50, p99, worst, early, rss, gcs},
	},
	{
		Name: "burst", Title: "%d timers, all due at one instant",
		Counts:  []int{1_000_000},
		Impls:   []string{"wheel", "afterfunc", "timingwheel", "gozero", "antlabs"},
		Measure: measureBurst,
		Columns: []column{nsPerTimer, goroutines, early},
	},
	{
		Name: "hold", Title: "%d timers pending, random order, nothing due",
		Counts:  []int{10_000, 100_000, 1_000_000},
		Impls:   []string{"none", "wheel", "afterfunc", "timingwheel", "gozero", "antlabs"},
		Measure: measureHold,
		Columns: []column{perTimer, gcCPU},
	},
	{
		Name: "idle", Title: "%d far timers pending, nothing due, nobody calls",
		Counts:  []int{1_000_000},
		Impls:   []string{"none", "wheel", "afterfunc", "timingwheel", "gozero", "antlabs"},
		Measure: measureIdle,
		Columns: []column{cpu, wakeUps},
	},
	{
		Name: "connections", Title: "%d idle timeouts, put off a million times a second by 8 goroutines",
		Counts:  []int{100_000},
		Impls:   withNone,
		Measure: measureConnections,
		Columns: []column{perCall, callsPerS, fired, early, gcs},
	},
	{
		Name: "requests", Title: "%d requests a second, 99 of 100 stopped within 10 ms, the others fire after a second",
		Counts:  []int{100_000},
		Impls:   withNone,
		Measure: measureRequests,
		Columns: []column{perCall, callsPerS, fired, p99, early, gcs},
	},
	{
		Name: "retries", Title: "%d jobs that try again after 10 ms to 1 s",
		Counts:  []int{100_000},
		Impls:   []string{"wheel", "afterfunc", "timingwheel", "gozero", "antlabs"},
		Measure: measureRetries,
		Columns: []column{perCall, callsPerS, p50, p99, early, gcs},
	},
	{
		Name: "far", Title: "%d far timers, 1<<20 slots where there are slots, and one timer that fires ten times a second",
		Counts:  []int{500_000},
		Impls:   withNone,
		Measure: measureFar,
		Columns: []column{cpu, fired, p99, early, process},
	},
}

var withNone = []string{"none", "wheel", "afterfunc", "timingwheel", "gozero", "antlabs"} // none: the load alone

func main() { rows.Main(tables, 10*time.Second, 3, nil) }
