package locktable

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
)

// Hold has the methods of a hold that a Table needs. All methods except Confirm are called
// under the mutex of a shard. They do no I/O, and lock no mutex except that of the lease.
type Hold interface {
	comparable
	Name() string
	Owner() owner.Owner
	Mode() Mode
	// Leaving reports whether the last Unlock has begun, and IsLost whether the hold was lost.
	// Such a hold is not re-entered.
	Leaving() bool
	IsLost() bool
	// IsLeaseLost reports whether the lease is lost. The hold may not know that yet.
	IsLeaseLost() bool
	// Deadline returns the time until which the hold is safe.
	Deadline() time.Time
	// Past returns where a queue keeps the state of the hand-overs that led to the hold,
	// while there is no queue. It returns nil for a hold that was not handed over.
	Past() *Past
	// CloseBegan is called for a hold that no caller has yet, because Close tells all holds
	// but does not find this one.
	CloseBegan()
	// Confirm asks Redis whether the hold still exists. It does not wait.
	Confirm()
	// MarkDoubtful is called when Redis may have the hold no more. If the hold is just being handed
	// over in memory, the next one is no better. IsDoubtful reports whether it was called, and Redis was
	// not asked to hand the hold over since.
	MarkDoubtful()
	IsDoubtful() bool
}

// Mode says with which other holds a hold shares its name.
type Mode uint8

const (
	Exclusive Mode = iota // with nobody: a Table has one such hold of a name
	Reading               // with other readers
	Writing               // with reads of its owner
	Permit                // with others, and it has no owner
)

// Past is what a queue leaves about the hand-overs that led to a hold. A Table reads and
// writes it under the mutex of a shard.
type Past struct {
	sofar            waitqueue.RunState
	opened, runEnded waitqueue.Instant // as in queue
}
