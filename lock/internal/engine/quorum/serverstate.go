package quorum

import (
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// ServerState is what the server of a member says about itself.
type ServerState struct {
	Server        string        // the run id
	Incarnation   string        // the run id and the replication id, so it changes with each promotion
	Uptime        time.Duration // how long it has been up, at least
	IsReplica     bool          // it is a replica now
	MayBePromoted bool          // it is a master, and may have been a replica before
}

// ServerStateOf returns the ServerState in an answer of script uptime.
func ServerStateOf(u wire.UptimeAnswer) ServerState {
	return ServerState{
		Server: u.Server, Incarnation: u.Server + " " + u.Replication, MayBePromoted: u.State == wire.Heir, IsReplica: u.State == wire.Replica,
		Uptime: u.Up - time.Second, // an uptime in whole seconds is rounded at both ends
	}
}

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
func (s ServerState) MayVote(known, longest time.Duration) error {
	switch {
	case s.IsReplica:
		return Replica
	case s.Uptime < longest:
		return Restarted
	case s.MayBePromoted && known < longest:
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

// KnownFor returns how long the client has known this incarnation of the server. now is a time
// after its answer. The count starts again whenever another server answers.
func (r *Incarnations) KnownFor(incarnation string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if incarnation != r.last {
		r.last, r.since = incarnation, now
	}
	return now.Sub(r.since)
}
