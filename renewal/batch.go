package renewal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Renewer sends a batch of renewals to the store. It asks the store to extend
// each lease to TTL if the owner still has the lease. Several dispatchers call
// Renew at the same time, each with a batch of its own.
//
//	live, err := b.Send(func(live []int, by time.Time) error {
//		// write a request for the owners of live, and of no others
//	})
//	if err != nil || len(live) == 0 {
//		return
//	}
//	// read the answer; call Renewed or Lost for each of live, or Fail
//
// If Renew returns without a call of Renewed or Lost for a lease, the outcome of
// the lease is unknown, and the lease is sent again. ctx ends at Close, and when
// the trust of all leases in the batch has ended. A Renewer should return
// earlier, because it occupies a dispatcher, and must not return much later.
type Renewer interface {
	Renew(ctx context.Context, b *Batch)
}

type outcome uint8

const (
	unknown outcome = iota
	renewed
	notOwner
)

// Batch is a set of leases that are being sent to the store. The package reuses a
// Batch for other leases, so it is valid only during the call of Renew. Only the
// goroutine that runs this call may use the Batch, and goroutines that this
// goroutine starts, synchronises and waits for.
type Batch struct {
	lane *Lane // immutable

	// owned by the goroutine in Renew
	owners       []Owner // of the leases as taken, even of leases that end meanwhile
	outcomes     []outcome
	live         []int   // the indexes of the leases that the last Send wrote
	isNotRenewed []bool  // by lease, at the last Send: the store must not extend it
	sent         bool    // Send has called write
	stamp        instant // before the first byte of the first Send
	err          error   // why there is no answer

	// guarded by lane.mu
	began   instant       // when the batch was filled
	flight  group         // the leases that have not left the batch, by index
	limited bool          // the leases failed together before
	writing bool          // Send is in progress
	written chan struct{} // closed when writing ends; nil if nobody waits for it
}

func newBatch(ln *Lane) *Batch {
	b := &Batch{lane: ln}
	b.flight = group{lane: ln, batch: b, kind: inBatch, trust: never, armed: never}
	return b
}

// Len returns the number of leases in the batch when it was taken.
func (b *Batch) Len() int { return len(b.owners) }

// Owner returns the owner of lease i.
func (b *Batch) Owner(i int) Owner { return b.owners[i] }

// TTL returns the lease to ask for.
func (b *Batch) TTL() time.Duration { return b.lane.dog.cfg.TTL }

// Fixed reports whether lease i is in the batch only to be checked (Verify,
// Confirm). Then the Renewer must ask the store whether the owner still has the
// lease, and must not extend the lease. The write function of Send may call
// Fixed.
func (b *Batch) Fixed(i int) bool { return b.isNotRenewed[i] }

// Send calls write, which must write one request for the leases live, given by
// their indexes. These are the leases that have not ended since the batch was
// taken, and for which neither Renewed nor Lost was called. write must return
// before the time by, which is the earliest end of trust among these leases. If
// the connection takes no more bytes, write must close the connection. Until
// write has returned, Release of these leases does not return. So write must not
// call Release.
//
// Trust counts from just before the call of write. A batch may be sent again, for
// example after an answer that says that nothing was done. Trust then counts
// from the first Send, which is the safe side.
//
// Send returns the indexes that it gave to write. They are valid until the next
// Send. If no lease is left, Send does not call write. If write returns an error,
// the outcome of the leases without an answer is unknown, as after Fail.
func (b *Batch) Send(write func(live []int, by time.Time) error) ([]int, error) {
	dog := b.lane.dog
	by := b.beginWriting()
	if len(b.live) == 0 {
		return nil, nil
	}
	defer b.endWriting()
	if !b.sent {
		b.sent, b.stamp = true, dog.now()
	}
	if err := write(b.live, dog.timerTime(by)); err != nil {
		b.err = err
		return b.live, err
	}
	return b.live, nil
}

// beginWriting lists the leases to be sent. From then on, a Release of one of them
// waits. beginWriting returns their earliest end of trust.
func (b *Batch) beginWriting() instant {
	b.lane.mu.Lock()
	defer b.lane.mu.Unlock()
	b.live, b.isNotRenewed = b.live[:0], append(b.isNotRenewed[:0], make([]bool, len(b.owners))...)
	earliest := never
	for i, l := range b.flight.leases {
		if l != nil && b.outcomes[i] == unknown {
			b.live = append(b.live, i)
			l.flags &^= doubted
			if b.isNotRenewed[i] = l.isNotRenewed(); !b.isNotRenewed[i] {
				l.flags |= writtenOnce
			}
			earliest = min(earliest, instant(l.trust.Load()))
		}
	}
	b.writing = len(b.live) > 0
	return earliest
}

func (b *Batch) endWriting() {
	b.lane.mu.Lock()
	defer b.lane.mu.Unlock()
	b.writing = false
	if b.written == nil {
		return
	}
	close(b.written)
	dog := b.lane.dog
	dog.takenOutMu.Lock()
	delete(dog.takenOut, b.written)
	dog.takenOutMu.Unlock()
	b.written = nil
}

// writtenLocked returns a channel that is closed when the request that is being
// written is complete; nil if no request is being written.
func (b *Batch) writtenLocked() <-chan struct{} {
	if b.writing && b.written == nil {
		b.written = make(chan struct{})
	}
	return b.written
}

// Renewed reports that the store extended lease i, in its answer to a request
// that Send wrote.
func (b *Batch) Renewed(i int) {
	if !b.sent {
		panic("renewal: bug: Renewed before Send")
	}
	b.outcomes[i] = renewed
}

// Lost reports that the store answered that the owner of lease i does not have
// the lease.
func (b *Batch) Lost(i int) { b.outcomes[i] = notOwner }

// Fail records why there is no answer for the leases that are neither Renewed
// nor Lost. Config.OnBatch gets the error. Without Fail, the outcome of these
// leases is unknown, too.
func (b *Batch) Fail(err error) { b.err = err }

// errSilent is the error of a batch whose Renewer reported nothing at all.
var errSilent = errors.New("renewal: the Renewer reported neither an answer nor an error")

// run calls the Renewer with the leases in b.flight. Their latest end of trust is
// end.
func (b *Batch) run(end instant) {
	ctx, cancel := context.WithDeadline(b.lane.ctx, b.lane.dog.timerTime(end))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			b.err = fmt.Errorf("renewal: the Renewer panicked: %v", p)
		}
	}()
	b.lane.renewer.Renew(ctx, b)
}
