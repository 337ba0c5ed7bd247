package main

import (
	"fmt"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
)

const (
	defaultLease = 3 * time.Second
	// usualCapacity is how many renewals a second, one round trip each, a
	// server and its client reach on two cores of a usual machine.
	usualCapacity = 90_000
	maxStart      = 4      // -max starts with a load that needs 1/maxStart of the capacity,
	maxFirst      = 10_000 // and with at most maxFirst locks, because doubling is quick
	share         = 3      // a default load may need 1/share of the capacity
)

// choose fills in what the options leave open, so that a round trip for each
// renewal needs at most 1/share of capacity, in renewals per second. measured says
// that capacity was measured. Then it also limits the default numbers of locks. The
// notes tell the reader about the load.
func choose(o options, capacity float64, measured bool) (p run.Plan, notes []string, err error) {
	p = run.Plan{Drivers: o.drivers, Locks: o.locks, Lease: o.lease, Duration: o.duration, Max: o.max}
	budget := capacity / share
	if p.Lease == 0 {
		p.Lease = defaultLease
		if most := float64(maxOf(p.Locks)); most > 0 {
			needed := time.Duration(3 * most / budget * float64(time.Second))
			p.Lease = max(p.Lease, (needed + time.Second - 1).Truncate(time.Second))
		}
		if p.Duration != 0 {
			p.Lease = min(p.Lease, p.Duration.Truncate(time.Millisecond))
		}
	}
	if p.Duration == 0 {
		p.Duration = p.Lease
		if o.max { // an overload takes a while to show
			p.Duration *= 2
		}
	}
	if p.Duration < p.Lease {
		return p, nil, usagef("-duration is %v: it must be at least the lease, %v, or locks that nobody renews would look held", p.Duration, p.Lease)
	}
	if o.max {
		p.Locks = []int{min(roundDown(capacity*p.Lease.Seconds()/3/maxStart), maxFirst)}
		return p, nil, nil
	}
	if p.Locks == nil {
		p.Locks = []int{1000, 10_000}
		fits := roundDown(budget * p.Lease.Seconds() / 3)
		if measured && fits < p.Locks[1] {
			p.Locks = []int{max(fits/10, 1), max(fits, 2)}
		}
	}
	if needed := float64(maxOf(p.Locks)) * 3 / p.Lease.Seconds(); needed > budget*1.01 {
		what := fmt.Sprintf("about %s that Redis usually does", report.Count(int(capacity)))
		if measured {
			what = fmt.Sprintf("%s that this Redis does", report.Count(int(capacity)))
		}
		notes = append(notes, fmt.Sprintf("note: %s locks need %s\u00a0renewals/s. With one round trip each that is more than a third of the %s, so rows may be overloaded",
			report.Count(maxOf(p.Locks)), report.Count(int(needed)), what))
	}
	return p, notes, nil
}

func maxOf(counts []int) int {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}

// roundDown returns the largest number of the form 1, 2 or 5 with zeros that is at most x, and at least 1.
func roundDown(x float64) int {
	for n := maxLocks; n > 1; n /= 10 {
		for _, d := range []int{1, 2, 5} {
			if c := n / d; float64(c) <= x && c > 0 {
				return c
			}
		}
	}
	return 1
}
