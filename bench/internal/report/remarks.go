package report

import (
	"fmt"
	"math"
	"strings"
)

// Remarks returns sentences that compare rows: how much the timer saves, and how much
// the batch does. Each sentence compares two drivers at the largest number of locks at
// which both rows are sound.
func Remarks(rows []Row) []string {
	var out []string
	compare := func(what, first, second string, clauses ...func(a, b Row) string) {
		a, b, ok := findPair(rows, first, second)
		if !ok {
			return
		}
		var said []string
		for _, clause := range clauses {
			if c := clause(a, b); c != "" {
				said = append(said, c)
			}
		}
		if len(said) > 0 {
			out = append(out, fmt.Sprintf("%s (%s against %s, %s): %s.", what, second, first, locks(a.Locks), strings.Join(said, "; ")))
		}
	}
	client := changeClause("client CPU", "us", 2, func(r Row) Number { return r.ClientCPU })
	server := changeClause("Redis CPU", "us", 2, func(r Row) Number { return r.RedisCPU })
	heap := changeClause("live heap", "MiB", 1, func(r Row) Number { return r.Heap.mebibytes() })
	goroutines := insteadClause("goroutines", "", 0, func(r Row) Number { return r.Goroutines })
	batch := insteadClause("locks in a batch", "", 1, func(r Row) Number { return r.Batch })
	latest := insteadClause("late at most", "ms", 1, func(r Row) Number { return r.LateMax })

	compare("The timer, one wheel for all instead of one time.AfterFunc per lock", AfterFunc, Wheel, client, heap, goroutines, latest)
	compare("The timer where renewals share round trips", AfterFuncBatch, WheelBatch, client, heap, batch, latest)
	compare("The batch, one script call for many locks instead of a round trip each", AfterFunc, AfterFuncBatch, client, server, batch)
	compare("The batch where a wheel fills it", Wheel, WheelBatch, client, server, batch)
	compare("Timer and batch together", AfterFunc, WheelBatch, client, server, goroutines)
	compare("The library beside the bare loop", WheelBatch, Library, client, server, batch)
	compare("The library against no timers at all", Sweep, Library, client, server, latest)
	out = append(out, masterRemarks(rows)...)
	if s := scriptRemark(rows); s != "" {
		out = append(out, s)
	}
	if len(out) > 0 {
		out = append(out, "CPU is per renewal. This is one run: a few percent say nothing.")
	}
	return out
}

// findPair finds the rows of two drivers at the largest number of locks at which
// both are sound.
func findPair(rows []Row, first, second string) (a, b Row, ok bool) {
	for _, x := range rows {
		for _, y := range rows {
			if x.Driver == first && y.Driver == second && x.Locks == y.Locks && x.IsSound() && y.IsSound() && x.Locks > a.Locks {
				a, b, ok = x, y, true
			}
		}
	}
	return a, b, ok
}

// changeClause makes clauses like "client CPU 1.30 us instead of 13.60, 90 % less";
// it says nothing about a value that was not measured.
func changeClause(what, unit string, decimals int, field func(Row) Number) func(a, b Row) string {
	return func(a, b Row) string {
		from, to := field(a), field(b)
		if !from.Known || !to.Known || from.Value <= 0 {
			return ""
		}
		percent, word := (to.Value/from.Value-1)*100, "more"
		if percent < 0 {
			percent, word = -percent, "less"
		}
		return fmt.Sprintf("%s %s instead of %s, %s %s", what, to.withUnit(unit, decimals), from.withUnit(unit, decimals), NumberOf(percent).withUnit("%", 0), word)
	}
}

// insteadClause makes clauses like "11 goroutines instead of 51".
func insteadClause(what, unit string, decimals int, field func(Row) Number) func(a, b Row) string {
	return func(a, b Row) string {
		from, to := field(a), field(b)
		if !from.Known || !to.Known {
			return ""
		}
		return fmt.Sprintf("%s %s instead of %s", to.withUnit(unit, decimals), what, from.withUnit(unit, decimals))
	}
}

// scriptRemark says how long one script call holds the server, for the drivers
// that are sound at the largest number of locks.
func scriptRemark(rows []Row) string {
	most := 0
	for _, r := range rows {
		most = max(most, r.Locks)
	}
	var said []string
	for _, r := range rows {
		if r.Locks == most && r.IsSound() && r.ScriptMean.Known {
			said = append(said, fmt.Sprintf("%s %s, %s, %s", r.Driver, r.ScriptMean.digits(0), p99Cell(r.ScriptP99, r.Scripts, 0), r.ScriptMax.digits(0)))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return fmt.Sprintf("One script call holds Redis for, in us, mean, p99 and max (%s): %s.", locks(most), strings.Join(said, "; "))
}

// masterRemarks say how evenly the masters of a Cluster were loaded, in the rows
// of the largest number of locks.
func masterRemarks(rows []Row) []string {
	most := 0
	for _, r := range rows {
		if len(r.Masters) > 0 {
			most = max(most, r.Locks)
		}
	}
	var out []string
	for _, r := range rows {
		if r.Locks != most || len(r.Masters) == 0 {
			continue
		}
		part := func(what string, of func(Master) Number) string {
			sum, least, largest := NumberOf(0), math.Inf(1), 0.0
			for _, m := range r.Masters {
				n := of(m)
				sum = sum.Plus(n)
				least, largest = min(least, n.Value), max(largest, n.Value)
			}
			if !sum.Known || sum.Value <= 0 {
				return what + " n/a"
			}
			return fmt.Sprintf("%s from %s to %s", what, NumberOf(least/sum.Value*100).withUnit("%", 1), NumberOf(largest/sum.Value*100).withUnit("%", 1))
		}
		out = append(out, fmt.Sprintf("Each of the %d masters had (%v; even would be %s): %s; %s.", len(r.Masters), r, NumberOf(100/float64(len(r.Masters))).withUnit("%", 1),
			part("of the renewals", func(m Master) Number { return m.Renewals }), part("of Redis' CPU", func(m Master) Number { return m.CPU })))
	}
	return out
}
