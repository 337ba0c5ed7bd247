package hold

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/wheellock/wheellock/lock/internal/owner"
)

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
