package hold

import (
	"strconv"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/renewal"
)

// kind says of which kind of object a hold is.
type Kind uint8

const (
	Mutex   Kind = iota
	Fenced       // a mutex whose tokens come from a counter of its own
	Fair         // a mutex with a queue in Redis
	Read         // a RWMutex held for reading
	Write        // a RWMutex held for writing
	Permits      // permits of a PermitSemaphore, see permitIDs
)

// Exclusive kinds have one hold a name, found by the name: a hash {field: count} under it.
func (k Kind) Exclusive() bool { return k.Mode() == locktable.Exclusive }

// Mode says with which other holds a hold shares its name.
func (k Kind) Mode() locktable.Mode {
	switch k {
	case Read:
		return locktable.Reading
	case Write:
		return locktable.Writing
	case Permits:
		return locktable.Permit
	}
	return locktable.Exclusive
}

// class says which script renews the holds.
func (k Kind) class() carrier.Class {
	switch k {
	case Read:
		return carrier.Readers
	case Permits:
		return carrier.Permits
	}
	return carrier.Fields
}

// key returns the key that has the fields of the holds of that name.
func (k Kind) key(name string) string {
	if k == Permits {
		return keys.PermitsTaken(name)
	}
	return name
}

// Channel returns the channel that tells waiters of a release. Each waiter of a FairMutex has a
// channel of its own.
func (k Kind) Channel(name string) string {
	if k == Read || k == Write {
		return keys.RWChannel(name)
	}
	return keys.Channel(name)
}

// outlived reports whether the field of a hold that was lost for that reason may stay in Redis
// for longer than its own lease, because other holds keep the key. Other readers, or a write
// hold of the same owner, keep the field of a reader. A read hold of the same owner keeps the
// field of a writer, and that field would keep all others out. If no hold could be renewed,
// the other holds end too.
func (k Kind) outlived(why renewal.Reason, alsoReads func() bool) bool {
	switch k {
	case Read:
		return why == renewal.Expired || why == renewal.MaxHold
	case Write:
		return why == renewal.Expired || why == renewal.MaxHold || (why == renewal.TrustEnded || why == renewal.Suspended) && alsoReads()
	}
	return false
}

// family are the kinds whose holds are fields of one key in the same form, so that the
// scripts of one may remove fields of the other.
func (k Kind) family() orphans.Family {
	switch k {
	case Read, Write:
		return familyRW
	case Permits:
		return familyPermits
	}
	return familyExclusive
}

const (
	familyExclusive orphans.Family = iota
	familyRW
	familyPermits
)

// fieldRoom is how long most fields are at most.
const fieldRoom = 80

// fieldOf is the field of a hold of that kind, owner and seq of the client with that id.
func fieldOf(id string, k Kind, o owner.Owner, seq uint64) string {
	var room [fieldRoom]byte
	return string(appendField(room[:0], id, k, o, seq))
}

// appendField appends fieldOf.
func appendField(b []byte, id string, k Kind, o owner.Owner, seq uint64) []byte {
	if k != Permits {
		b = append(append(b, id...), ':')
	}
	return appendTail(b, k, o, seq)
}

// appendTail appends what comes after the client's id in such a field.
func appendTail(b []byte, k Kind, o owner.Owner, seq uint64) []byte {
	if k == Permits { // the ids, and how many
		return permitIDs(o).appendTo(b)
	}
	b = append(o.AppendTo(b), ':')
	b = strconv.AppendUint(b, seq, 10)
	if k == Write {
		b = append(b, ":write"...) // as Redisson tells a writer from a reader
	}
	return b
}
