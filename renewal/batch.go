package renewal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Renewer carries a batch of renewals to the store: it asks the store to
// extend each lease to TTL if the owner still has it. Renew is called by
// several dispatchers at once, with a batch each.
//
//	live, err := b.Send(func(live []int, by time.Time) error {
//		// write a request for the owners of live, and of no others
//	})
//	if err != nil || len(live) == 0 {
//		return
//	}
//	// read the answer; say Renewed or Lost for each of live, or Fail
//
// What is reported neither Renewed nor Lost when Renew returns is unknown, and
// is tried again. ctx ends when the last lease of the batch stops being
// trusted, and at Close; a Renewer should return earlier, for it holds up a
// dispatcher, and must not return much later.
type Renewer interface {
	Renew(ctx context.Context, b *Batch)
}

type verdict uint8

const (
	unknown verdict = iota
	renewed
	notOwner
)

// Batch is a set of leases on their way to the store. It is reused: it is valid
// only during the call of Renew, and only the goroutine that is in that call may
// use it (or others that it awaits, with care of their own).
type Batch struct {
	lane *Lane // immutable

	// owned by the goroutine in Renew
	owners   []Owner // as taken; also of leases that end meanwhile
	verdicts []verdict
	live     []int
	final    []bool // as of the last Send: the lease is not to be extended
	sent     bool   // Send has called write
	stamp    moment // before the first byte
	err      error  // why there is no answer

	// guarded by lane.mu
	flight  cohort        // the leases
	limited bool          // they failed together before
	writing bool          // Send is in progress
	written chan struct{} // closed when writing ends; nil if nobody waits for that
}

func newBatch(ln *Lane) *Batch {
	b := &Batch{lane: ln}
	b.flight = cohort{lane: ln, batch: b, kind: flying, trust: never, armed: never}
	return b
}

// Len is the number of leases in the batch as it was taken.
func (b *Batch) Len() int { return len(b.owners) }

// Owner returns the owner of lease i.
func (b *Batch) Owner(i int) Owner { return b.owners[i] }

// TTL is the lease to ask for.
func (b *Batch) TTL() time.Duration { return b.lane.dog.cfg.TTL }

// Fixed reports that lease i is here because of Verify alone: the store is to
// be asked whether it is still the owner's, and not to extend it. It may be
// asked in the function that is given to Send.
func (b *Batch) Fixed(i int) bool { return b.final[i] }

// Send calls write, which is to put one request for the leases live, given by
// their indexes, on the wire. Those that have ended since the batch was taken,
// and those that Renewed or Lost were said of, are not among them. write must
// have returned by the given time, when the first of them stops being trusted:
// close the connection if it takes no more bytes. Until write has returned,
// nobody's Release of one of them returns; write itself must not call Release.
//
// Trust counts from just before write is called. A batch may be sent again,
// after an answer that says that nothing was done for instance; trust then
// counts from the first time, which is the safe side.
//
// Send returns the indexes that write got, which are valid until the next Send.
// If there are none it does not call write. An error of write makes what is not
// yet known of the batch unknown, as Fail does.
func (b *Batch) Send(write func(live []int, by time.Time) error) ([]int, error) {
	dog := b.lane.dog
	by := b.beginWriting()
	if len(b.live) == 0 {
		return nil, nil
	}
	defer b.endWriting()
	if !b.sent {
		b.sent, b.stamp = true, dog.moment(time.Now())
	}
	if err := write(b.live, dog.base.Add(time.Duration(by))); err != nil {
		b.err = err
		return b.live, err
	}
	return b.live, nil
}

// beginWriting finds out which leases are to be sent, and makes those that
// release one of them wait, if there are any. It returns the earliest end of
// trust.
func (b *Batch) beginWriting() instant {
	b.lane.mu.Lock()
	defer b.lane.mu.Unlock()
	b.live, b.final = b.live[:0], append(b.final[:0], make([]bool, len(b.owners))...)
	earliest := never
	for i, l := range b.flight.leases {
		if l != nil && b.verdicts[i] == unknown {
			b.live = append(b.live, i)
			if b.final[i] = l.final(); !b.final[i] {
				l.flags |= asked
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
	if b.written != nil {
		close(b.written)
		b.written = nil
	}
}

// writtenLocked returns a channel that is closed when the request that is being
// written has been; nil if there is none.
func (b *Batch) writtenLocked() <-chan struct{} {
	if b.writing && b.written == nil {
		b.written = make(chan struct{})
	}
	return b.written
}

// Renewed reports that the store extended lease i, by the answer to a request
// that Send wrote.
func (b *Batch) Renewed(i int) {
	if !b.sent {
		panic("renewal: bug: Renewed before Send")
	}
	b.verdicts[i] = renewed
}

// Lost reports that the store said lease i is not its owner's.
func (b *Batch) Lost(i int) { b.verdicts[i] = notOwner }

// Fail notes why there is no answer for the leases that are neither Renewed nor
// Lost. It is for Config.OnBatch; they are unknown without it too.
func (b *Batch) Fail(err error) { b.err = err }

// errSilent is the error of a batch whose Renewer reported nothing at all.
var errSilent = errors.New("renewal: the Renewer reported neither an answer nor an error")

// run calls the Renewer with the leases in b.flight, the last of which stops
// being trusted at end.
func (b *Batch) run(end instant) {
	ctx, cancel := context.WithDeadline(b.lane.ctx, b.lane.dog.base.Add(time.Duration(end)))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			b.err = fmt.Errorf("renewal: the Renewer panicked: %v", p)
		}
	}()
	b.lane.renewer.Renew(ctx, b)
}
