package run

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

const (
	// maxSteps is the precision of Max: it stops when the smallest number that was too many
	// is at most 1/maxSteps above the largest number that was kept.
	maxSteps = 8
	// bytesPerLock is how much memory a lock needs at most, in the client and in a server
	// on the same machine.
	bytesPerLock = 1000
)

// Max finds how many locks a driver keeps renewed: it doubles the number, starting
// with start, until a row does not keep its locks, and then halves the interval
// between this number and the last one that was kept. A row that failed while neither client nor Redis was
// busy is run once more, because something else may have disturbed it. limit bounds
// the number. Max returns its result and a row for each number that it tried, in
// the order of the trials.
func (p *Parent) Max(ctx context.Context, driver string, start, limit int) (report.Max, []report.Row) {
	found := report.Max{Driver: driver, LeaseMs: p.plan.Lease.Milliseconds()}
	bound := fmt.Sprintf("the limit of %s locks that bench has", report.Count(limit))
	if most, free := limitByMemory(); most < limit {
		limit, bound = most, fmt.Sprintf("memory: more locks could take over 80\u00a0%% of the %s\u00a0MiB that are free here", report.Count(free>>20))
	}
	var rows []report.Row
	defer p.showOutputs()
	try := func(n int) report.Row {
		r := report.Row{Driver: driver, Locks: n}
		p.progress.Start([]int{n})
		err := p.awaitServer(ctx)
		p.progress.Begin(r, time.Now())
		if err != nil {
			r.Faults = []string{"not run: " + report.OneLine(err)}
		} else {
			r = p.runRow(ctx, r, p.trials)
		}
		p.trials++
		p.progress.End(time.Now())
		p.reportRow(r)
		return r
	}
	keeps := func(n int) (kept, goOn bool) {
		r := try(n)
		if _, saturated := r.GaveOut(isLocal(p.target)); !p.isInterruptedWith(ctx, r) && !r.KeptUp(p.plan.Lease) && !saturated {
			r = try(n)
		}
		if p.isInterruptedWith(ctx, r) {
			return false, false
		}
		rows = append(rows, r)
		return r.KeptUp(p.plan.Lease), true
	}
	found.Kept, found.TooMany = search(start, limit, keeps)
	slices.SortStableFunc(rows, func(a, b report.Row) int { return a.Locks - b.Locks })
	found.Interrupted = p.Interrupted(ctx)
	for _, r := range rows {
		switch r.Locks {
		case found.Kept:
			found.Renewals = r.RenewalsPerSecond
		case found.TooMany:
			found.GaveOut, _ = r.GaveOut(isLocal(p.target))
		}
	}
	if found.TooMany == 0 {
		found.GaveOut = bound
	}
	return found, rows
}

// search returns the largest number that keeps, and the least that does not, as far
// as it is known; 0 if there is none. It doubles and then halves. keeps also says
// whether to go on. If not, its first result means nothing.
func search(start, limit int, keeps func(n int) (kept, goOn bool)) (most, tooMany int) {
	for n := min(max(start, 1), limit); ; {
		kept, goOn := keeps(n)
		switch {
		case !goOn:
			return most, tooMany
		case kept:
			most = n
		default:
			tooMany = n
		}
		switch {
		case tooMany == 0 && most >= limit, tooMany == 1:
			return most, tooMany
		case tooMany == 0:
			n = min(2*most, limit)
		case most == 0:
			n = tooMany / 2
		case (tooMany-most)*maxSteps <= most, tooMany-most == 1:
			return most, tooMany
		default:
			n = most + (tooMany-most)/2
		}
	}
}

// limitByMemory returns how many locks surely fit into the free memory, and how much
// memory is free. If the system does not tell, there is no bound, and free is 0.
func limitByMemory() (locks, free int) {
	const unbounded = math.MaxInt / 4 // twice as many can be asked for
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return unbounded, 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err == nil {
				free = min(kib, math.MaxInt>>10) << 10 // where an int has 32 bits
				return free / bytesPerLock * 8 / 10, free
			}
		}
	}
	return unbounded, 0
}

// isLocal says whether the servers of a target run on this machine, as far as their
// addresses tell.
func isLocal(t *holders.Target) bool {
	for _, srv := range t.Servers() {
		host, _, err := net.SplitHostPort(srv.Addr())
		ip := net.ParseIP(host)
		if err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
