package carrier

import (
	"time"

	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// Owner is what a lease belongs to, as far as its renewal goes. Its methods are
// called many times a second, and must not wait.
type Owner interface {
	renewal.Owner

	// Class says which script renews it.
	Class() Class
	// Name is the lock's, which decides its slot.
	Name() string
	// Key is what the script gets.
	Key() string
	// AppendField appends what comes after Config.Prefix in the field of the hold.
	AppendField([]byte) []byte
	// Weight is how many keys' worth of a server's work its renewal is, at least 1.
	Weight() int
	// Touch reads what the other methods will read, and returns any of it.
	Touch() byte
	// Asked reports whether its key was found on the server that its slot is just
	// being moved to.
	Asked() bool
	// MoveTo takes its lease to another lane, and notes whether it is to be asked
	// for there with ASKING.
	MoveTo(lane *renewal.Lane, asking bool)
}

// Class groups the holds that one script renews, in one call. The scripts'
// arguments are those of script.Renew.
type Class uint8

const (
	Fields  Class = iota // fields of hashes
	Readers              // fields of a RWMutex's hash, with a key beside it
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

// lease is what the script gets for a lease that begins now: its length in milliseconds,
// and what the fields begin with; for permits their end, and now, by our clock.
func (c Class) lease(ttl time.Duration, prefix any) (lease int64, second any) {
	ms := int64(ttl / time.Millisecond)
	if c == Permits {
		now := time.Now().UnixMilli()
		return now + ms, now
	}
	return ms, prefix
}
