package lock

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// Stats is a snapshot of a Client. The counters begin at 0 with the client.
//
// Waiting has calls of Lock and LockFor, of Acquire and AcquireFor, and of
// CountDownLatch.Wait. A call for a RedLock is not counted. A call for a MultiLock
// counts at the client of the member for which it waits.
type Stats struct {
	Held    int           // locks held now
	Waiting int           // calls that wait in a queue
	Renewal renewal.Stats // of the watchdog; its Leases are the locks of Held
	Clocks  []ServerClock // one for each server that has told its time
	PubSub  PubSub        // how releases are published

	// Calls counts the calls that take a lock or permits, by their outcome.
	Calls map[Outcome]uint64
	// Waited is how long the calls with OutcomeAcquired took. Each took at least
	// one round trip.
	Waited renewal.Distribution
	// HeldSeconds is the sum of the times for which all holds have been held. A
	// hold that has not ended counts up to now. The growth of HeldSeconds per
	// second is the mean number of locks held. Its growth divided by the growth of
	// Released and Lost is the mean time of a hold. It is not a time.Duration,
	// because a million locks would exceed the range of one within three hours.
	HeldSeconds float64
	// Released counts holds that ended by an Unlock that returned nil. Redis has
	// answered, or the client has handed the lock to a waiter of its own.
	Released uint64
	Lost     map[Reason]uint64 // holds that were lost, by reason

	Tries uint64 // acquire scripts that were sent
	// Unanswered counts scripts of calls that got no answer in time, or could not be sent because
	// there was no connection. Each try counts, even if the next one was answered. A call that
	// leaves earlier, because its ctx ends, does not count. For renewals see Renewal.Failed.
	Unanswered uint64
	// Refused counts requests that Redis answered with an error, such as NOPERM, OOM or
	// READONLY. A batch of renewals counts once.
	Refused    uint64
	Unreleased uint64 // calls of Unlock that returned ErrUnknown
	Unlogged   uint64 // log records that were dropped because Config.Logger did not take earlier ones
}

// PubSub counts the servers by the command that publishes releases there; see
// topology.PubSub. With PubSubAuto, a server counts from when the client first
// uses it.
type PubSub struct {
	Plain   int // with PUBLISH
	Sharded int // with SPUBLISH
}

// ServerClock is what a client knows about the clock of a server. By this clock
// the server decides which requests are late and refuses them.
type ServerClock struct {
	Server string        // the server's address, or a text that says it is not known
	Ahead  time.Duration // how far the clock is ahead of this process's clock; negative if it is behind
	Within time.Duration // the largest error of Ahead
}

// Since returns what the counters counted between an earlier snapshot and s.
// Held, Waiting, Clocks, PubSub and the current values in Renewal are those of s.
func (s Stats) Since(earlier Stats) Stats {
	s.Renewal = s.Renewal.Since(earlier.Renewal)
	s.Calls, s.Lost = less(s.Calls, earlier.Calls), less(s.Lost, earlier.Lost)
	s.Waited = s.Waited.Since(earlier.Waited)
	s.HeldSeconds -= earlier.HeldSeconds
	s.Released -= earlier.Released
	s.Tries -= earlier.Tries
	s.Unanswered -= earlier.Unanswered
	s.Refused -= earlier.Refused
	s.Unreleased -= earlier.Unreleased
	s.Unlogged -= earlier.Unlogged
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

// Stats returns a snapshot of the client's locks, its counters and its watchdog.
func (c *Client) Stats() Stats {
	c.holds.Settle() // so that Held does not count a lock whose holder was told of its loss
	t := c.table.Counts()
	st := Stats{
		Held: t.Held, Waiting: t.Waiting, HeldSeconds: t.HeldFor, Renewal: c.watchdog.Stats(),
		Calls: byKind[Outcome](c.telling.calls[:]), Lost: byKind[Reason](c.holds.Counts.Lost[:]), Waited: c.telling.waited.Distribution(),
		Released: c.holds.Counts.Released.Load(), Tries: c.holds.Counts.Tries.Load(),
		Unanswered: c.network.Unanswered() + c.holds.Counts.Signs.Load(), Refused: c.network.Refused(), Unreleased: c.holds.Counts.Unreleased.Load(),
		Unlogged: c.telling.logger.Dropped(),
	}
	for _, s := range c.network.Router().Servers() {
		if ahead, within, ok := s.Clock(); ok {
			st.Clocks = append(st.Clocks, ServerClock{Server: s.Address(), Ahead: ahead, Within: within})
		}
	}
	p := c.network.Router().Publishing()
	st.PubSub = PubSub{Plain: p.Plain, Sharded: p.Sharded}
	return st
}

// byKind returns the counts that are not 0. counts[0] belongs to no kind.
func byKind[K ~uint8](counts []atomic.Uint64) map[K]uint64 {
	m := make(map[K]uint64)
	for i := range counts {
		if n := counts[i].Load(); n > 0 {
			m[K(i)] = n
		}
	}
	return m
}
