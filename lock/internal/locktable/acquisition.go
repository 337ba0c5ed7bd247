package locktable

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Acquisition says what a Waiter takes, and how. The goroutine that runs the Waiter calls all
// methods except Follows, with no mutex held.
type Acquisition[H Hold] interface {
	// Try sends the script that takes the object, once. If it gets a hold, it calls
	// Table.Adopt with the hold.
	Try(ctx context.Context) Reply
	// Reenter re-enters h, which the owner has.
	Reenter(ctx context.Context, h H) Reply
	// Follows reports whether h can be handed over to this call. over says that the run has
	// ended, so only a script may hand h over. The goroutine that unlocks h calls Follows,
	// under a mutex of the Table.
	Follows(h H, over bool) bool
	// Take takes h, which was handed over.
	Take(h H)
	// Channel returns the channel for releases of the object.
	Channel() string
	// Barred returns the error if the owner has h and cannot get another hold.
	Barred(h H) error
	// Refusal returns the error of a call that does not ask Redis, because the client knows
	// that another has the object for ttl.
	Refusal(ttl time.Duration) error
}

// Unowned has the methods of Acquisition for objects that no owner re-enters, and that are
// not handed over.
type Unowned[H Hold] struct{}

func (Unowned[H]) Reenter(context.Context, H) Reply { return Reply{Verdict: Gone} }
func (Unowned[H]) Follows(H, bool) bool             { return false }
func (Unowned[H]) Take(H)                           {}
func (Unowned[H]) Barred(H) error                   { return nil }

// Request says for whom a Waiter takes its object.
type Request struct {
	Owner   owner.Owner // owner.Nobody for an object without owners
	Joint   bool        // other calls may have the same owner, and hold the object
	Reading bool        // it takes the object for reading
	Needs   int64       // how much it needs; 0 means 1
	Try     bool        // it does not wait
	Final   bool        // an unknown outcome ends it
	Alone   bool        // it asks Redis while it waits, even if it is not first in line
}

// Reply says how a try or a re-entry ended.
type Reply struct {
	Verdict   Verdict
	Err       error            // of all but Got and Gone
	Said      waitqueue.Answer // of Got and Refused: what it means for the next try; its Outcome is not used
	HeldUntil time.Time        // of Refused: when the lease of the holder ends; zero if that is not known
	Stranger  bool             // of Refused: the holder is a stranger
}

// Verdict says how a try or a re-entry ended.
type Verdict uint8

const (
	Got     Verdict = iota // the call has the object
	Refused                // another has the object
	Unknown                // there was no answer
	Denied                 // Redis refused this request, which says nothing about the object
	Gone                   // of a re-entry: the hold has ended
)
