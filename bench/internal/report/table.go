package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteText writes a report for a terminal: the comparison and the answer, the faults,
// the names of the rows, the table, the remarks, and where and how the rows were
// measured.
func WriteText(w io.Writer, rep *Report) {
	if c, ok := rep.compare(); ok {
		c.writeText(w)
	}
	fmt.Fprintf(w, "%s\n\n", rep.Verdict())
	problems := faultsOf(rep.Rows)
	if warning := rep.Environment.warning(); warning != "" {
		problems = append(problems, warning)
	}
	for _, line := range problems {
		fmt.Fprintln(w, line)
	}
	if len(problems) > 0 {
		fmt.Fprintln(w)
	}
	drivers := driversOf(rep.Rows)
	width := 0
	for _, d := range drivers {
		width = max(width, len(d))
	}
	for _, d := range drivers {
		fmt.Fprintf(w, "%-*s  %s\n", width, d, Describe(d))
	}
	if len(drivers) > 0 {
		fmt.Fprintln(w)
	}
	writeTable(w, rep.Rows)
	remarks := Remarks(rep.Rows)
	for _, line := range remarks {
		fmt.Fprintln(w, line)
	}
	if len(remarks) > 0 {
		fmt.Fprintln(w)
	}
	e := rep.Environment
	for _, line := range e.lines() {
		fmt.Fprintln(w, line)
	}
}

// lines say where and how the rows were measured.
func (e Environment) lines() []string {
	lease, duration := time.Duration(e.LeaseMs)*time.Millisecond, time.Duration(e.DurationMs)*time.Millisecond
	out := []string{
		fmt.Sprintf("Measured on %s %s/%s, %d CPUs, GOMAXPROCS %d, GOGC %s", e.Go, e.OS, e.Arch, e.CPUs, e.GOMAXPROCS, e.GOGC),
		"Redis: " + e.Redis,
		fmt.Sprintf("lease %v, renewed every third of it; each row holds its locks for %v, in a process of its own", lease, duration),
	}
	if load := e.load(); load != "" {
		out = append(out, load)
	}
	return append(out, e.Notes...)
}

// column is one column of the table.
type column struct {
	head [2]string
	cell func(Row) string
}

func columns() []column {
	n := figures
	return []column{
		{[2]string{"", "driver"}, func(r Row) string { return r.Driver }},
		{[2]string{"", "locks"}, func(r Row) string { return Count(r.Locks) }},
		n("client", "CPU s", 2, func(r Row) Number { return r.ClientCPUSeconds }),
		n("client us", "/renewal", 2, func(r Row) Number { return r.ClientCPU }),
		n("Redis us", "/renewal", 2, func(r Row) Number { return r.RedisCPU }),
		{[2]string{"peak", "RSS"}, func(r Row) string { return r.RSS.mebibytes().withUnit("MiB", 1) }},
		{[2]string{"live", "heap"}, func(r Row) string { return r.Heap.mebibytes().withUnit("MiB", 1) }},
		n("goroutines", "(peak)", 0, func(r Row) Number { return r.Goroutines }),
		n("GC", "cycles", 0, func(r Row) Number { return r.GCCycles }),
		n("renewals", "/s", 0, func(r Row) Number { return r.RenewalsPerSecond }),
		n("late ms", "p50", 1, func(r Row) Number { return r.LateP50 }),
		{[2]string{"late ms", "p99"}, func(r Row) string { return p99Cell(r.LateP99, r.Renewals, 1) }},
		n("late ms", "max", 1, func(r Row) Number { return r.LateMax }),
		n("", "missed", 0, func(r Row) Number { return r.Missed }),
		n("", "lost", 0, func(r Row) Number { return r.Lost }),
	}
}

// scriptColumns stand in the page of -out alone: the table is wide enough.
func scriptColumns() []column {
	return []column{
		figures("script us", "mean", 0, func(r Row) Number { return r.ScriptMean }),
		{[2]string{"script us", "p99"}, func(r Row) string { return p99Cell(r.ScriptP99, r.Scripts, 0) }},
		figures("script us", "max", 0, func(r Row) Number { return r.ScriptMax }),
		figures("locks", "/batch", 1, func(r Row) Number { return r.Batch }),
	}
}

// figures is a column of numbers.
func figures(top, bottom string, decimals int, field func(Row) Number) column {
	return column{[2]string{top, bottom}, func(r Row) string { return field(r).digits(decimals) }}
}

// writeTable prints the rows, columns aligned: the first one left, numbers
// right.
func writeTable(w io.Writer, rows []Row) {
	if len(rows) == 0 {
		return
	}
	cols := columns()
	lines := make([][]string, 2, 2+len(rows))
	for _, c := range cols {
		lines[0] = append(lines[0], c.head[0])
		lines[1] = append(lines[1], c.head[1])
	}
	for _, r := range rows {
		var cells []string
		for _, c := range cols {
			cells = append(cells, c.cell(r))
		}
		lines = append(lines, cells)
	}
	widths := make([]int, len(cols))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	drivers := driversOf(rows)
	for k, cells := range lines {
		// Groups of one number of locks stand apart, if there are several drivers.
		if k > 2 && len(drivers) > 1 && rows[k-2].Locks != rows[k-3].Locks {
			fmt.Fprintln(w)
		}
		var b strings.Builder
		for i, cell := range cells {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + gap)
			} else {
				b.WriteString("  " + gap + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	fmt.Fprintln(w)
}
