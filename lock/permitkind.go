package lock

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wire"
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

func (h *hold) permits() permitIDs    { return permitIDs(h.owner) }
func (a *attempt) permits() permitIDs { return permitIDs(a.owner) }

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

// permits are the rules of the permits of a PermitSemaphore.
type permits struct{}

func (permits) release(s *scripts, name, field string) wire.Call {
	return wire.PermitRelease(name, field, s.publisher(name))
}

func (permits) reenter(h *hold, _ int32, lease time.Duration) wire.Call {
	return wire.PermitExtend(h.name, h.field(), lease, time.Now())
}

func (permits) class() carrier.Class         { return carrier.Permits }
func (permits) key(name string) string       { return keys.PermitsTaken(name) }
func (permits) orphanOutlived(*hold, Reason) {}

// readPermits reads the answer of permit_take; next is how long until a permit
// expires, 0 if none does.
func readPermits(s *scripts, name string, a pipe.Answer) (taken, free int64, next time.Duration, err error) {
	if a.Err != nil {
		return 0, 0, 0, s.callError("acquire", name, a)
	}
	taken, free, next, ok := wire.ReadPermits(a.Reply)
	if !ok {
		return 0, 0, 0, badReply("acquire", name, a.Reply)
	}
	return taken, free, next, nil
}
