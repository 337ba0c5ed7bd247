package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteHeader says where and how the rows are measured.
func WriteHeader(w io.Writer, e Environment, lease, duration time.Duration) {
	fmt.Fprintf(w, "%s %s/%s, %d CPUs, GOMAXPROCS %d, GOGC %s\n", e.Go, e.OS, e.Arch, e.CPUs, e.GOMAXPROCS, e.GOGC)
	fmt.Fprintf(w, "Redis: %s\n", e.Redis)
	fmt.Fprintf(w, "lease %v, renewed each third of it; each row holds its locks for %v, in a process of its own; rows in random order\n", lease, duration)
	for _, note := range e.Notes {
		fmt.Fprintln(w, note)
	}
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
		{[2]string{"", "locks"}, func(r Row) string { return fmt.Sprint(r.Locks) }},
		n("client", "CPU s", 2, func(r Row) Number { return r.ClientCPUSeconds }),
		n("client us", "/renewal", 2, func(r Row) Number { return r.ClientCPU }),
		n("Redis us", "/renewal", 2, func(r Row) Number { return r.RedisCPU }),
		{[2]string{"peak", "RSS"}, func(r Row) string { return r.RSS.size() }},
		{[2]string{"live", "heap"}, func(r Row) string { return r.Heap.size() }},
		n("goroutines", "(peak)", 0, func(r Row) Number { return r.Goroutines }),
		n("GC", "cycles", 0, func(r Row) Number { return r.GCCycles }),
		n("renewals", "/s", 0, func(r Row) Number { return r.RenewalsPerSecond }),
		n("late ms", "p50", 1, func(r Row) Number { return r.LateP50 }),
		n("late ms", "p99", 1, func(r Row) Number { return r.LateP99 }),
		n("late ms", "max", 1, func(r Row) Number { return r.LateMax }),
		n("", "missed", 0, func(r Row) Number { return r.Missed }),
		n("", "lost", 0, func(r Row) Number { return r.Lost }),
	}
}

// scriptColumns stand in the page of -out alone: the table is wide enough.
func scriptColumns() []column {
	return []column{
		figures("script us", "mean", 0, func(r Row) Number { return r.ScriptMean }),
		figures("script us", "p99", 0, func(r Row) Number { return r.ScriptP99 }),
		figures("script us", "max", 0, func(r Row) Number { return r.ScriptMax }),
		figures("locks", "/batch", 1, func(r Row) Number { return r.Batch }),
	}
}

// figures is a column of numbers.
func figures(top, bottom string, decimals int, field func(Row) Number) column {
	return column{[2]string{top, bottom}, func(r Row) string { return field(r).digits(decimals) }}
}

// WriteTable prints the rows, columns aligned: the first one left, numbers
// right.
func WriteTable(w io.Writer, rows []Row) {
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
	for k, cells := range lines {
		// Groups of one number of locks stand apart.
		if k > 2 && rows[k-2].Locks != rows[k-3].Locks {
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
	for _, r := range rows {
		for _, fault := range r.Faults {
			fmt.Fprintf(w, "%v: %s\n", r, fault)
		}
	}
}
