package quorum

import (
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// NoVote says why a member that was taken has no vote.
type NoVote string

func (e NoVote) Error() string { return string(e) }

const (
	SameServer NoVote = "its server is that of another member, which has voted: give each a master of its own"
	Restarted  NoVote = "its server was up for less than RedLockConfig.LongestLease, so it may have forgotten a hold: wait for that long"
	Promoted   NoVote = "its server was a replica or has loaded another's file, and may have forgotten a hold; " +
		"this client has known it as the master for less than RedLockConfig.LongestLease: wait for that long"
	Replica NoVote = "its server is a replica now: give the member the address of a master that does not fail over"
)

// MayVote is the rule of votes. A server may vote when every vote that it can have forgotten
// has ended. A vote lasts for at most the longest lease. A server forgets votes at its start,
// and when it replaces another master. It does not tell when it became the master. So that
// time counts from when this client first saw it as the master, which is known ago. The error
// is a NoVote.
func MayVote(u wire.UptimeAnswer, known, longest time.Duration) error {
	switch {
	case u.State == wire.Replica:
		return Replica
	case u.Up-time.Second < longest: // an uptime in whole seconds is rounded at both ends
		return Restarted
	case u.State == wire.Heir && known < longest:
		return Promoted
	}
	return nil
}

// Incarnations remembers when a client first saw the present master at an address. The zero
// value works and knows no server. It is safe for concurrent use.
type Incarnations struct {
	mu    sync.Mutex // guards the fields below
	last  string
	since time.Time
}

// KnownFor returns how long the client has known the master that gave this answer. now is a time after
// that. The count starts again whenever another server answers, and with each promotion.
func (r *Incarnations) KnownFor(u wire.UptimeAnswer, now time.Time) time.Duration {
	incarnation := u.Server + " " + u.Replication
	r.mu.Lock()
	defer r.mu.Unlock()
	if incarnation != r.last {
		r.last, r.since = incarnation, now
	}
	return now.Sub(r.since)
}
