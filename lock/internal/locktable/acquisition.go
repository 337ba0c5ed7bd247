package locktable

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Acquisition is what a Waiter takes, and how. All methods but Follows are called by the
// goroutine that runs the Waiter, under no mutex.
type Acquisition[H Hold] interface {
	// Try sends the script that takes it, once. If that brought a hold, Table.Adopt was
	// called with it.
	Try(ctx context.Context) Reply
	// Reenter takes it by right of h, which its owner has.
	Reenter(ctx context.Context, h H) Reply
	// Follows reports whether h can go on to it: by a script alone at the end of a run. It
	// is called under a mutex of the Table, by whoever unlocks h.
	Follows(h H, over bool) bool
	// Take takes h, which was handed over.
	Take(h H)
	// Channel is where it is told of a release.
	Channel() string
	// Barred is the error of one whose owner has h and cannot get another.
	Barred(h H) error
	// Refusal is the error of one that does not ask: by what the client knows another
	// has the object for so long.
	Refusal(ttl time.Duration) error
}

// Unowned is what is the same of all objects that no owner re-enters, and that are not
// handed over.
type Unowned[H Hold] struct{}

func (Unowned[H]) Reenter(context.Context, H) Reply { return Reply{Verdict: Gone} }
func (Unowned[H]) Follows(H, bool) bool             { return false }
func (Unowned[H]) Take(H)                           {}
func (Unowned[H]) Barred(H) error                   { return nil }

// Request says for whom a Waiter takes its object.
type Request struct {
	Owner   owner.Owner // owner.Nobody of an object that knows none
	Joint   bool        // others may have the owner too, and hold the object
	Reading bool        // it takes the object for reading
	Needs   int64       // how much of what there is; 0 is 1
	Try     bool        // it does not wait
	Final   bool        // an unknown outcome ends it
	Alone   bool        // it asks by itself while it waits, whoever is first in line
}

// Reply says how a try or a re-entry ended.
type Reply struct {
	Verdict   Verdict
	Err       error            // of all but Got and Gone
	Said      waitqueue.Answer // of Got and Refused: what it says of the next try. Its Outcome is not looked at.
	HeldUntil time.Time        // of Refused: when the lease of the holder ends; zero if that is not known
	Stranger  bool             // of Refused: the holder is a stranger
}

// Verdict says how a try or a re-entry ended.
type Verdict uint8

const (
	Got     Verdict = iota // it has what it wants
	Refused                // another has the object
	Unknown                // there was no answer
	Denied                 // Redis said no to this request, which says nothing of the object
	Gone                   // of a re-entry: the hold is no more
)
