package quorum

import (
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// Standing is what the server of a member says about itself.
type Standing struct {
	Server  string        // the run id
	Reign   string        // the run id and the replication id, so it changes with each promotion
	Up      time.Duration // how long it has been up, at least
	Replica bool          // it is a replica now
	Heir    bool          // it is a master, and may have been a replica before
}

// StandingOf returns the Standing in an answer of script uptime.
func StandingOf(u wire.UptimeAnswer) Standing {
	return Standing{
		Server: u.Server, Reign: u.Server + " " + u.Replication, Heir: u.State == wire.Heir, Replica: u.State == wire.Replica,
		Up: u.Up - time.Second, // an uptime in whole seconds is rounded at both ends
	}
}

// NoVote says why a member that was taken has no vote.
type NoVote string

func (e NoVote) Error() string { return string(e) }

const (
	SameServer NoVote = "its server is that of another member, which has voted: give each a master of its own"
	Young      NoVote = "its server was up for less than RedLockConfig.LongestLease, so it may have forgotten a hold: wait for that long"
	Heir       NoVote = "its server was a replica or has loaded another's file, and may have forgotten a hold; " +
		"this client has known it as the master for less than RedLockConfig.LongestLease: wait for that long"
	Replica NoVote = "its server is a replica now: give the member the address of a master that does not fail over"
)

// MayVote is the rule of votes. A server may vote when every vote that it can have forgotten
// has ended. A vote lasts for at most the longest lease. A server forgets votes at its start,
// and when it replaces another master. It does not tell when it became the master. So that
// time counts from when this client first saw it as the master, which is known ago. The error
// is a NoVote.
func (s Standing) MayVote(known, longest time.Duration) error {
	switch {
	case s.Replica:
		return Replica
	case s.Up < longest:
		return Young
	case s.Heir && known < longest:
		return Heir
	}
	return nil
}

// Reigns remembers when a client first saw the server at an address as the master. The zero
// Reigns works and knows no server. It is safe for concurrent use.
type Reigns struct {
	mu    sync.Mutex // guards the fields below
	last  string
	since time.Time
}

// Known returns how long the client has known the server with this reign. now is a time after
// its answer. The count starts again whenever another server answers.
func (r *Reigns) Known(reign string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reign != r.last {
		r.last, r.since = reign, now
	}
	return now.Sub(r.since)
}
