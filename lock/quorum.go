package lock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
)

// QuorumError says why there was no quorum for a RedLock. By errors.Is, it is
// ErrNotAcquired if so many members refused that there is no quorum whatever the
// others answer. It is ErrUnknown if too few members answered to know that. If a
// majority refused for one reason (ErrClosed, ErrNotReplicated), it is that error.
type QuorumError struct {
	Name    string // of the first member
	Members int
	Quorum  int // how many members must say yes

	Acquired int // members that said yes, and were released again
	Held     int // members that another owner has
	NoVote   int // members that may have forgotten a hold, or share the server of another member
	Refused  int // members that answered with an error that stays until something is changed
	Unknown  int // members that did not answer in time

	TTL  time.Duration // the time after which enough members may be free; -1 if that is not known
	Errs []error       // of the members that were not acquired

	held    []bool // by member: another owner has it
	foreign bool   // a member is held through another library
}

func (e *QuorumError) Error() string { return textOf(e) }

func (e *QuorumError) what() string {
	text := fmt.Sprintf("%q has no quorum: %d of %d members acquired, %d needed; %d held by another owner, "+
		"%d without a vote, %d refused, %d unknown",
		e.Name, e.Acquired, e.Members, e.Quorum, e.Held, e.NoVote, e.Refused, e.Unknown)
	if len(e.Errs) == 0 {
		return text
	}
	return text + " (" + saidOf(e.Errs) + ")"
}

func (e *QuorumError) hint() string {
	switch {
	case e.final():
		return "fix the cause on the members that refuse, because retrying will not help"
	case e.Is(ErrNotAcquired):
		return tryLater
	}
	return "check that a quorum of the servers answers, and try again"
}

func (e *QuorumError) adviceAfterWait() string {
	if hint := e.hint(); hint != tryLater {
		return hint
	}
	return moreTime
}

// Is makes errors.Is work with the sentinels that QuorumError names.
func (e *QuorumError) Is(target error) bool {
	spare := e.Members - e.Quorum
	switch target {
	case ErrNotAcquired:
		return e.Held+e.NoVote+e.Refused > spare && !e.final()
	case ErrUnknown:
		return e.Held+e.NoVote+e.Refused <= spare
	}
	n := 0
	for _, err := range e.Errs {
		if errors.Is(err, target) {
			n++
		}
	}
	return n > spare && (e.final() || target == ErrClosed)
}

// final reports whether another attempt cannot succeed, because too many members refused.
func (e *QuorumError) final() bool { return e.Refused > e.Members-e.Quorum }

// noQuorum returns the error of an attempt without a quorum.
func (r *RedLock) noQuorum(y *quorum.Tally[*hold.Held]) *QuorumError {
	e := &QuorumError{
		Name: r.members[0].name, Members: len(r.members), Quorum: r.need,
		Acquired: y.Count(quorum.Yes), Held: y.Count(quorum.HeldByOther), NoVote: y.Count(quorum.None),
		Refused: y.Count(quorum.Refused), Unknown: y.Count(quorum.Unknown), TTL: -1, held: make([]bool, len(r.members)),
	}
	var ttls []time.Duration
	for _, b := range y.Ballots {
		e.held[b.Member] = b.Vote == quorum.HeldByOther
		var other *HeldError
		if errors.As(b.Err, &other) {
			e.foreign = e.foreign || other.Foreign
			if other.TTL >= 0 {
				ttls = append(ttls, other.TTL)
			}
		}
		if b.Vote == quorum.None {
			b.Err = fmt.Errorf("lock: %q: %w", r.members[b.Member].name, b.Err)
		}
		if b.Err != nil {
			e.Errs = append(e.Errs, b.Err)
		}
	}
	if wanted := r.need - e.Acquired; wanted <= len(ttls) {
		slices.Sort(ttls)
		e.TTL = ttls[wanted-1]
	}
	return e
}
