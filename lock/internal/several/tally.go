package several

import (
	"context"
	"errors"
	"slices"
)

// Vote is what a member says to an attempt.
type Vote uint8

const (
	Yes     Vote = iota
	Held         // another owner has it
	None         // it has no vote, see NoVote
	Refused      // it will not, however often it is asked
	Unknown      // there was no answer
	votes
)

// Ballot is one member's.
type Ballot[P Part] struct {
	Member int
	Vote   Vote
	Took   bool   // it gave Part, whether that counts or not
	Part   P      // the zero P if it gave none
	Server string // its run id; "" if it was not asked for that
	Err    error  // of all but Yes
}

// Member is a lock that may vote.
type Member[P Part] interface {
	// Take takes it without waiting for others.
	Take(ctx context.Context) (P, error)
	// MayVote asks its server. The error is a NoVote, or says that the server did not
	// answer. The run id of the server is returned with a NoVote, too.
	MayVote(ctx context.Context) (server string, err error)
	// Failed is what an error of one of these two means, but for a NoVote.
	Failed(ctx context.Context, err error) Vote
}

// Ask takes member i and has it vote. A durable one always may.
func Ask[P Part](ctx context.Context, i int, m Member[P], durable bool) Ballot[P] {
	b := Ballot[P]{Member: i}
	if b.Part, b.Err = m.Take(ctx); b.Err == nil {
		if b.Took = true; !durable {
			// Asked after its yes: if it was restarted before that, it says so.
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
type Tally[P Part] struct {
	Ballots []Ballot[P]  // as they came
	Missing map[int]bool // members whose ballot is not there
	count   [votes]int
}

// NewTally returns a Tally of members that have not voted.
func NewTally[P Part](members int) *Tally[P] {
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

// Count is how many have voted so.
func (y *Tally[P]) Count(v Vote) int { return y.count[v] }

// Against is how many have refused, which no answer of the others can change.
func (y *Tally[P]) Against() int { return y.count[Held] + y.count[None] + y.count[Refused] }
