package lock

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/renewal"
)

// lane renews the holds whose keys are on one server, over connections that nothing
// else uses. It is the server's Attachment.
type lane struct {
	// immutable
	server  *servers.Server
	carrier *carrier.Carrier
	leases  *renewal.Lane
	logger  *slog.Logger
	lease   time.Duration
	follows bool // a Topology: another server may take the place of this one

	refused atomic.Bool                  // that the server refuses to renew was logged, and no batch was renewed since
	told    atomic.Int64                 // when that was logged last, Unix ns
	last    atomic.Pointer[renewalError] // nil if the server never refused
}

// newLane returns the lane of s, which follows a Topology or not. It does no I/O. An error says that the watchdog is
// closed.
func newLane(c *keeper, s *servers.Server, follows bool) (*lane, error) {
	l := &lane{server: s, logger: c.cfg.Logger, lease: c.cfg.Lease, follows: follows}
	l.carrier = carrier.New(carrier.Config{
		Timeout: c.cfg.IOTimeout, Conns: c.dog.Config().Dispatchers, Prefix: c.id + ":",
		Slots: c.scripts.traits.Slots, Server: s.Name(),
		Dial: s.DialTimed, Timed: s.Timed, Epoch: s.Epoch, Target: l.target,
		Answered: l.answered, Failed: s.Failed, Resumed: l.resumed, Cast: &c.cast,
	})
	leases, err := c.dog.Lane(s.Name(), l.carrier)
	if err != nil {
		return nil, err
	}
	l.leases = leases
	return l, nil
}

// laneOf returns the lane of s; nil if the server is not known.
func laneOf(s *servers.Server) *lane {
	l, _ := s.Attachment().(*lane)
	return l
}

// target returns where the leases go whose keys a redirection leads to. A Client
// that knows one server alone has no other: what that one gave away is lost.
func (l *lane) target(to pipe.Redirection) *renewal.Lane {
	s := l.server.Target(to)
	if s == nil {
		return nil
	}
	if other := laneOf(s); other != nil {
		return other.leases
	}
	return nil
}

// answered is told how a batch ended. It keeps what the server refused, for those who are
// lost, and warns once until the server renews again, and at most once in a lease: one key
// may be refused while others are renewed.
func (l *lane) answered(err error) {
	var said redis.Error
	if !errors.As(err, &said) {
		if err == nil {
			l.refused.Store(false)
		}
		return
	}
	now := time.Now()
	end := new(heldWatch)
	end.End(said)
	l.last.Store(&renewalError{now, end})
	var advice string
	switch {
	case pipe.RefusesWrites(said):
		advice = stateAdvice(said)
	case pipe.Definite(said):
		advice = "give the user the rights that README.md lists; Redis 5 and 6 need lua-replicate-commands yes"
	default:
		return // it passes by itself
	}
	last := l.told.Load()
	if now.UnixNano()-last < int64(l.lease) || l.refused.Load() || !l.told.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	l.refused.Store(true)
	l.logger.Warn("lock: renewal is refused, so locks are lost when their leases end", "server", l.server.Address(), "error", said, "advice", advice)
}

// renewalError is the last error that a server answered to a renewal.
type renewalError struct {
	at  time.Time
	end *heldWatch // a watch that has ended, whose cause is the error; see hold.watching
}

// refusalOf returns what the server of h last answered, if that was within a lease; nil
// otherwise.
func (c *keeper) refusalOf(h *hold) *heldWatch {
	l := c.lane(h.name)
	if l == nil {
		return nil
	}
	if r := l.last.Load(); r != nil && time.Since(r.at) <= l.lease {
		return r.end
	}
	return nil
}

// resumed is called when renewal has a connection again after it lost one: a
// server of a Topology may have failed over meanwhile, or restarted empty.
func (l *lane) resumed() {
	if l.follows {
		l.leases.Verify()
	}
}

// Replaced implements servers.Attachment: the connections to the old server are given
// up, and all holds are looked up on the new one.
func (l *lane) Replaced() {
	var wg sync.WaitGroup
	wg.Go(l.carrier.Drop)
	l.leases.Verify()
	wg.Wait()
}

// Idle implements servers.Attachment.
func (l *lane) Idle() bool { return l.leases.Stats().Leases == 0 }

// Retire implements servers.Attachment. What came to the lane just now is lost.
func (l *lane) Retire() { l.leases.Close() }

// Close implements servers.Attachment. The leases are closed: by Retire, or with the
// watchdog.
func (l *lane) Close() { l.carrier.Close() }

// keep has the watchdog look after h, whose lease belongs to o, and which a request that
// was stamped in terms acquired. A nil lane is that of no server.
func (l *lane) keep(h *hold, o carrier.Owner, terms renewal.Terms) error {
	if l == nil {
		return servers.ErrNoServer
	}
	if !terms.Fixed {
		l.carrier.Open()
	}
	return l.leases.Hold(&h.lease, o, terms)
}

// place takes h, whose key is on the lane's server, to the lane, where it is looked
// up at once: that server may never have got it. A hold that was found on the target
// of a slot that is just being moved stays there.
func (l *lane) place(h *hold) {
	switch {
	case l == nil:
	case h.lease.Lane() == l.leases:
		h.set(asked, false) // the slot has arrived
	case !h.is(asked):
		if h.lease.Move(l.leases) {
			l.carrier.Open()
			h.lease.Verify()
		}
	}
}

// lane returns the lane of the server that has key; nil if none is known.
func (c *keeper) lane(key string) *lane { return laneOf(c.router.Server(key)) }

// place takes h to the lane of the server that has its key.
func (c *keeper) place(h *hold) { c.lane(h.name).place(h) }

// relocate takes every hold to the lane of the server that now has its key. Waiters look
// where their channel is.
func (c *keeper) relocate() {
	for _, h := range c.table.All() {
		c.place(h)
	}
	c.table.WakeAll()
}
