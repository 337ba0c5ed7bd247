package lock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// hold is one outermost acquisition, until its last Unlock: a field in the
// lock's hash, a lease with the watchdog, and the Helds that share it.
type hold struct {
	lease renewal.Lease

	// immutable
	c     *keeper
	name  string
	owner owner.Owner
	seq   uint64
	token int64

	// With a million locks each byte counts: the order of the fields leaves no gap,
	// and what is rarely needed stands elsewhere (keeper.turns).

	marks atomic.Uint32 // asked, leaving, lost

	kind kind // immutable

	// guarded by mu, which is never held during I/O, and the Helds too
	busy     bool   // a script of this hold is on its way: they are ordered
	awaited  bool   // somebody waits for the end of busy
	closing  bool   // Close has announced its end; still held and renewed
	why      Reason // it was lost; 0 otherwise
	mu       sync.Mutex
	count    int32      // Helds not yet unlocked
	renewing int32      // those of them that came from Lock
	open     uint32     // until when a request of it may still be carried out, see noteOpen; 0 if none may
	watching *heldWatch // list of the Helds that gave out a channel or a context; of a lost hold, the last may be what Redis refused

	first Held // of the acquisition; a re-entry has one of its own
}

// The marks of a hold.
const (
	asked   uint32 = 1 << iota // its key was found on the server that its slot is just being moved to
	leaving                    // the last Unlock has begun; no re-entry any more; set under mu
	seen                       // a call has returned with it, so the hooks are told of it
	told                       // Hooks.Acquired was; only if there is a Hooks.Lost
	untold                     // it is lost, and Hooks.Lost is told if told is set; of the two marks, who sets the second tells
	unsure                     // a request may have prolonged it in Redis by more than is known here
	longer                     // it was given a longer lease than Config.Lease, which its key may still have
	closed                     // Close ends its lease, if nobody has done so before; see Config.ReleaseOnClose
	lost                       // it is no hold any more, though the client's tables may have it for a moment yet
)

// is reports whether h has one of the marks.
func (h *hold) is(marks uint32) bool { return h.marks.Load()&marks != 0 }

// set sets a mark or takes it away, and reports whether it was set before.
func (h *hold) set(mark uint32, to bool) bool {
	if to {
		return h.marks.Or(mark)&mark != 0
	}
	return h.marks.And(^mark)&mark != 0
}

// firstHeld is the Held of the acquisition.
func (h *hold) firstHeld(renewed bool) *Held {
	if h.c.cfg.DropForgotten {
		return h.anotherHeld(renewed)
	}
	h.first.h, h.first.renewed = h, renewed
	return &h.first
}

// anotherHeld is a Held of its own: of a re-entry, or one that can be forgotten.
func (h *hold) anotherHeld(renewed bool) *Held {
	x := &Held{h: h, renewed: renewed}
	if h.c.cfg.DropForgotten {
		x.notice()
	}
	return x
}

// field is the hold's field in the lock's hash, which no hold but those of its run ever
// uses.
func (h *hold) field() string {
	b := make([]byte, 0, 80)
	if h.kind != permitKind {
		b = append(append(b, h.c.id...), ':')
	}
	if r := h.run(); r != nil {
		return string(r.appendTail(b))
	}
	return string(h.appendOwnTail(b))
}

// appendOwnTail appends what comes after the client's id in the field of a hold of no
// run.
func (h *hold) appendOwnTail(b []byte) []byte {
	if h.kind == permitKind { // the ids, and how many
		return h.permits().appendTo(b)
	}
	b = append(h.owner.AppendTo(b), ':')
	b = strconv.AppendUint(b, h.seq, 10)
	if h.kind == writeKind {
		b = append(b, ":write"...) // as Redisson tells a writer from a reader
	}
	return b
}

// orphan leaves the field of a hold that was given out to the orphans, for as
// long as Redis may have it.
func (h *hold) orphan() {
	left := time.Until(h.lease.Deadline()) + h.c.dog.Config().Margin + h.c.cfg.IOTimeout
	h.c.owe(h.kind, h.name, h.field(), max(left, h.c.cfg.Lease))
}

