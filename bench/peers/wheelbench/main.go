// Wheelbench measures what whole processes pay for timers: CPU, memory, lateness, and the collector's work.
// Each row runs in a child process of its own; the rows of one table come one after the other in one
// run, so that they can be compared. It prints a line of JSON for each run and then the tables, with
// the median of the runs.
//
//	go run ./wheelbench [-rows rearm,idle,burst,hold] [-impls wheel,afterfunc] [-duration 10s] [-runs 3]
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// result is what a child found. Not all rows have all of it.
type result struct {
	Row    string `json:"row"`
	Impl   string `json:"impl"`
	Timers int    `json:"timers"`

	CPUPerFire float64 `json:"cpu_ns_per_fire,omitempty"`
	FiresPerS  float64 `json:"fires_per_s,omitempty"`
	P50        float64 `json:"late_p50_ms,omitempty"`
	P99        float64 `json:"late_p99_ms,omitempty"`
	Max        float64 `json:"late_max_ms,omitempty"`
	Early      int     `json:"early,omitempty"` // timers that fired before their deadline, in the window or not
	RSS        float64 `json:"rss_mb_over_callers,omitempty"`
	GCs        uint32  `json:"gc_cycles"`
	CPU        float64 `json:"cpu_ms,omitempty"`
	WakeUps    int64   `json:"wake_ups,omitempty"`
	NsPerTimer float64 `json:"ns_per_timer,omitempty"`
	Goroutines int     `json:"goroutines,omitempty"`
	Bytes      float64 `json:"bytes_per_timer,omitempty"`
	GCCPU      float64 `json:"gc_cpu_ms_per_cycle,omitempty"`
}

// table is one kind of row: how it is measured, and how it is printed.
type table struct {
	name    string
	title   string
	counts  []int
	impls   []string
	measure func(impl string, n int, d time.Duration) result
	columns []column
}

type column struct {
	name string
	of   func(result) float64
	form string
}

var (
	cpuPerFire = column{"CPU ns/fire", func(r result) float64 { return r.CPUPerFire }, "%.0f"}
	firesPerS  = column{"fires/s", func(r result) float64 { return r.FiresPerS }, "%.0f"}
	p50        = column{"late p50 ms", func(r result) float64 { return r.P50 }, "%.1f"}
	p99        = column{"late p99 ms", func(r result) float64 { return r.P99 }, "%.1f"}
	worst      = column{"late max ms", func(r result) float64 { return r.Max }, "%.1f"}
	early      = column{"early", func(r result) float64 { return float64(r.Early) }, "%.0f"}
	rss        = column{"RSS MB", func(r result) float64 { return r.RSS }, "%.0f"}
	gcs        = column{"GCs", func(r result) float64 { return float64(r.GCs) }, "%.0f"}
	cpu        = column{"CPU ms", func(r result) float64 { return r.CPU }, "%.2f"}
	wakeUps    = column{"wake-ups", func(r result) float64 { return float64(r.WakeUps) }, "%.0f"}
	nsPerTimer = column{"ns/timer", func(r result) float64 { return r.NsPerTimer }, "%.0f"}
	goroutines = column{"goroutines", func(r result) float64 { return float64(r.Goroutines) }, "%.0f"}
	perTimer   = column{"B/timer", func(r result) float64 { return r.Bytes }, "%.0f"}
	gcCPU      = column{"GC CPU ms/cycle", func(r result) float64 { return r.GCCPU }, "%.1f"}
)

var tables = []table{
	{
		"rearm", "each timer re-armed from its callback every second",
		[]int{100_000, 1_000_000},
		[]string{"wheel", "wheel-group", "afterfunc", "timingwheel", "gozero", "antlabs"},
		measureRearm,
		[]column{cpuPerFire, firesPerS, p50, p99, worst, early, rss, gcs},
	},
	{
		"burst", "all due at one instant",
		[]int{1_000_000},
		[]string{"wheel", "wheel-group", "afterfunc", "timingwheel", "gozero", "antlabs"},
		measureBurst,
		[]column{nsPerTimer, goroutines, early},
	},
	{
		"hold", "pending, random order, nothing due",
		[]int{10_000, 100_000, 1_000_000},
		[]string{"none", "wheel", "afterfunc", "timingwheel", "gozero", "antlabs"},
		measureHold,
		[]column{perTimer, gcCPU},
	},
	{
		"idle", "far timers pending, nothing due, nobody calls",
		[]int{1_000_000},
		[]string{"none", "wheel", "afterfunc", "timingwheel", "gozero", "antlabs"},
		measureIdle,
		[]column{cpu, wakeUps},
	},
}

func main() {
	rows := flag.String("rows", "rearm,burst,hold,idle", "what to measure")
	only := flag.String("impls", "", "of what, all by default")
	counts := flag.Int("timers", 0, "with how many timers, the table's own by default")
	duration := flag.Duration("duration", 10*time.Second, "how long rearm and idle are watched")
	runs := flag.Int("runs", 3, "runs of each row; the tables show the median")
	child := flag.String("child", "", "")
	flag.Parse()
	if *child != "" {
		runChild(*child, *counts, *duration)
		return
	}
	for _, t := range tables {
		if !slices.Contains(strings.Split(*rows, ","), t.name) {
			continue
		}
		if *counts != 0 {
			t.counts = []int{*counts}
		}
		if err := t.run(*only, *duration, *runs); err != nil {
			fmt.Fprintln(os.Stderr, "wheelbench:", err)
			os.Exit(1)
		}
	}
}

func runChild(what string, n int, d time.Duration) {
	row, impl, _ := strings.Cut(what, "/")
	for _, t := range tables {
		if t.name == row {
			r := t.measure(impl, n, d)
			r.Row, r.Impl, r.Timers = row, impl, n
			_ = json.NewEncoder(os.Stdout).Encode(r)
			return
		}
	}
}

// run measures a table's rows, a run of each impl before the next run, and prints it.
func (t *table) run(only string, d time.Duration, runs int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, n := range t.counts {
		impls := slices.DeleteFunc(slices.Clone(t.impls), func(impl string) bool {
			return only != "" && !slices.Contains(strings.Split(only, ","), impl)
		})
		got := map[string][]result{}
		for range runs {
			for _, impl := range impls {
				cmd := exec.Command(self, "-child", t.name+"/"+impl, "-timers", fmt.Sprint(n), "-duration", d.String())
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					return fmt.Errorf("%s of %s: %w", t.name, impl, err)
				}
				fmt.Printf("%s", out)
				var r result
				if err := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))).Decode(&r); err != nil {
					return fmt.Errorf("%s of %s: %w", t.name, impl, err)
				}
				got[impl] = append(got[impl], r)
			}
		}
		fmt.Fprintf(&text, "\n%d timers, %s\n\n| impl |", n, t.title)
		for _, c := range t.columns {
			fmt.Fprintf(&text, " %s |", c.name)
		}
		fmt.Fprintf(&text, "\n|---|%s\n", strings.Repeat("---:|", len(t.columns)))
		for _, impl := range impls {
			fmt.Fprintf(&text, "| %s |", impl)
			for _, c := range t.columns {
				values := make([]float64, 0, runs)
				for _, r := range got[impl] {
					values = append(values, c.of(r))
				}
				slices.Sort(values)
				fmt.Fprintf(&text, " "+c.form+" |", values[len(values)/2])
			}
			fmt.Fprintln(&text)
		}
	}
	fmt.Println(text.String())
	return nil
}
