package report

import (
	"fmt"
	"math"
	"strings"
)

// About says what each driver does, in the words of its row.
func About(driver string) string {
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

// leastRenewals is how many renewals of a row say something. The timers differ by about a
// microsecond per renewal, and what a process has used is known to about a millisecond.
const leastRenewals = 1000

// Answer is the first sentence of a report: what a wheel saves, in figures of this
// run.
func Answer(rows []Row) string {
	var clauses []string
	with := 0 // locks that the sentence has named
	var few Row
	add := func(where, first, second string) {
		a, b, ok := pair(rows, first, second)
		if !ok || !a.ClientCPU.Known || !b.ClientCPU.Known || a.ClientCPU.Value <= 0 {
			return
		}
		for _, r := range []Row{a, b} {
			if r.Renewals.Known && r.Renewals.Value < leastRenewals {
				few = r
				return
			}
		}
		clause := fmt.Sprintf("%s %s (%s us instead of %s per renewal)",
			less(b.ClientCPU.Value/a.ClientCPU.Value-1), where, b.ClientCPU.digits(2), a.ClientCPU.digits(2))
		if a.Locks != with && len(clauses) > 0 {
			clause += fmt.Sprintf(" with %d locks", a.Locks)
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
	fell := overload(rows, with)
	switch {
	case len(rows) == 0:
		return "This run answers nothing: no row was measured."
	case len(clauses) == 0 && few.Locks > 0:
		if fell != "" {
			fell = "; " + fell
		}
		return fmt.Sprintf("With %d locks this run cannot tell what a wheel saves: a row has %s renewals, and that takes %d (more -locks, or a longer -duration)%s.",
			few.Locks, few.Renewals.digits(0), leastRenewals, fell)
	case len(clauses) == 0 && fell != "":
		return "This run says who fell behind, not what a wheel saves: " + fell + "."
	case len(clauses) == 0:
		return "This run does not say what a wheel saves: for that it needs the rows wheel and afterfunc, or wheel-batch and afterfunc-batch, with the same number of locks, and the CPU of their processes."
	case fell != "":
		fell = "; " + fell
	}
	return fmt.Sprintf("With %d locks, %s takes %s%s.", with, subject, strings.Join(clauses, ", and "), fell)
}

// less says a change of the client's CPU in words.
func less(change float64) string {
	percent := math.Round(math.Abs(change) * 100)
	switch {
	case math.Abs(change) < noise:
		return "as much client CPU, as far as one run can tell,"
	case change < 0:
		return fmt.Sprintf("%.0f %% less client CPU", percent)
	}
	return fmt.Sprintf("%.0f %% more client CPU", percent)
}

// overload says which rows of the question did not keep their locks at the largest
// number above with at which any did not.
func overload(rows []Row, with int) string {
	most := with
	for _, r := range rows {
		if r.asked() && !r.Sound() {
			most = max(most, r.Locks)
		}
	}
	if most == with {
		return ""
	}
	var said []string
	for _, r := range rows {
		switch {
		case !r.asked() || r.Locks != most:
		case r.Sound():
			said = append(said, r.Driver+" kept all")
		case r.Losses() != "":
			said = append(said, fmt.Sprintf("%s missed %s and lost %s", r.Driver, r.Missed.digits(0), r.Lost.digits(0)))
		default:
			said = append(said, r.Driver+" did not end well")
		}
	}
	return fmt.Sprintf("with %d locks %s", most, strings.Join(said, ", "))
}

// asked says whether a row is one of those that the question is about.
func (r Row) asked() bool { return r.Driver != Library && r.Driver != Sweep }
