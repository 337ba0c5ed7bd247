package run

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/wheellock/wheellock/bench/internal/report"
)

const (
	maxKinds = 8   // log lines of a row that are shown, equal ones once
	maxOther = 40  // lines of a row that are shown and are no log lines, as those of a panic are
	maxLine  = 400 // bytes of a line that are shown
)

// rowOutput collects what a row's process writes to its standard error: the
// library's log and, if the process dies, why. It keeps a bounded number of
// lines, so that they can be shown in one place after the rows. Log lines that
// differ only in their numbers are kept once and counted. One goroutine at a
// time uses it.
type rowOutput struct {
	name    string // of the row
	rest    []byte // the beginning of a line
	lines   []outputLine
	kinds   map[string]int // place in lines of each kind of log line
	other   int            // lines that are no log lines
	all     int            // lines that were written
	omitted int            // of them, those not in lines
}

type outputLine struct {
	text  string
	count int
}

func newRowOutput(r report.Row) *rowOutput {
	return &rowOutput{name: r.String(), kinds: map[string]int{}}
}

// Write takes what a process wrote. It never fails.
func (o *rowOutput) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		// A line without an end is kept only as far as it is shown.
		if room := maxLine + 1 - len(o.rest); room > 0 {
			o.rest = append(o.rest, line[:min(len(line), room)]...)
		}
		if !whole {
			return n, nil
		}
		o.addLine(string(o.rest))
		o.rest, b = o.rest[:0], rest
	}
}

var (
	// logTime is what package log puts before a line.
	logTime = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d+)? `)
	digits  = regexp.MustCompile(`\d+`)
)

func (o *rowOutput) addLine(text string) {
	o.all++
	text = strings.TrimRight(text, "\r")
	stamp := logTime.FindString(text)
	text = text[len(stamp):]
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	if stamp == "" {
		o.other++
		if o.other > maxOther {
			o.omitted++
			return
		}
		o.lines = append(o.lines, outputLine{text, 1})
		return
	}
	kind := digits.ReplaceAllString(text, "0")
	if at, ok := o.kinds[kind]; ok {
		o.lines[at].count++
		return
	}
	if len(o.kinds) == maxKinds {
		o.omitted++
		return
	}
	o.kinds[kind] = len(o.lines)
	o.lines = append(o.lines, outputLine{text, 1})
}

// writeTo shows the lines, if there are any.
func (o *rowOutput) writeTo(w io.Writer) {
	if len(o.rest) > 0 {
		o.addLine(string(o.rest))
		o.rest = nil
	}
	if o.all == 0 {
		return
	}
	fmt.Fprintf(w, "bench: %s: the row's process wrote %s:\n", o.name, countOfLines(o.all))
	for _, line := range o.lines {
		times := ""
		if line.count > 1 {
			times = report.Count(line.count) + " like this: "
		}
		fmt.Fprintf(w, "bench:   %s%s\n", times, toPrintable(line.text))
	}
	if o.omitted > 0 {
		fmt.Fprintf(w, "bench:   and %s that are not shown\n", countOfLines(o.omitted))
	}
}

func countOfLines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return report.Count(n) + " lines"
}

// toPrintable is text without what a terminal would obey.
func toPrintable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}
