package several

import (
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/wire"
)

// Standing is what the server of a member says of itself.
type Standing struct {
	Server  string        // its run id
	Reign   string        // its run id and replication id: another one after each promotion
	Up      time.Duration // since it was started, at least
	Replica bool          // it is one now
	Heir    bool          // it is a master, and was a replica as far as it can tell
}

// StandingOf is what an answer of script uptime says.
func StandingOf(u wire.UptimeAnswer) Standing {
	return Standing{
		Server: u.Server, Reign: u.Server + " " + u.Replication, Heir: u.State == wire.Heir, Replica: u.State == wire.Replica,
		Up: u.Up - time.Second, // both ends of an uptime in whole seconds were rounded
	}
}

// NoVote says why a member that has given its yes has no vote.
type NoVote string

func (e NoVote) Error() string { return string(e) }

const (
	SameServer NoVote = "its server is that of another member, which has voted: give each a master of its own"
	Young      NoVote = "its server was up for less than RedLockConfig.LongestLease, it may have forgotten a hold: wait for that long"
	Heir       NoVote = "its server was a replica or has loaded another's file, and may have forgotten a hold; " +
		"this client has known it as the master for less than RedLockConfig.LongestLease: wait for that long"
	Replica NoVote = "its server is a replica now: give the member the address of a master that does not fail over"
)

// MayVote is the rule of votes: a server has one when every vote that it can have
// forgotten has ended. A vote lasts for at most the longest lease. A server forgets at its
// start, and when it becomes the master in the place of another one, which it does not
// date. So that counts from when this client first saw it in that place, which is known
// ago. The error is a NoVote.
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

// Reigns remembers since when a client knows the server at its address as the master. The
// zero Reigns knows nothing. It is safe for concurrent use.
type Reigns struct {
	mu    sync.Mutex // guards what follows
	last  string
	since time.Time
}

// Known returns for how long the server has been known, which said so before now. It
// counts anew when two servers answer in turns.
func (r *Reigns) Known(reign string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reign != r.last {
		r.last, r.since = reign, now
	}
	return now.Sub(r.since)
}
