package report

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Max is how many locks a driver keeps renewed, as -max has found.
type Max struct {
	Driver      string `json:"driver_name"` // not "driver", because that marks a row
	LeaseMs     int64  `json:"lease_ms"`
	Kept        int    `json:"kept"`                  // the most that were kept; 0: none
	Renewals    Number `json:"renewals_per_s"`        // of those
	TooMany     int    `json:"too_many"`              // the least that were not kept; 0: none was tried
	GaveOut     string `json:"gave_out"`              // what reached its limit first
	Interrupted bool   `json:"interrupted,omitempty"` // more was not tried
}

// String returns the result as a clause of a sentence.
func (m Max) String() string {
	lease := time.Duration(m.LeaseMs) * time.Millisecond
	var b strings.Builder
	switch {
	case m.Kept == 0 && m.Interrupted:
		return fmt.Sprintf("how many locks the row %s keeps renewed is not known, because the run was interrupted", m.Driver)
	case m.Kept == 0:
		fmt.Fprintf(&b, "the row %s keeps not even one lock renewed at a lease of %v", m.Driver, lease)
	default:
		fmt.Fprintf(&b, "the row %s keeps %s renewed at a lease of %v, %s renewals a second", m.Driver, locks(m.Kept), lease, m.Renewals.digits(0))
	}
	switch {
	case m.TooMany > 0:
		fmt.Fprintf(&b, "; %s were too many, and what reached its limit first was %s", Count(m.TooMany), m.GaveOut)
	case m.Interrupted:
		b.WriteString("; no more were tried because the run was interrupted")
	default:
		fmt.Fprintf(&b, "; no more were tried because of %s", m.GaveOut)
	}
	return b.String()
}

// Cores is how much of the processors a row used on average while it held its
// locks, or while it acquired them if it did not come further.
type Cores struct {
	Client Number `json:"client"`
	Redis  Number `json:"redis"`     // of the busiest master; each runs scripts on one core
	All    Number `json:"redis_all"` // of all masters
}

// KeptUp says whether a row kept its locks and would go on to do so: it was sound,
// and renewals neither came late by half an interval nor were too few.
func (r Row) KeptUp(lease time.Duration) bool {
	wanted := float64(r.Locks) * 3 / lease.Seconds()
	late, known := r.LateP99, r.LateP99.Known
	if !known { // too few renewals
		late = r.LateMax
	}
	return r.IsSound() && late.Known && late.Value <= lease.Seconds()*1000/6 && r.RenewalsPerSecond.Value >= wanted*0.6
}

// busy is the part of a processor that counts as all of it.
const busy = 0.9

// GaveOut says what kept a row from keeping its locks, and whether that is a
// processor that had no more to give. local says that client and servers share the
// processors of this machine.
func (r Row) GaveOut(local bool) (what string, saturated bool) {
	c, cpus := r.Cores, float64(runtime.NumCPU())
	used := fmt.Sprintf(" (the client used %s of %.0f cores, Redis %s of 1)", c.Client.digits(2), cpus, c.Redis.digits(2))
	switch {
	case !c.Client.Known && !c.Redis.Known && len(r.Faults) > 0:
		return "the row itself: " + r.Faults[0], false
	case c.Redis.Known && c.Redis.Value >= busy:
		return "Redis" + used, true
	case c.Client.Known && c.Client.Value >= busy*cpus:
		return "the client's CPU" + used, true
	case local && c.Client.Known && c.All.Known && c.Client.Value+c.All.Value >= busy*cpus:
		return "the CPU that client and Redis share" + used, true
	}
	return "no CPU of theirs, so the network or other programs on this machine" + used, false
}
