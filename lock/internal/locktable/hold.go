package locktable

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Hold is what a Table asks of a hold. All methods but Confirm are called under the
// mutex of a shard: they do no I/O and take no mutex but that of the lease.
type Hold interface {
	comparable
	Name() string
	Owner() owner.Owner
	Mode() Mode
	// Leaving reports whether its last Unlock has begun, and Over whether it was lost.
	// Nobody re-enters it then.
	Leaving() bool
	Over() bool
	// Ended reports whether its lease is lost. The hold may not have been told yet.
	Ended() bool
	// Deadline is when the trust in it ends.
	Deadline() time.Time
	// Past keeps what a queue has to say of the hand-overs that led to the hold, while
	// there is no queue. It is nil of a hold that was not handed over.
	Past() *Past
	// CloseBegan is called before anybody knows the hold: Close, which tells all holds,
	// does not find this one.
	CloseBegan()
	// Confirm has Redis asked whether the hold is still there. It does not wait.
	Confirm()
}

// Mode says with whom a hold shares its name.
type Mode uint8

const (
	Exclusive Mode = iota // with nobody: a Table has one such hold of a name
	Reading               // with other readers
	Writing               // with reads of its owner
	Permit                // with others, and it has no owner
)

// Past is what a queue leaves behind of the hand-overs that led to a hold. A Table reads
// and writes it under the mutex of a shard.
type Past struct {
	sofar            waitqueue.Sofar
	opened, runEnded waitqueue.Instant // as in queue
}
