package renewal

import "time"

// Stats is a snapshot of the counters of a Watchdog or a Lane since its start.
type Stats struct {
	Leases   int            // held now
	Renewed  uint64         // renewals that the store acknowledged in time
	Retried  uint64         // leases sent again after an unknown outcome
	Lost     map[Reason]int // leases lost, by reason
	Batches  uint64         // calls of the Renewer
	Failed   uint64         // calls of the Renewer that the store did not answer
	Queued   int            // due now and not yet in a batch
	InFlight int            // in a batch now

	// Sizes are the numbers of leases in the batches.
	Sizes Sizes
	// Lag is the time from when a renewal was due until it was sent. Late is
	// the time from when it was due until it was acknowledged.
	Lag, Late Distribution
}

// Distribution summarises measured durations. Quantiles are accurate to one part in 16.
type Distribution struct {
	Count         uint64
	Sum           time.Duration
	P50, P99, Max time.Duration

	hist *histogram // what they were made of, for Since
}

// Bucket counts the measured durations that are at most UpTo and above the UpTo
// of the bucket before. The bounds are a sixteenth apart and the same for
// every Distribution.
type Bucket struct {
	UpTo  time.Duration
	Count uint64
}

// Buckets returns the buckets that are not empty, in ascending order. For a
// Distribution that Since returned, they count only the time between the two
// snapshots.
func (d Distribution) Buckets() []Bucket {
	if d.hist == nil {
		return nil
	}
	return d.hist.buckets()
}

// Sizes summarises numbers of leases. Quantiles are accurate to one part in 16.
type Sizes struct {
	Sum           uint64
	P50, P99, Max int

	hist *histogram
}

// Since returns what was counted between the snapshot earlier and s. Leases,
// Queued and InFlight are those of s. The largest durations are accurate to one part
// in 16.
func (s Stats) Since(earlier Stats) Stats {
	s.Renewed -= earlier.Renewed
	s.Retried -= earlier.Retried
	s.Batches -= earlier.Batches
	s.Failed -= earlier.Failed
	lost := make(map[Reason]int)
	for r, n := range s.Lost {
		if n -= earlier.Lost[r]; n > 0 {
			lost[r] = n
		}
	}
	s.Lost = lost
	s.Lag, s.Late = s.Lag.Since(earlier.Lag), s.Late.Since(earlier.Late)
	if s.Sizes.hist != nil && earlier.Sizes.hist != nil {
		s.Sizes = s.Sizes.hist.minus(earlier.Sizes.hist).sizes(s.Sizes.Sum - earlier.Sizes.Sum)
	}
	return s
}

// Since returns the Distribution of what was measured between two snapshots of the same
// thing, and d itself if earlier is the zero Distribution. Max is then accurate to one
// part in 16.
func (d Distribution) Since(earlier Distribution) Distribution {
	if d.hist == nil || earlier.hist == nil {
		return d
	}
	return d.hist.minus(earlier.hist).summary()
}

// laneStats is guarded by Lane.mu.
type laneStats struct {
	leases   int
	renewed  uint64
	retried  uint64
	lost     [reasons]int
	batches  uint64
	failed   uint64
	sent     uint64
	inFlight int
	sizes    histogram // a lease counts as 1 µs
	lag      histogram
	late     histogram
}

// launch counts a batch of n leases that is about to be sent.
func (s *laneStats) launch(n int) {
	s.batches++
	s.sent += uint64(n)
	s.inFlight += n
	s.sizes.record(time.Duration(n)*time.Microsecond, 1)
}

// land counts what became of a batch.
func (s *laneStats) land(r *BatchReport, answered bool) {
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
	s.sizes.add(&o.sizes)
	s.lag.add(&o.lag)
	s.late.add(&o.late)
}

// snapshot returns what s counts; s must be a copy that nobody changes any more.
func (s *laneStats) snapshot(queued int) Stats {
	lost := make(map[Reason]int)
	for i, n := range s.lost {
		if n > 0 {
			lost[Reason(i)] = n
		}
	}
	return Stats{
		Leases: s.leases, Renewed: s.renewed, Retried: s.retried, Lost: lost, Batches: s.batches, Failed: s.failed,
		Queued: queued, InFlight: s.inFlight, Sizes: s.sizes.sizes(s.sent), Lag: s.lag.summary(), Late: s.late.summary(),
	}
}

// Stats returns a snapshot of all lanes together.
func (w *Watchdog) Stats() Stats {
	w.mu.Lock()
	sum := w.past
	w.mu.Unlock()
	queued := 0
	for _, ln := range w.snapshotLanes() {
		ln.mu.Lock()
		sum.add(&ln.stats)
		queued += ln.queuedLocked()
		ln.mu.Unlock()
	}
	return sum.snapshot(queued)
}

// Stats returns a snapshot of this lane.
func (ln *Lane) Stats() Stats {
	ln.mu.Lock()
	copied, queued := ln.stats, ln.queuedLocked()
	ln.mu.Unlock()
	return copied.snapshot(queued)
}
