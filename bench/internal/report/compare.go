package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// comparison is the beginning of a report: the costs of renewing the same number of
// locks by hand, with a timing wheel, and with the library.
type comparison struct {
	head       string
	contenders []contender
	measures   []measure
}

// contender is one row of a comparison.
type contender struct{ name, driver string }

// note returns the name of the row's driver, unless the name of the way has it.
func (w contender) note() string {
	if w.name == "the "+w.driver {
		return ""
	}
	return w.driver
}

// measure is one line of the comparison, with a value for each way.
type measure struct {
	name  string
	cells []cell
}

// cell is a value, compared with the value of the first way.
type cell struct {
	value  string
	change string  // from the first way, in words; empty if it says nothing
	part   float64 // of the largest value, for a bar
}

// compare returns the comparison of the largest number of locks at which most of
// the ways were sound. ok is false if fewer than two were.
func (r *Report) compare() (c comparison, ok bool) {
	most, n := 1, 0
	for _, row := range r.Rows {
		if found := len(contendersOf(r.Rows, row.Locks)); found > most || found == most && n > 0 && row.Locks > n {
			most, n = found, row.Locks
		}
	}
	if n == 0 || len(r.Max) > 0 {
		return comparison{}, false
	}
	c.contenders = contendersOf(r.Rows, n)
	c.head = "With " + locks(n)
	if lease := time.Duration(r.Environment.LeaseMs) * time.Millisecond; lease > 0 {
		c.head += fmt.Sprintf(", each renewed every %v", (lease / 3).Round(time.Millisecond))
	}
	var rows []Row
	enough, percentile := true, true
	for _, w := range c.contenders {
		row, _ := findSound(r.Rows, w.driver, n)
		rows = append(rows, row)
		enough = enough && !row.hasFewRenewals()
		percentile = percentile && row.LateP99.Known
	}
	add := func(name, unit string, decimals int, compared bool, value func(Row) Number) {
		m := measure{name: name}
		largest, known := 0.0, false
		for _, row := range rows {
			largest, known = max(largest, value(row).Value), known || value(row).Known
		}
		for i, row := range rows {
			v := value(row)
			x := cell{value: v.withUnit(unit, decimals)}
			if i > 0 && compared {
				x.change = describeChange(value(rows[0]), v)
			}
			if largest > 0 {
				x.part = v.Value / largest
			}
			m.cells = append(m.cells, x)
		}
		if known {
			c.measures = append(c.measures, m)
		}
	}
	add("client CPU per renewal", "us", 2, enough, func(r Row) Number { return r.ClientCPU })
	add("goroutines", "", 0, true, func(r Row) Number { return r.Goroutines })
	if percentile {
		add("late, 99th percentile", "ms", 1, true, func(r Row) Number { return r.LateP99 })
	} else {
		add("late, at most", "ms", 1, true, func(r Row) Number { return r.LateMax })
	}
	return c, len(c.measures) > 0
}

// contendersOf are the ways that were sound with n locks. The wheel's row is the one
// that differs from the first way in its timers alone, if there is one.
func contendersOf(rows []Row, n int) []contender {
	var found []contender
	for _, w := range []contender{{"by hand", AfterFunc}, {"the wheel", Wheel}, {"the wheel, in batches", WheelBatch}, {"the library", Library}} {
		if w.driver == WheelBatch && len(found) > 0 && found[len(found)-1].driver == Wheel {
			continue
		}
		if _, ok := findSound(rows, w.driver, n); ok {
			found = append(found, w)
		}
	}
	return found
}

func findSound(rows []Row, driver string, n int) (Row, bool) {
	for _, r := range rows {
		if r.Driver == driver && r.Locks == n && r.IsSound() {
			return r, true
		}
	}
	return Row{}, false
}

// describeChange says in words how a value compares with the first one.
func describeChange(first, v Number) string {
	if !first.Known || !v.Known || first.Value <= 0 {
		return ""
	}
	switch ratio := v.Value / first.Value; {
	case math.Abs(ratio-1) < noise:
		return "about the same"
	case ratio < 1:
		return NumberOf((1-ratio)*100).withUnit("%", 0) + " less"
	case ratio < 2:
		return NumberOf((ratio-1)*100).withUnit("%", 0) + " more"
	case ratio < 10:
		return NumberOf(ratio).digits(1) + noBreak + "times as much"
	default:
		return NumberOf(ratio).digits(0) + noBreak + "times as much"
	}
}

// writeText writes the comparison as a table with one line for each way.
func (c comparison) writeText(w io.Writer) {
	lines := make([][]string, 1+len(c.contenders))
	lines[0] = []string{""}
	for i, way := range c.contenders {
		text := way.name
		if note := way.note(); note != "" {
			text += " (" + note + ")"
		}
		lines[i+1] = []string{text}
	}
	for _, m := range c.measures {
		lines[0] = append(lines[0], m.name)
		width := 0
		for _, x := range m.cells {
			width = max(width, utf8.RuneCountInString(x.value))
		}
		for i, x := range m.cells {
			text := strings.Repeat(" ", width-utf8.RuneCountInString(x.value)) + x.value
			if x.change != "" {
				text += "  " + x.change
			}
			lines[i+1] = append(lines[i+1], text)
		}
	}
	fmt.Fprintf(w, "%s:\n\n", c.head)
	for _, line := range lines {
		var b strings.Builder
		for k, text := range line {
			width := 0
			for _, other := range lines {
				width = max(width, utf8.RuneCountInString(other[k]))
			}
			b.WriteString(text + strings.Repeat(" ", width+3-utf8.RuneCountInString(text)))
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	fmt.Fprintln(w)
}
