package lock

import (
	"context"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/wire"
)

// standing is what the server of a RedLock's member says of itself.
type standing struct {
	server  string        // its run id
	reign   string        // its run id and replication id: another one after each promotion
	up      time.Duration // since it was started, at least
	replica bool          // it is one now
	heir    bool          // it is a master, and was a replica as far as it can tell
}

// noVote says why a member that has given its yes has no vote.
type noVote string

func (e noVote) Error() string { return string(e) }

const (
	errSameServer noVote = "its server is that of another member, which has voted: give each a master of its own"
	errYoung      noVote = "its server was up for less than RedLockConfig.LongestLease, it may have forgotten a hold: wait for that long"
	errHeir       noVote = "its server was a replica or has loaded another's file, and may have forgotten a hold; " +
		"this client has known it as the master for less than RedLockConfig.LongestLease: wait for that long"
	errReplica noVote = "its server is a replica now: give the member the address of a master that does not fail over"
)

// mayVote is the rule of votes: a server has one when every vote that it can have
// forgotten has ended. A vote lasts for at most the longest lease. A server forgets at its
// start, and when it becomes the master in the place of another one, which it does not
// date. So that counts from when this client first saw it in that place, which is known
// ago.
func (s standing) mayVote(known, longest time.Duration) error {
	switch {
	case s.replica:
		return errReplica
	case s.up < longest:
		return errYoung
	case s.heir && known < longest:
		return errHeir
	}
	return nil
}

// reigns remembers since when a client knows the server at its address as the master.
type reigns struct {
	mu    sync.Mutex // guards what follows
	last  string
	since time.Time
}

// known returns for how long the server has been known, which said so before now. It
// counts anew when two servers answer in turns.
func (r *reigns) known(reign string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reign != r.last {
		r.last, r.since = reign, now
	}
	return now.Sub(r.since)
}

// mayVote asks the member's server whether it may vote, and returns its run id and a
// noVote if it may not.
func (m *Mutex) mayVote(ctx context.Context, longest time.Duration) (string, error) {
	reply, err := m.c.ask(ctx, "uptime", m.name, wire.Uptime(m.name))
	if err != nil {
		return "", err
	}
	s, ok := standingOf(reply)
	if !ok {
		return "", badReply("uptime", m.name, reply)
	}
	return s.server, s.mayVote(m.c.reigns.known(s.reign, time.Now()), longest)
}

// standingOf reads the answer of script uptime.
func standingOf(reply any) (standing, bool) {
	u, ok := wire.ReadUptime(reply)
	return standing{
		server: u.Server, reign: u.Server + " " + u.Replication, heir: u.State == wire.Heir, replica: u.State == wire.Replica,
		up: u.Up - time.Second, // both ends of an uptime in whole seconds were rounded
	}, ok
}
