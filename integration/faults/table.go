package faults

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Table prints results, a line for each. Excused are losses that a process saw late
// because it stood still, pieces those in which the history was checked, undecided
// those whose order was not found in time, memory the parent's at most.
func Table(results []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tinjected\toperations\theld\tlost\ttold late\texcused\tviolations\tquiet\tpieces\tundecided\tlongest wait\ttook\tafter\tmemory\tmust hold")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%v\t%d MiB\t%s\n", r.Row.Name, r.Injected, r.Operations, r.Holds, r.Lost, r.Late,
			r.Excused, len(r.Violations), r.Quiet, r.Pieces, r.Undecided, r.LongestWait.Round(time.Millisecond), r.Took.Round(100*time.Millisecond),
			r.After.Round(100*time.Millisecond), r.Memory>>20, r.Row.Promise)
	}
	_ = w.Flush()
	return b.String()
}

// Fault says in words what is wrong with a run; empty if nothing is.
func (r Result) Fault() string {
	switch {
	case len(r.Violations) > 0:
		return fmt.Sprintf("%d violations, %d told late; seed %d; history and pictures are in %s\n%s",
			len(r.Violations), r.Late, r.Seed, r.Kept, summary(r.Violations))
	case r.Injected == 0:
		return fmt.Sprintf("the fault did not happen; seed %d", r.Seed)
	case r.Holds == 0:
		return "nobody held a lock"
	}
	return ""
}
