package hold

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
	"github.com/wheellock/wheellock/renewal"
)

// Kind is the kind of object that a hold is of.
type Kind uint8

const (
	Mutex   Kind = iota
	Fenced       // a mutex whose tokens come from a counter of its own
	Fair         // a mutex with a queue in Redis
	Read         // a RWMutex held for reading
	Write        // a RWMutex held for writing
	Permits      // permits of a PermitSemaphore, see permitIDs
)

// kinds has one row for each Kind. The scripts of a kind are in switches (releaseCall and others),
// because the arguments of a call through a table would be allocated.
var kinds = [...]struct {
	mode       locktable.Mode           // with which other holds a hold shares its name
	queue      waitqueue.Kind           // where the calls of this client wait
	class      renewer.Class            // which script renews the holds
	family     orphans.Family           // whose scripts may remove the fields
	key        func(name string) string // of the fields of the holds; nil: the name
	channel    func(name string) string // that tells waiters of a release; but each waiter of a FairMutex has its own
	handedOver bool                     // in memory too, to the next caller of this client
}{
	Mutex:   {locktable.Exclusive, waitqueue.Exclusive, renewer.Fields, familyExclusive, nil, keys.Channel, true},
	Fenced:  {locktable.Exclusive, waitqueue.Exclusive, renewer.Fields, familyExclusive, nil, keys.Channel, false},
	Fair:    {locktable.Exclusive, waitqueue.QueueInRedis, renewer.Fields, familyExclusive, nil, keys.Channel, false},
	Read:    {locktable.Reading, waitqueue.ReadWrite, renewer.Readers, familyRW, nil, keys.RWChannel, false},
	Write:   {locktable.Writing, waitqueue.ReadWrite, renewer.Fields, familyRW, nil, keys.RWChannel, false},
	Permits: {locktable.Permit, waitqueue.Permits, renewer.Permits, familyPermits, keys.PermitsTaken, keys.SemaphoreChannel, false},
}

// The families of kinds. The holds of a family are fields of one key in the same form, so the
// scripts of one kind may remove fields of another.
const (
	familyExclusive orphans.Family = iota
	familyRW
	familyPermits
)

// Exclusive kinds have one hold per name, found by the name: a hash {field: count} under it.
func (k Kind) Exclusive() bool { return kinds[k].mode == locktable.Exclusive }

// Mode says with which other holds a hold shares its name.
func (k Kind) Mode() locktable.Mode { return kinds[k].mode }

// Channel returns the channel that tells waiters of a release.
func (k Kind) Channel(name string) string { return kinds[k].channel(name) }

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

// fieldRoom is enough for most fields.
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

// appendTail appends the part of such a field that follows the client's id.
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

// permitIDs names the permits of a hold. Text has 12 bytes that were never used before, and ID is
// the number of permits. Permits are not re-entered, so they have no owner. A hold keeps permitIDs
// in the place of the owner, because a field of their own would cost each hold 24 bytes.
type permitIDs owner.Owner

// newPermits returns new names for n permits.
func newPermits(n int64) permitIDs {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return permitIDs{Text: string(b[:]), ID: uint64(n)}
}

// asOwner is how a hold keeps them.
func (p permitIDs) asOwner() owner.Owner { return owner.Owner(p) }

// n is how many there are.
func (p permitIDs) n() int64 { return int64(p.ID) }

// first are the first n of them.
func (p permitIDs) first(n int64) permitIDs { return permitIDs{Text: p.Text, ID: uint64(n)} }

// appendTo appends the field of their hold.
func (p permitIDs) appendTo(b []byte) []byte {
	return strconv.AppendUint(append(b, p.Text...), p.ID, 10)
}

// hex are the ids as Redisson writes them.
func (p permitIDs) hex() []string {
	ids := make([]string, p.n())
	for i := range ids {
		n := i + 1
		ids[i] = hex.EncodeToString(append([]byte(p.Text), byte(n>>24), byte(n>>16), byte(n>>8), byte(n)))
	}
	return ids
}
