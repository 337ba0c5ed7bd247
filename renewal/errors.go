package renewal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned after Watchdog.Close.
	ErrClosed = errors.New("renewal: watchdog is closed")
	// ErrTrustEnded is returned by Lane.Hold when the lease's trust was over
	// before it could be registered: the yes came too late to be a hold.
	ErrTrustEnded = errors.New("renewal: the lease's trust ended before it was registered")
)

// Reason says why a lease ended without Release.
type Reason uint8

const (
	// NotOwner: the store answered that the lease is not the holder's: it was
	// deleted, taken or forced.
	NotOwner Reason = iota + 1
	// TrustEnded: no renewal was acknowledged in time.
	TrustEnded
	// MaxHold: Config.MaxHold is over.
	MaxHold
	// Expired: a fixed lease came to its end.
	Expired
	// Closed: the watchdog was closed while the lease was held.
	Closed

	reasons = int(Closed) + 1
)

func (r Reason) String() string {
	switch r {
	case NotOwner:
		return "not owner"
	case TrustEnded:
		return "trust ended"
	case MaxHold:
		return "max hold"
	case Expired:
		return "expired"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// MarshalText makes Stats.Lost readable as JSON: the key is String's text.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
