package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// MemberHold is the hold of one member.
type MemberHold interface {
	// Valid reports whether the member is held now: not unlocked, not lost, and safe by the
	// clock.
	Valid() bool
	// Ended reports whether the hold is lost.
	Ended() bool
	// Deadline returns the time until which the hold is safe, as it stands now.
	Deadline() time.Time
}

// Grant is what one member adds to a hold: its own hold, which counts until shortly before that ends.
type Grant[P MemberHold] struct {
	Hold   P
	Drift  time.Duration // how much earlier the grant ends than Hold
	Member int           // the index of the member
	Server string        // the server's run id when it voted; "" if it was not asked for
}

// end returns when the grant stops counting, as it stands now.
func (g Grant[P]) end() time.Time { return g.Hold.Deadline().Add(-g.Drift) }

// CountValid returns how many of grants are held now.
func CountValid[P MemberHold](grants []Grant[P], now time.Time) (n int) {
	for _, g := range grants {
		if g.Hold.Valid() && (g.Drift == 0 || now.Before(g.end())) {
			n++
		}
	}
	return n
}

// Deadline returns when fewer than need of grants will be safe, as it stands now. It returns false
// if fewer are left already.
func Deadline[P MemberHold](grants []Grant[P], need int) (time.Time, bool) {
	ends := make([]time.Time, 0, len(grants))
	for _, g := range grants {
		if !g.Hold.Ended() {
			ends = append(ends, g.end())
		}
	}
	if len(ends) < need {
		return time.Time{}, false
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[need-1], true
}

// MayAdmit reports whether a member whose server has just voted may come back into a hold that is
// not known to have ended. That is so if need grants are valid, ended counts the grants that are
// known to be lost, and no other grant has the same server.
func MayAdmit[P MemberHold](grants []Grant[P], need, ended int, server string, now time.Time) bool {
	if len(grants)-ended < need || CountValid(grants, now) < need {
		return false
	}
	return server == "" || !slices.ContainsFunc(grants, func(g Grant[P]) bool { return g.Server == server && g.Hold.Valid() })
}

// Retake brings a member back into a hold that has lost it. A server that was restarted is empty.
// So without a Retake, a hold of three members would end when a second server is restarted.
type Retake struct {
	Why     renewal.Reason // why the member was lost
	Server  string         // the run id of the server that voted
	Durable bool
}

// MayRetake reports whether a member that was lost for the reason why may come back. The Retake has
// the reason that counts. expired says that the member's whole lease was over by the clock, which
// is later than the time until which its hold was safe.
func MayRetake(why renewal.Reason, expired bool, server string, durable bool) (Retake, bool) {
	if why == renewal.NotOwner && expired || why == renewal.Suspended {
		why = renewal.TrustEnded // the key has expired, so its absence proves no deletion
	}
	if why != renewal.TrustEnded && (why != renewal.NotOwner || durable) {
		return Retake{}, false
	}
	return Retake{Why: why, Server: server, Durable: durable}, true
}

// AskAgain asks member i once, while the hold is valid without it. admit adds a vote to the hold,
// or returns false. The caller must release left. again says that the member should be asked once
// more, later.
func AskAgain[P MemberHold](ctx context.Context, w Retake, i int, m Member[P], admit func(Ballot[P]) bool) (left Ballot[P], again bool) {
	if !w.Durable {
		// MayVote comes first, so that a member that may not vote is not taken in vain.
		server, err := m.MayVote(ctx)
		if w.Why == renewal.NotOwner && server == w.Server {
			return left, false // it was deleted
		}
		if err != nil {
			return left, true
		}
	}
	b := Ask(ctx, i, m, w.Durable)
	if b.Vote == Yes && admit(b) {
		return left, false
	}
	return b, true
}