// reenter takes one more count. It returns errGone if the hold is no more and
// never was the caller's to rely on: a fresh attempt is due. If ctx ends before the hold's
// turn has come, Redis was asked nothing, and the error is ctx's and not ErrUnknown.
func (h *hold) reenter(ctx context.Context, lease time.Duration, renewed bool) (*Held, error) {
	if err := h.enter(ctx); err != nil {
		return nil, fmt.Errorf("lock: re-entry of %q was not sent: %w", h.name, &busyError{err})
	}
	var a pipe.Answer
	defer func() { h.leave(a) }()
	h.mu.Lock()
	count, left, lost := h.count+1, h.is(leaving), h.why != 0
	h.mu.Unlock()
	if left || lost {
		return nil, errGone
	}
	a = h.send(ctx, h.kind.rules().reenter(h, count, lease))
	if a.Err != nil {
		return nil, h.c.scripts.callError("reenter", h.name, a)
	}
	n, ok := a.Reply.(int64)
	if !ok || n != 0 && n != 1 {
		return nil, badReply("reenter", h.name, a.Reply)
	}
	h.lengthen(lease)
	trusted := n == 1 && h.lease.Extend(a.Stamp, lease)
	if n == 1 && !trusted {
		h.set(unsure, true)
	}
	h.mu.Lock()
	left = h.is(leaving)
	if trusted && !left {
		h.count++
		if renewed {
			h.renewing++
		}
	}
	renewing := h.renewing
	h.mu.Unlock()
	switch {
	case left:
		return nil, errGone // the last Unlock did not wait any longer
	case n == 0:
		return nil, h.lostByLease(NotOwner)
	case !trusted:
		return nil, h.lostByLease(TrustEnded)
	}
	if renewed && renewing == 1 {
		h.settle()
	}
	return h.anotherHeld(renewed), nil
}

// lengthen notes that the key may have been given so long a lease.
func (h *hold) lengthen(lease time.Duration) {
	if lease > h.c.cfg.Lease {
		h.set(longer, true)
	}
}

// rest ends x's wish that the hold be renewed: once it is nobody's, the longest
// lease that it was given stands.
func (x *Held) rest() {
	x.h.mu.Lock()
	last := x.renewed && x.h.renewing == 1
	if x.renewed {
		x.renewed = false
		x.h.renewing--
		if x.watch != nil {
			x.watch.rested = true
		}
	}
	x.h.mu.Unlock()
	if last {
		x.h.settle()
	}
}

// settle makes the watchdog renew the hold, or not, as its Helds want it now.
func (h *hold) settle() {
	for again := true; again; {
		h.mu.Lock()
		fixed := h.renewing == 0
		h.mu.Unlock()
		h.lease.SetFixed(fixed)
		if l := h.c.lane(h.name); l != nil && !fixed {
			l.carrier.Open()
		}
		h.mu.Lock()
		again = fixed != (h.renewing == 0) // changed meanwhile: who did that may have come before us
		h.mu.Unlock()
	}
}

// Owner implements locktable.Hold.
func (h *hold) Owner() owner.Owner { return h.owner }

// Mode implements locktable.Hold.
func (h *hold) Mode() locktable.Mode { return h.kind.mode() }

// Leaving implements locktable.Hold.
func (h *hold) Leaving() bool { return h.is(leaving) }

// Over implements locktable.Hold.
func (h *hold) Over() bool { return h.is(lost) }

// Ended implements locktable.Hold.
func (h *hold) Ended() bool {
	_, lost := h.lease.Lost()
	return lost
}

// Deadline implements locktable.Hold.
func (h *hold) Deadline() time.Time { return h.lease.Deadline() }

// Past implements locktable.Hold.
func (h *hold) Past() *locktable.Past {
	if r := h.run(); r != nil {
		return &r.past
	}
	return nil
}

// CloseBegan implements locktable.Hold.
func (h *hold) CloseBegan() { h.closing = true }

// Confirm implements locktable.Hold.
func (h *hold) Confirm() { h.lease.Confirm() }

var _ carrier.Owner = (*hold)(nil)

// Class implements carrier.Owner.
func (h *hold) Class() carrier.Class { return h.kind.rules().class() }

// Name implements carrier.Owner.
func (h *hold) Name() string { return h.name }

// Key implements carrier.Owner.
func (h *hold) Key() string { return h.kind.rules().key(h.name) }

// AppendField implements carrier.Owner.
func (h *hold) AppendField(b []byte) []byte { return h.appendOwnTail(b) }

// Weight implements carrier.Owner.
func (h *hold) Weight() int {
	if h.kind == permitKind {
		return int(h.permits().n())
	}
	return 1
}

// Touch implements carrier.Owner.
func (h *hold) Touch() byte { return h.name[0] + h.owner.Text[0] }

// Asked implements carrier.Owner.
func (h *hold) Asked() bool { return h.is(asked) }

// MoveTo implements carrier.Owner.
func (h *hold) MoveTo(lane *renewal.Lane, asking bool) {
	h.set(asked, asking)
	h.lease.Move(lane)
}
