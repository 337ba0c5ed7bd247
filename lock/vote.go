package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// voter is a member of a RedLock in one attempt.
type voter struct {
	*Mutex
	hold.Terms
	longest time.Duration // the longest lease that any process gives
}

var _ quorum.Member[*hold.Held] = voter{}

// Take implements quorum.Member.
func (m voter) Take(ctx context.Context) (*hold.Held, error) {
	t := m.Terms
	t.Wait = false
	held, err := m.acquire(ctx, t)
	return (*hold.Held)(held), err
}

// MayVote implements quorum.Member.
func (m voter) MayVote(ctx context.Context) (server string, err error) {
	reply, err := m.c.ask(ctx, "uptime", m.name, wire.Uptime(m.name))
	if err != nil {
		return "", err
	}
	u, ok := wire.ReadUptime(reply)
	if !ok {
		return "", badReply("uptime", m.name, reply)
	}
	return u.Server, quorum.MayVote(u, m.c.incarnations.KnownFor(u, time.Now()), m.longest)
}

// Failed implements quorum.Member.
func (m voter) Failed(ctx context.Context, err error) quorum.Vote {
	switch {
	case errors.Is(err, ErrNotAcquired):
		return quorum.HeldByOther
	case gotNoAnswer(err), wait.Ended(ctx) != nil:
		return quorum.Unknown
	}
	return quorum.Refused
}
