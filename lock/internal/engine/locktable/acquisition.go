package locktable

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// Acquisition says what a Waiter takes, and how. The goroutine that runs the Waiter calls all
// methods except Follows, with no mutex held.
type Acquisition[H Hold] interface {
	// Try sends the script that takes the object, once. If it gets a hold, it calls
	// Table.Adopt with the hold.
	Try(ctx context.Context) wire.Outcome
	// Reenter re-enters h, which the owner has. The Outcome is Gone if h has ended.
	Reenter(ctx context.Context, h H) wire.Outcome
	// Follows reports whether h can be handed over to this call. over says that the run has
	// ended, so only a script may hand h over. The goroutine that unlocks h calls Follows,
	// under a mutex of the Table.
	Follows(h H, over bool) bool
	// Take takes h, which was handed over.
	Take(h H)
	// Channel returns the channel for releases of the object.
	Channel() string
	// RefuseDeadlock returns how a call ends whose owner has h and would wait for itself.
	RefuseDeadlock(h H) wire.Outcome
	// Refusal returns how a call ends that does not ask Redis, because the client knows
	// that another has the object for ttl.
	Refusal(ttl time.Duration) wire.Outcome
}

// Unowned has the methods of Acquisition for objects that no owner re-enters, and that are
// not handed over.
type Unowned[H Hold] struct{}

func (Unowned[H]) Reenter(context.Context, H) wire.Outcome { return wire.Outcome{Result: wire.Gone} }
func (Unowned[H]) Follows(H, bool) bool                    { return false }
func (Unowned[H]) Take(H)                                  {}
func (Unowned[H]) RefuseDeadlock(H) wire.Outcome           { return wire.Outcome{} }

// Request is the part of a call's arguments that its Waiter needs.
type Request struct {
	Owner       owner.Owner // owner.Nobody for an object without owners
	SharesOwner bool        // other calls may have the same owner, and hold the object
	Reading     bool        // it takes the object for reading
	Needs       int64       // how much it needs; 0 means 1
	NoWait      bool        // it does not wait
	Final       bool        // an unknown outcome ends it
	Alone       bool        // it asks Redis while it waits, even if it is not first in line
}
