package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Describe says what each driver does, in the words of its row.
func Describe(driver string) string {
	switch driver {
	case AfterFunc:
		return "one time.AfterFunc and one round trip per lock, the usual way by hand"
	case Wheel:
		return "the same loop and round trips as afterfunc, but the timers are those of one timing wheel"
	case AfterFuncBatch:
		return "one time.AfterFunc per lock; locks that fall due within a moment share a round trip"
	case WheelBatch:
		return "the same loop and batches as afterfunc-batch, but the timers are those of one timing wheel"
	case Library:
		return "lock.Client as its users have it"
	case Sweep:
		return "no timers: all locks are renewed one script call after the other every third of the lease, as Redisson does"
	}
	return ""
}

// noise is a difference, as a part of the whole, that one run cannot tell from
// nothing.
const noise = 0.05

// leastRenewals is how many renewals of a row say something about its CPU. The
// timers differ by about a microsecond per renewal, and what a process has used
// is known to about a millisecond.
const leastRenewals = 1000

func (r Row) hasFewRenewals() bool { return r.Renewals.Known && r.Renewals.Value < leastRenewals }

// Answer is the sentence that says what a wheel saves, in figures of this run.
func Answer(rows []Row) string {
	var clauses []string
	with := 0 // locks that the sentence has named
	var few Row
	add := func(where, first, second string) {
		a, b, ok := findPair(rows, first, second)
		if !ok || !a.ClientCPU.Known || !b.ClientCPU.Known || a.ClientCPU.Value <= 0 {
			return
		}
		for _, r := range []Row{a, b} {
			if r.hasFewRenewals() {
				few = r
				return
			}
		}
		clause := fmt.Sprintf("%s %s (%s instead of %s per renewal)",
			cpuChange(b.ClientCPU.Value/a.ClientCPU.Value-1), where, b.ClientCPU.withUnit("us", 2), a.ClientCPU.withUnit("us", 2))
		if a.Locks != with && len(clauses) > 0 {
			clause += " with " + locks(a.Locks)
		} else {
			with = a.Locks
		}
		clauses = append(clauses, clause)
	}
	add("where each renewal is a round trip", AfterFunc, Wheel)
	add("where renewals share round trips", AfterFuncBatch, WheelBatch)
	subject := "one timing wheel instead of one time.AfterFunc per lock"
	if len(clauses) == 0 {
		subject = "one timing wheel and batches instead of one time.AfterFunc and one round trip per lock"
		add("in this run", AfterFunc, WheelBatch)
	}
	switch {
	case len(rows) == 0:
		return "This run answers nothing: no row was measured."
	case len(clauses) == 0 && few.Locks > 0:
		return fmt.Sprintf("With %s this run cannot tell how much CPU a wheel saves, because a row has only %s renewals and needs %s (use more -locks or a longer -duration).",
			locks(few.Locks), few.Renewals.digits(0), Count(leastRenewals))
	case len(clauses) == 0 && (hasBoth(rows, AfterFunc, Wheel) || hasBoth(rows, AfterFuncBatch, WheelBatch) || hasBoth(rows, AfterFunc, WheelBatch)):
		return "This run does not say what a wheel saves, because a row that it needs did not keep its locks, or has no CPU time."
	case len(clauses) == 0:
		return "This run does not say what a wheel saves, because that needs the rows wheel and afterfunc, or wheel-batch and afterfunc-batch, with the same number of locks."
	}
	return fmt.Sprintf("With %s, %s takes %s.", locks(with), subject, strings.Join(clauses, ", and "))
}

// cpuChange says a change of the client's CPU in words.
func cpuChange(change float64) string {
	percent := math.Round(math.Abs(change) * 100)
	switch {
	case math.Abs(change) < noise:
		return "as much client CPU, as far as one run can tell,"
	case change < 0:
		return NumberOf(percent).withUnit("%", 0) + " less client CPU"
	}
	return NumberOf(percent).withUnit("%", 0) + " more client CPU"
}

// hasBoth says whether both drivers have a row with the same number of locks.
func hasBoth(rows []Row, first, second string) bool {
	return slices.ContainsFunc(rows, func(a Row) bool {
		return a.Driver == first && slices.ContainsFunc(rows, func(b Row) bool { return b.Driver == second && b.Locks == a.Locks })
	})
}
