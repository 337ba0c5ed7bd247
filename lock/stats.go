package lock

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// Stats is a snapshot of a Client. Its counters count from the client's start.
type Stats struct {
	Held    int           // locks held now
	Waiting int           // calls of Lock and LockFor that wait in a queue
	Renewal renewal.Stats // its Leases are those of Held
	Clocks  []ServerClock // of the servers that told their time
	PubSub  PubSub        // how releases are published

	// Calls are the calls that take a lock or permits, by how they ended.
	Calls map[Outcome]uint64
	// Waited is how long those took that acquired: a round trip at least.
	Waited renewal.Distribution
	// HeldSeconds is how long all holds together have been held, those of now up to now.
	// So its growth in a second is how many were held, and divided by the growth of
	// Released and Lost it is how long one was. It is no Duration, because a million
	// locks would exceed that after two hours.
	HeldSeconds float64
	Released    uint64            // holds that ended by an Unlock that Redis answered
	Lost        map[Reason]uint64 // holds that were lost, whoever found it

	Tries      uint64 // acquire scripts sent
	Unanswered uint64 // scripts of calls to which no answer came in time: each try counts, also if the next one was answered
	Unreleased uint64 // calls of Unlock that returned ErrUnknown
}

// PubSub counts the servers by how releases are published there, see topology.PubSub.
// Where that is chosen by itself, a server is counted once the client has used it.
type PubSub struct {
	Plain   int // with PUBLISH
	Sharded int // with SPUBLISH
}

// ServerClock says what a client knows of a server's clock, by which requests expire.
type ServerClock struct {
	Server string        // its address, as far as it is known
	Ahead  time.Duration // of this process' clock; negative if it is behind
	Within time.Duration // how exactly that is known
}

// Since returns the counters of the time between two snapshots; Held, Waiting, Clocks, PubSub
// and what Renewal says of now are those of s.
func (s Stats) Since(earlier Stats) Stats {
	s.Renewal = s.Renewal.Since(earlier.Renewal)
	s.Calls, s.Lost = less(s.Calls, earlier.Calls), less(s.Lost, earlier.Lost)
	s.Waited = s.Waited.Since(earlier.Waited)
	s.HeldSeconds -= earlier.HeldSeconds
	s.Released -= earlier.Released
	s.Tries -= earlier.Tries
	s.Unanswered -= earlier.Unanswered
	s.Unreleased -= earlier.Unreleased
	return s
}

func less[K comparable](counts, earlier map[K]uint64) map[K]uint64 {
	counts = maps.Clone(counts)
	for k := range counts {
		if counts[k] -= earlier[k]; counts[k] == 0 {
			delete(counts, k)
		}
	}
	return counts
}

// counters are what a Client counts of its calls. All of it is atomic.
type counters struct {
	calls      [outcomes]atomic.Uint64
	waited     renewal.Recorder
	released   atomic.Uint64
	lost       [reasons]atomic.Uint64
	tries      atomic.Uint64
	unreleased atomic.Uint64
}

// Stats returns a snapshot of what the client holds, has counted, and of its watchdog.
func (c *Client) Stats() Stats {
	c.lost.drain() // whoever was told of a loss does not find it among the held
	t := c.tables.counts()
	st := Stats{
		Held: t.held, Waiting: int(c.fair.Load()) + t.waiting, HeldSeconds: t.heldFor, Renewal: c.dog.Stats(),
		Calls: byKind[Outcome](c.counts.calls[:]), Lost: byKind[Reason](c.counts.lost[:]), Waited: c.counts.waited.Distribution(),
		Released: c.counts.released.Load(), Tries: c.counts.tries.Load(),
		Unanswered: c.scripts.unanswered.Load(), Unreleased: c.counts.unreleased.Load(),
	}
	for _, s := range c.router.Servers() {
		if ahead, within, ok := s.Clock(); ok {
			st.Clocks = append(st.Clocks, ServerClock{Server: s.Address(), Ahead: ahead, Within: within})
		}
	}
	p := c.router.Publishing()
	st.PubSub = PubSub{Plain: p.Plain, Sharded: p.Sharded}
	return st
}

// byKind are the counts that are not 0; 0 is no kind.
func byKind[K ~uint8](counts []atomic.Uint64) map[K]uint64 {
	m := make(map[K]uint64)
	for i := range counts {
		if n := counts[i].Load(); n > 0 {
			m[K(i)] = n
		}
	}
	return m
}
