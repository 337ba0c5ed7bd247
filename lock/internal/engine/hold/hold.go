package hold

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
	"github.com/wheellock/wheellock/renewal"
)

// Hold is one outermost acquisition, until its last Unlock: a field in the
// lock's hash, a lease with the watchdog, and the Helds that share it.
type Hold struct {
	lease renewal.Lease

	// immutable
	engine *Engine
	name   string
	owner  owner.Owner
	seq    uint64
	token  int64

	// With a million locks each byte counts. So the order of the fields leaves no gap,
	// and rarely needed fields are elsewhere (Engine.turns).

	flags atomic.Uint32 // see asked and the others

	kind Kind // immutable

	// guarded by mu, which also guards fields of the Helds, and is never held during I/O
	isTurnTaken      bool  // a call has the hold's turn, see enter
	isTurnAwaited    bool  // a call waits for the end of the turn
	closing          bool  // Close has announced its end; still held and renewed
	longestLeaseBits uint8 // see longestLease
	mu               sync.Mutex
	count            int32  // Helds not yet unlocked
	renewing         int32  // those of them that need renewal
	mayRunUntil      uint32 // until when a request of it may still be carried out, see noteMayRun; 0 if none may
	ends             *ends  // nil if no Held gave out a channel or a context, and it is not lost

	first Held // of the acquisition; each re-entry has another Held
}

// Held is one successful call that took the lock. The Helds of re-entries share the Hold, and each
// Held is ended by one Unlock. All methods are safe for concurrent use. Users have it as
// lock.Held, whose documentation has the promises.
type Held struct {
	h       *Hold  // immutable
	renewed bool   // it came from Lock, not LockFor, and still needs renewal; guarded by h.mu
	mark    uint16 // immutable; a hash of its address, which shows all copies except one in 65,536

	state atomic.Uint32
	watch *heldWatch // made by the first Done or Context; guarded by h.mu
}

// begin makes x a Held of h.
func (x *Held) begin(h *Hold, renewed bool) { x.h, x.renewed, x.mark = h, renewed, markOf(x) }

// markOf returns a hash of x's address.
func markOf(x *Held) uint16 {
	return uint16(uint64(uintptr(unsafe.Pointer(x))) * 0x9e3779b97f4a7c15 >> 48)
}

// Used returns x. It panics if no call has returned this very Held.
func (x *Held) Used() *Held {
	if x == nil || x.h == nil {
		panic("lock: this Held is nil or zero: check the error of Lock, and use the Held that it returned")
	}
	if x.mark != markOf(x) {
		panic("lock: this Held is a copy: use the pointer that Lock returned")
	}
	return x
}

// Hold is what x shares with the Helds of its re-entries.
func (x *Held) Hold() *Hold { return x.h }

// states of a Held
const (
	stateHeld       uint32 = iota // to stateUnlocking in Unlock
	stateUnlocking                // to stateUnlocked if it has ended or is lost; if Redis refuses (NOPERM) or does not answer, to stateHeld if the hold is leaving, else to stateUnanswered
	stateUnlocked                 // terminal
	stateUnanswered               // off the count, which Redis may not know; to stateUnlocking in Unlock
)

// The flags of a hold.
const (
	needsAsking    uint32 = 1 << iota // its key was found on the server that its slot is just being moved to
	leaving                           // the last Unlock has begun; no re-entry any more; set under mu
	returned                          // a call has returned with it, so the hooks are told of it
	reportable                        // see MarkReportable
	lossUnreported                    // it is lost. Whoever sets the second of reportable and lossUnreported reports the loss
	unsure                            // a request may have prolonged it in Redis by more than is known here
	closed                            // Close ends its lease, if nobody has done so before; see Config.ReleaseOnClose
	prolonging                        // the turn is that of an Extend or a re-entry, whose request may be on its way
	absent                            // see MoveIfAbsent
	doubtful                          // see MarkDoubtful
	lost                              // it is no hold any more, though the client's tables may have it for a moment yet
)

// has reports whether h has one of the flags.
func (h *Hold) has(flags uint32) bool { return h.flags.Load()&flags != 0 }

// setFlag sets a flag or takes it away, and reports whether it was set before.
func (h *Hold) setFlag(flag uint32, to bool) bool {
	if to {
		return h.flags.Or(flag)&flag != 0
	}
	return h.flags.And(^flag)&flag != 0
}

// MarkReturned records that a call returns with h. It reports whether that call is the first one,
// because later calls are re-entries. A hold that no call has returned with is not reported to
// users.
func (h *Hold) MarkReturned() (first bool) { return !h.setFlag(returned, true) }

