package renewal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned when the Watchdog or the Lane is closed.
	ErrClosed = errors.New("renewal: watchdog is closed")
	// ErrTrustEnded is returned by Lane.Hold when the trust of the lease has
	// already ended, because the store's answer came too late. The lease is not
	// held.
	ErrTrustEnded = errors.New("renewal: the lease's trust ended before it was registered")
)

// Reason says why a lease ended without Release. Package lock has the same
// reasons, so the texts fit its locks, too.
type Reason uint8

const (
	// NotOwner: the store answered that the owner does not have the lease. The
	// lease was deleted, or somebody else has it.
	NotOwner Reason = iota + 1
	// TrustEnded: the store confirmed no renewal in time. See also Suspended.
	TrustEnded
	// MaxHold: the time of Config.MaxHold has passed.
	MaxHold
	// Expired: a fixed lease has reached its end.
	Expired
	// Closed: the watchdog or the lane, or the client of package lock, was closed
	// while the lease was held.
	Closed
	// Suspended: trust ended while this process stood still, because it was stopped or
	// its machine was suspended. So it could not renew the lease. On systems other than
	// Linux, a clock that was set forward looks the same.
	Suspended

	numReasons = int(Suspended) + 1
)

func (r Reason) String() string {
	switch r {
	case NotOwner:
		return "not the owner any more"
	case TrustEnded:
		return "no renewal was acknowledged in time"
	case MaxHold:
		return "the longest hold is over"
	case Expired:
		return "the lease is over"
	case Closed:
		return "the client is closed"
	case Suspended:
		return whySuspended
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// MarshalText makes Stats.Lost readable as JSON, with the text of String as the
// key.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
