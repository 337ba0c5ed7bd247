// Package rows measures the rows of comparisons, each run in a child process of its own, and prints a
// line of JSON for each run and then tables with the median of the runs. The rows of one table come one
// after the other, a run of each implementation before the next run, so that they can be compared.
package rows

import (
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

// Run is one run of one row: what a child is to measure. Results embed it.
type Run struct {
	Row  string        `json:"row"`
	Impl string        `json:"impl"`
	N    int           `json:"n"` // timers, goroutines, locks: what the table's title says
	For  time.Duration `json:"-"` // how long to watch
}

// Table is one kind of row: how it is measured, and how it is printed.
type Table[R any] struct {
	Name    string
	Title   string // with a %d for N
	Counts  []int  // one table for each
	Impls   []string
	Measure func(Run) R // in the child
	Columns []Column[R]
}

// Column is one figure of a table.
type Column[R any] struct {
	Name string
	Of   func(R) float64
	Form string
}

// Main is the main function of a program that measures tables. setup is called in the parent before the
// first child. It returns arguments that children get besides the flags of this package, and a function
// to call at the end, which may be nil. setup itself may be nil too.
func Main[R any](tables []Table[R], watch time.Duration, runs int, setup func() (args []string, end func(), err error)) {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Name
	}
	var p plan
	rows := flag.String("rows", strings.Join(names, ","), "what to measure")
	flag.StringVar(&p.only, "impls", "", "of what, all by default")
	flag.IntVar(&p.n, "n", 0, "how many of what the row has many of, the table's own by default")
	flag.DurationVar(&p.watch, "duration", watch, "how long a run is watched")
	flag.IntVar(&p.runs, "runs", runs, "runs of each row; the tables show the median")
	child := flag.String("child", "", "")
	flag.Parse()
	if *child != "" {
		row, impl, _ := strings.Cut(*child, "/")
		measure(tables, Run{Row: row, Impl: impl, N: p.n, For: p.watch})
		return
	}
	if err := runAll(tables, strings.Split(*rows, ","), p, setup); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measure is what a child does.
func measure[R any](tables []Table[R], run Run) {
	for _, t := range tables {
		if t.Name == run.Row {
			_ = json.NewEncoder(os.Stdout).Encode(t.Measure(run))
		}
	}
}

// plan is what the flags say.
type plan struct {
	only  string
	n     int
	watch time.Duration
	runs  int
	args  []string
}

func runAll[R any](tables []Table[R], rows []string, p plan, setup func() ([]string, func(), error)) error {
	for _, row := range rows {
		if !slices.ContainsFunc(tables, func(t Table[R]) bool { return t.Name == row }) {
			return fmt.Errorf("-rows: there is no row %q", row)
		}
	}
	if p.runs < 1 {
		return fmt.Errorf("-runs is %d: it must be at least 1", p.runs)
	}
	if setup != nil {
		args, end, err := setup()
		if err != nil {
			return err
		}
		defer end()
		p.args = args
	}
	for _, t := range tables {
		if !slices.Contains(rows, t.Name) {
			continue
		}
		if p.n != 0 {
			t.Counts = []int{p.n}
		}
		if err := t.run(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table[R]) run(p plan) error {
	impls := slices.DeleteFunc(slices.Clone(t.Impls), func(impl string) bool {
		return p.only != "" && !slices.Contains(strings.Split(p.only, ","), impl)
	})
	var text strings.Builder
	for _, n := range t.Counts {
		got := map[string][]R{}
		for range p.runs {
			for _, impl := range impls {
				r, err := t.child(p, impl, n)
				if err != nil {
					return fmt.Errorf("%s of %s: %w", t.Name, impl, err)
				}
				got[impl] = append(got[impl], r)
			}
		}
		t.print(&text, n, impls, got)
	}
	fmt.Println(text.String())
	return nil
}

// child makes one run, prints its line and returns it.
func (t *Table[R]) child(p plan, impl string, n int) (r R, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	args := append([]string{"-child", t.Name + "/" + impl, "-n", fmt.Sprint(n), "-duration", p.watch.String()}, p.args...)
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	fmt.Printf("%s", out)
	return r, json.NewDecoder(bytes.NewReader(out)).Decode(&r)
}

func (t *Table[R]) print(text *strings.Builder, n int, impls []string, got map[string][]R) {
	fmt.Fprintf(text, "\n"+t.Title+"\n\n| impl |", n)
	for _, c := range t.Columns {
		fmt.Fprintf(text, " %s |", c.Name)
	}
	fmt.Fprintf(text, "\n|---|%s\n", strings.Repeat("---:|", len(t.Columns)))
	for _, impl := range impls {
		fmt.Fprintf(text, "| %s |", impl)
		for _, c := range t.Columns {
			values := make([]float64, 0, len(got[impl]))
			for _, r := range got[impl] {
				values = append(values, c.Of(r))
			}
			fmt.Fprintf(text, " "+c.Form+" |", median(values))
		}
		fmt.Fprintln(text)
	}
}

// median sorts values. Of an even number of them, it returns the mean of the two in the middle.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
