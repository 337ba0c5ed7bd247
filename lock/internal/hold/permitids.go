package hold

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/wheellock/wheellock/lock/internal/owner"
)

// permitIDs name the permits of a hold: Text is 12 bytes that nobody has used before, and ID
// how many there are. Nobody re-enters permits, so they have no owner, and a hold keeps them
// where that of a lock has its owner: a field of their own would cost each hold 24 bytes.
type permitIDs owner.Owner

// newPermits names n permits that nobody has named before.
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
