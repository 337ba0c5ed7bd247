package renewal

import (
	"slices"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// Stats is a snapshot of the counters of a Watchdog or a Lane since its start.
type Stats struct {
	Leases   int            // leases held now
	Renewed  uint64         // renewals that the store confirmed in time
	Retried  uint64         // leases sent again after an unknown outcome
	Lost     map[Reason]int // leases lost, by reason
	Batches  uint64         // calls of the Renewer
	Failed   uint64         // calls of the Renewer that the store did not answer
	Queued   int            // leases that are due now and not yet in a batch
	InFlight int            // leases in a batch now

	// Blocked and Behind tell what the wheel of a Watchdog does now; zero for a Lane.
	// An Owner that hangs keeps the wheel from watching the trust of other leases.
	Blocked time.Duration // how long the wheel's present call has lasted; 0 if it makes no call
	Behind  time.Duration // how late the wheel is with its earliest task that is due; 0 if no task is due
	// Still is how long this process has stood still in all while it held leases: it was
	// stopped or starved, or its machine was suspended. Shorter times than a thirtieth of the
	// TTL, at most a second, do not count. Zero for a Lane.
	Still time.Duration

	// Sizes are the numbers of leases in the batches.
	Sizes Sizes
	// Lag is the time from when a renewal was due until it was sent. Late is
	// the time from when a renewal was due until the store's answer was applied.
	Lag, Late Distribution
}

type (
	// Distribution has Count, Sum, P50, P99 and Max of durations; see wheel.Distribution.
	Distribution = wheel.Distribution
	// Bucket counts the durations up to a limit; see wheel.Bucket.
	Bucket = wheel.Bucket
)

// Sizes summarises numbers of leases. Quantiles are accurate to one part in 16.
type Sizes struct {
	Sum           uint64
	P50, P99, Max int

	of wheel.Distribution // of the sizes, where a size of n is n µs; for Since
}

// Since returns what was counted between the snapshot earlier and s. Leases,
// Queued, InFlight, Blocked and Behind are those of s. The largest durations are
// accurate to one part in 16.
func (s Stats) Since(earlier Stats) Stats {
	s.Renewed -= earlier.Renewed
	s.Retried -= earlier.Retried
	s.Batches -= earlier.Batches
	s.Failed -= earlier.Failed
	s.Still -= earlier.Still
	lost := make(map[Reason]int)
	for r, n := range s.Lost {
		if n -= earlier.Lost[r]; n > 0 {
			lost[r] = n
		}
	}
	s.Lost = lost
	s.Lag, s.Late = s.Lag.Since(earlier.Lag), s.Late.Since(earlier.Late)
	s.Sizes = sizes(s.Sizes.of.Since(earlier.Sizes.of), s.Sizes.Sum-earlier.Sizes.Sum)
	return s
}

// sizes returns the Sizes of a Distribution in which a size of n counts as n microseconds. sum is the
// sum of the sizes.
func sizes(d wheel.Distribution, sum uint64) Sizes {
	size := func(d time.Duration) int { return int(d / time.Microsecond) }
	return Sizes{Sum: sum, P50: size(d.P50), P99: size(d.P99), Max: size(d.Max), of: d}
}

// laneStats is guarded by Lane.mu.
type laneStats struct {
	leases   int
	renewed  uint64
	retried  uint64
	lost     [numReasons]int
	batches  uint64
	failed   uint64
	sent     uint64
	inFlight int
	sizes    wheel.Histogram // a lease counts as 1 µs
	lag      wheel.Histogram
	late     wheel.Histogram
}

// countSent counts a batch of n leases that is about to be sent.
func (s *laneStats) countSent(n int) {
	s.batches++
	s.sent += uint64(n)
	s.inFlight += n
	s.sizes.Record(time.Duration(n)*time.Microsecond, 1)
}

// countAnswered counts what became of a batch.
func (s *laneStats) countAnswered(r *BatchReport, answered bool) {
	s.inFlight -= r.Leases
	s.renewed += uint64(r.Renewed)
	s.retried += uint64(r.Unknown)
	if !answered {
		s.failed++
	}
}

func (s *laneStats) add(o *laneStats) {
	s.leases += o.leases
	s.renewed += o.renewed
	s.retried += o.retried
	for i, n := range o.lost {
		s.lost[i] += n
	}
	s.batches += o.batches
	s.failed += o.failed
	s.sent += o.sent
	s.inFlight += o.inFlight
	s.sizes.Add(&o.sizes)
	s.lag.Add(&o.lag)
	s.late.Add(&o.late)
}

// snapshot returns the counts of s, which must be a copy that is not changed any more.
func (s *laneStats) snapshot(queued int) Stats {
	lost := make(map[Reason]int)
	for i, n := range s.lost {
		if n > 0 {
			lost[Reason(i)] = n
		}
	}
	return Stats{
		Leases: s.leases, Renewed: s.renewed, Retried: s.retried, Lost: lost, Batches: s.batches, Failed: s.failed,
		Queued: queued, InFlight: s.inFlight, Sizes: sizes(s.sizes.Distribution(), s.sent), Lag: s.lag.Distribution(), Late: s.late.Distribution(),
	}
}

// Stats returns a snapshot of all lanes together.
func (w *Watchdog) Stats() Stats {
	w.mu.Lock()
	sum, lanes := w.closedLanes, slices.Clone(w.lanes) // together, so that a lane is in one of the two
	w.mu.Unlock()
	queued := 0
	for _, ln := range lanes {
		ln.mu.Lock()
		sum.add(&ln.stats)
		queued += ln.countQueuedLocked()
		ln.mu.Unlock()
	}
	st, now := sum.snapshot(queued), w.wheel.Stats()
	st.Blocked, st.Behind, st.Still = now.RunningFor, now.Behind, time.Duration(w.standstillTime.Load())
	return st
}

// Stats returns a snapshot of this lane.
func (ln *Lane) Stats() Stats {
	ln.mu.Lock()
	copied, queued := ln.stats, ln.countQueuedLocked()
	ln.mu.Unlock()
	return copied.snapshot(queued)
}
