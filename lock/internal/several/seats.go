package several

import (
	"context"
	"slices"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// Part is what a member gave.
type Part interface {
	// Valid reports whether it is held now: not unlocked, not lost, and trusted by the clock.
	Valid() bool
	// Ended reports whether its lease is lost.
	Ended() bool
	// Deadline is when the trust in it ends, as it stands now.
	Deadline() time.Time
}

// Seat is one member's place in a hold.
type Seat[P Part] struct {
	Part   P
	Drift  time.Duration // its trust counts for so much less
	Member int           // its place among the members
	Server string        // its server's run id when it voted; "" if it was not asked for that
}

// until is when the seat counts no more, as it stands now; false if it is lost.
func (s Seat[P]) until() (time.Time, bool) {
	if s.Part.Ended() {
		return time.Time{}, false
	}
	return s.Part.Deadline().Add(-s.Drift), true
}

// CountValid is how many of seats are held now.
func CountValid[P Part](seats []Seat[P], now time.Time) (n int) {
	for _, s := range seats {
		if s.Part.Valid() && (s.Drift == 0 || now.Before(s.Part.Deadline().Add(-s.Drift))) {
			n++
		}
	}
	return n
}

// Deadline is when fewer than need of seats are trusted, as it stands now; false if fewer are
// left.
func Deadline[P Part](seats []Seat[P], need int) (time.Time, bool) {
	ends := make([]time.Time, 0, len(seats))
	for _, s := range seats {
		if end, ok := s.until(); ok {
			ends = append(ends, end)
		}
	}
	if len(ends) < need {
		return time.Time{}, false
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[need-1], true
}

// Admits reports whether a hold that is not known to have ended may have back a member, whose
// server has voted just now: need of its seats are valid, ended are known to be lost, and no
// other of them is of that server.
func Admits[P Part](seats []Seat[P], need, ended int, server string, now time.Time) bool {
	if len(seats)-ended < need || CountValid(seats, now) < need {
		return false
	}
	return server == "" || !slices.ContainsFunc(seats, func(s Seat[P]) bool { return s.Server == server && s.Part.Valid() })
}

// Retake brings a member back into a hold that has lost it. A server that was restarted is
// empty, so without this the third of three that are restarted one after the other would end
// the hold.
type Retake struct {
	Why     renewal.Reason // it was lost
	Server  string         // whose vote that was
	Durable bool
}

// Retakes reports whether a member that was lost for that reason may come back, and for what
// reason it is retaken then. expired: the trust in it was over by the clock.
func Retakes(why renewal.Reason, expired bool, server string, durable bool) (Retake, bool) {
	if why == renewal.NotOwner && expired {
		why = renewal.TrustEnded // that its key is gone says nothing: it has expired
	}
	if why != renewal.TrustEnded && (why != renewal.NotOwner || durable) {
		return Retake{}, false
	}
	return Retake{Why: why, Server: server, Durable: durable}, true
}

// AskAgain asks member i once, while the hold is valid without it. admit makes a vote part of the
// hold, or returns false. What is left is to be given back. AskAgain returns again if the member is
// to be asked once more, later.
func AskAgain[P Part](ctx context.Context, w Retake, i int, m Member[P], admit func(Ballot[P]) bool) (left Ballot[P], again bool) {
	if !w.Durable {
		// First, so that a member that may not vote is not taken from others in vain.
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