// MarkReportable records that users were told of h. If h was lost before, MarkReportable returns why, and
// the caller must report the loss. If h is lost later, Observer.Lost is called.
func (h *Hold) MarkReportable() error {
	if h.flags.Or(reportable)&lossUnreported == 0 {
		return nil
	}
	return h.lostError()
}

func (h *Hold) lostErrorLocked() error {
	if h.ends == nil {
		return nil
	}
	return h.ends.lost
}

// recordLease records that the key may get this lease. A writer's key also keeps the lease of its owner's reads.
func (h *Hold) recordLease(lease time.Duration) {
	if lease <= h.engine.cfg.Lease {
		return
	}
	if h.kind == Read {
		h.engine.recordWritersLease(h.name, h.owner, lease)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.longestLeaseBits = max(h.longestLeaseBits, uint8(bits.Len64(uint64(lease/time.Millisecond))))
}

// recordWritersLease calls recordLease of the owner's write hold, if there is one, and returns the hold.
func (k *Engine) recordWritersLease(name string, o owner.Owner, lease time.Duration) *Hold {
	h := k.Table.Own(name, o, locktable.Writing)
	if h != nil {
		h.recordLease(lease)
	}
	return h
}

// longestLease returns the longest lease that the key may have been given, or up to twice as much. It
// returns 0 if that is not longer than Config.Lease.
func (h *Hold) longestLease() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.longestLeaseBits == 0 {
		return 0
	}
	return time.Millisecond << h.longestLeaseBits
}

// field returns the hold's field in the lock's hash. Only the holds of its run ever use it.
func (h *Hold) field() string {
	var room [fieldRoom]byte
	return string(h.appendField(room[:0]))
}

// appendField appends the hold's field. AppendFieldTail appends only the part after the client's id.
func (h *Hold) appendField(b []byte) []byte {
	if r := h.run(); r != nil {
		return appendField(b, h.engine.cfg.ID, Mutex, r.owner, r.seq)
	}
	return appendField(b, h.engine.cfg.ID, h.kind, h.owner, h.seq)
}

// The methods of locktable.Hold.

func (h *Hold) Name() string         { return h.name }
func (h *Hold) Owner() owner.Owner   { return h.owner }
func (h *Hold) Mode() locktable.Mode { return kinds[h.kind].mode }
func (h *Hold) Leaving() bool        { return h.has(leaving) }
func (h *Hold) IsLost() bool         { return h.has(lost) }
func (h *Hold) Deadline() time.Time  { return h.lease.Deadline() }
func (h *Hold) CloseBegan()          { h.closing = true }
func (h *Hold) Confirm()             { h.lease.Confirm() }
func (h *Hold) MarkDoubtful()        { h.setFlag(doubtful, true) }
func (h *Hold) IsDoubtful() bool     { return h.has(doubtful) }
func (h *Hold) IsLeaseLost() bool {
	_, lost := h.lease.Lost()
	return lost
}

func (h *Hold) Past() *locktable.Past {
	if r := h.run(); r != nil {
		return &r.past
	}
	return nil
}

// Value implements watch.Subject: contexts carry the owner, but a permit has none.
func (h *Hold) Value(key any) any {
	if h.kind == Permits {
		return nil
	}
	return h.owner.Value(key)
}

// Token is the fencing token; 0 where the kind has none. Seq is a number that no other hold of the client
// has.
func (h *Hold) Token() int64 { return h.token }
func (h *Hold) Seq() uint64  { return h.seq }

// The methods of renewer.Owner, with Name and Lost.

var _ renewer.Owner = (*Hold)(nil)

func (h *Hold) Class() renewer.Class            { return kinds[h.kind].class }
func (h *Hold) AppendFieldTail(b []byte) []byte { return appendTail(b, h.kind, h.owner, h.seq) }
func (h *Hold) Touch() byte                     { return h.name[0] + h.owner.Text[0] }
func (h *Hold) NeedsAsking() bool               { return h.has(needsAsking) }
func (h *Hold) Key() string {
	if key := kinds[h.kind].key; key != nil {
		return key(h.name)
	}
	return h.name
}

func (h *Hold) Weight() int {
	if h.kind == Permits {
		return int(permitIDs(h.owner).n())
	}
	return 1
}

func (h *Hold) MoveTo(lane *renewal.Lane, asking bool) {
	h.setFlag(needsAsking, asking)
	h.lease.Move(lane)
}

func (h *Hold) MoveIfAbsent() bool {
	l := h.engine.lane(h.name)
	if h.setFlag(absent, true) || l == nil {
		h.setFlag(absent, false)
		return false
	}
	h.MoveTo(l.RenewalLane(), false)
	return true
}

func (h *Hold) Found() {
	if h.has(absent) {
		h.setFlag(absent, false)
	}
}
