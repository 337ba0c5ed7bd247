package renewal

import (
	"context"
	"fmt"
	"time"
)

// Renewer carries a batch of renewals to the store. For each lease of the
// batch it asks the store to extend the lease to TTL if the owner still has
// it. What it reports neither Lost nor Unknown counts as renewed, so it must
// report before it returns all that the store did not confirm. Renew is called
// by several dispatchers at once, with a batch each. ctx ends at the earliest
// end of trust in the batch and at Close; a Renewer may return earlier but not
// much later, for it holds up a dispatcher.
type Renewer interface {
	Renew(ctx context.Context, b *Batch)
}

type verdict uint8

const (
	renewed verdict = iota
	notOwner
	unknown
)

// Batch is a set of leases on their way to the store. It is reused: it and its
// owners are valid only during the call of Renew, and only the goroutine that
// is in that call may use it (or others that it awaits, with care of their
// own).
type Batch struct {
	lane     *Lane
	stamp    time.Time // before Renew was called, so before the first byte
	owners   []Owner   // as taken; also of leases that end meanwhile
	verdicts []verdict
	err      error // the last that Unknown was given

	flight cohort // the leases; guarded by lane.mu
}

func newBatch(ln *Lane) *Batch {
	b := &Batch{lane: ln}
	b.flight = cohort{lane: ln, kind: flying, trust: never, armed: never}
	return b
}

// Len is the number of leases in the batch.
func (b *Batch) Len() int { return len(b.owners) }

// Owner returns the owner of lease i.
func (b *Batch) Owner(i int) Owner { return b.owners[i] }

// TTL is the lease to ask for.
func (b *Batch) TTL() time.Duration { return b.lane.dog.cfg.TTL }

// Lost reports that the store said lease i is not its owner's.
func (b *Batch) Lost(i int) { b.verdicts[i] = notOwner }

// Unknown reports that it is not known whether lease i was renewed.
func (b *Batch) Unknown(i int, err error) {
	b.verdicts[i] = unknown
	b.err = err
}

// UnknownAll reports that nothing is known of the whole batch.
func (b *Batch) UnknownAll(err error) {
	for i := range b.verdicts {
		b.verdicts[i] = unknown
	}
	b.err = err
}

// launchLocked prepares the call of the Renewer for the leases in b.flight and
// returns the earliest end of trust among them.
func (b *Batch) launchLocked() instant {
	b.owners, b.verdicts, b.err = b.owners[:0], b.verdicts[:0], nil
	earliest := never
	for _, l := range b.flight.leases {
		b.owners = append(b.owners, l.owner)
		b.verdicts = append(b.verdicts, renewed)
		earliest = min(earliest, instant(l.trust.Load()))
	}
	st := &b.lane.stats
	st.batches++
	st.inFlight += len(b.owners)
	return earliest
}

// run calls the Renewer with the leases in b.flight and applies its answers.
func (b *Batch) run(earliest instant) {
	ln := b.lane
	ctx, cancel := context.WithDeadline(ln.ctx, ln.dog.base.Add(time.Duration(earliest)))
	b.stamp = time.Now()
	b.call(ctx)
	cancel()
	ln.settle(b)
}

func (b *Batch) call(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			b.UnknownAll(fmt.Errorf("renewal: the Renewer panicked: %v", p))
		}
	}()
	b.lane.renewer.Renew(ctx, b)
}

// settle applies the verdicts of b and empties it. A lease that was released
// or told lost meanwhile is no longer in it.
func (ln *Lane) settle(b *Batch) {
	dog := ln.dog
	var gone []*Lease
	known := false
	ln.mu.Lock()
	now, sent := dog.now(), dog.instant(b.stamp)
	st := &ln.stats
	st.inFlight -= len(b.owners)
	for _, v := range b.verdicts {
		known = known || v != unknown
	}
	if known {
		ln.fails = 0
	} else {
		ln.fails++
	}
	for i, l := range b.flight.leases {
		if l == nil {
			continue
		}
		switch v := b.verdicts[i]; {
		case v == notOwner:
			l.loseLocked(NotOwner)
			gone = append(gone, l)
		case instant(l.trust.Load()) <= now: // whatever the store said, it said it too late
			l.loseLocked(TrustEnded)
			gone = append(gone, l)
		case v == unknown:
			st.retried++
			l.leaveLocked()
			ln.fileLocked(l, now.plus(ln.backoffLocked()), now)
		default:
			st.renewed++
			st.lag.record(time.Duration(sent-l.due), 1)
			st.late.record(time.Duration(now-l.due), 1)
			l.leaveLocked()
			l.trustLocked(b.stamp, dog.cfg.TTL)
			// The next due time counts from the last, not from now: no
			// drift. After an outage that would bunch leases, so they are
			// spread anew.
			if l.due = l.due.plus(dog.interval); l.due < now.plus(dog.interval/2) {
				l.due = dog.firstDue(now)
			}
			ln.fileLocked(l, l.due, now)
		}
	}
	clear(b.flight.leases)
	b.flight.leases, b.flight.trust = b.flight.leases[:0], never
	clear(b.owners)
	b.owners = b.owners[:0]
	ln.mu.Unlock()
	tell(gone)
}
