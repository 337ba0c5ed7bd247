package renewer

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// Owner is the hold of a lease, as its renewal needs it. Its methods are called many
// times a second, and must not wait.
type Owner interface {
	renewal.Owner

	// Class returns which script renews the hold.
	Class() Class
	// Name returns the name of the lock, which decides its slot.
	Name() string
	// Key returns the key for the script.
	Key() string
	// AppendFieldTail appends the part of the hold's field that follows Config.Prefix.
	AppendFieldTail([]byte) []byte
	// Weight returns the work of a renewal for the server, in keys. It is at least 1.
	Weight() int
	// Touch reads the memory that the other methods will read, and returns a byte of it.
	Touch() byte
	// NeedsAsking reports whether renewals need ASKING, because the key was found on the server to
	// which its slot is moving.
	NeedsAsking() bool
	// MoveTo moves the lease to another lane, and records whether renewals there need
	// ASKING.
	MoveTo(lane *renewal.Lane, asking bool)
	// MoveIfAbsent is called when a server does not have the key behind ASKING. The move of the slot may
	// have been taken back, and the key with it. The first time, MoveIfAbsent moves the lease to the lane of
	// the server that has the slot, without ASKING. It returns false if it has done so since the
	// last Found, or if no lane is known. After that, the next call is the first one again.
	MoveIfAbsent() bool
	// Found is called where keys have slots, when a server has renewed the hold.
	Found()
}

// Class says which script renews a hold. Holds of one Class can share a call. All these
// scripts have the arguments of script.Renew.
type Class uint8

const (
	Fields  Class = iota // fields of hashes
	Readers              // fields of the hash of a RWMutex, with a second key
	Permits              // of a PermitSemaphore
)

func (c Class) script() *script.Script {
	switch c {
	case Readers:
		return script.RwRenew
	case Permits:
		return script.PermitRenew
	}
	return script.Renew
}

// appendLease appends the arguments for a lease that begins now. These are its length in
// milliseconds and the prefix of the fields. For permits they are the end of the lease and
// the present time, on this machine's clock.
func (c Class) appendLease(args resp.Args, ttl time.Duration, prefix string) resp.Args {
	ms := int64(ttl / time.Millisecond)
	if c == Permits {
		now := time.Now().UnixMilli()
		return args.AddInt(now + ms).AddInt(now)
	}
	return args.AddInt(ms).AddString(prefix)
}
