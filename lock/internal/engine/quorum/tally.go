package quorum

import (
	"context"
	"errors"
	"slices"
)

// Vote is the answer of a member to an attempt.
type Vote uint8

const (
	Yes         Vote = iota
	HeldByOther      // another owner has it
	None             // it has no vote, see NoVote
	Refused          // it refuses, and will refuse again
	Unknown          // there was no answer
	votes
)

// Ballot is the answer of one member with its hold.
type Ballot[P MemberHold] struct {
	Member   int
	Vote     Vote
	WasTaken bool   // the member was taken and Hold is set, whether it counts or not
	Hold     P      // zero if the member was not taken
	Server   string // the server's run id; "" if it was not asked for
	Err      error  // nil for Yes
}

// Member is a lock that may vote.
type Member[P MemberHold] interface {
	// Take takes the lock without waiting for other owners.
	Take(ctx context.Context) (P, error)
	// MayVote asks the server. The error is a NoVote, or says that the server did not
	// answer. MayVote also returns the run id of the server with a NoVote.
	MayVote(ctx context.Context) (server string, err error)
	// Failed returns the Vote that an error of Take or MayVote means. It is not called with
	// a NoVote.
	Failed(ctx context.Context, err error) Vote
}

// Ask takes member i and asks whether it may vote. A durable member always may.
func Ask[P MemberHold](ctx context.Context, i int, m Member[P], durable bool) Ballot[P] {
	b := Ballot[P]{Member: i}
	if b.Hold, b.Err = m.Take(ctx); b.Err == nil {
		if b.WasTaken = true; !durable {
			// MayVote comes after Take, so that its answer shows a restart before Take.
			b.Server, b.Err = m.MayVote(ctx)
		}
	}
	switch {
	case b.Err == nil:
		b.Vote = Yes
	case errors.As(b.Err, new(NoVote)):
		b.Vote = None
	default:
		b.Vote = m.Failed(ctx, b.Err)
	}
	return b
}

// Tally counts the ballots of an attempt. Make one with NewTally.
type Tally[P MemberHold] struct {
	Ballots []Ballot[P]  // in the order in which they came
	Missing map[int]bool // members whose ballot has not come
	count   [votes]int
}

// NewTally returns a Tally of members that have not voted.
func NewTally[P MemberHold](members int) *Tally[P] {
	y := &Tally[P]{Missing: make(map[int]bool, members)}
	for i := range members {
		y.Missing[i] = true
	}
	return y
}

// Add counts a ballot. A server has one vote, however many members it has.
func (y *Tally[P]) Add(b Ballot[P]) {
	sameServer := func(other Ballot[P]) bool { return other.Vote == Yes && other.Server == b.Server }
	if b.Vote == Yes && b.Server != "" && slices.ContainsFunc(y.Ballots, sameServer) {
		b.Vote, b.Err = None, SameServer
	}
	y.Ballots = append(y.Ballots, b)
	y.count[b.Vote]++
	delete(y.Missing, b.Member)
}

// Count returns how many members have voted v.
func (y *Tally[P]) Count(v Vote) int { return y.count[v] }

// CountAgainst returns how many members have refused or have no vote.
func (y *Tally[P]) CountAgainst() int { return y.count[HeldByOther] + y.count[None] + y.count[Refused] }
