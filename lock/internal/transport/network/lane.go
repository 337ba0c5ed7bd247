package network

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/renewal"
)

// lane renews the holds whose keys are on one server, over connections that nothing
// else uses. It is the server's Attachment.
type lane struct {
	// immutable
	server  *servers.Server
	renewer *renewer.Renewer
	leases  *renewal.Lane
	logger  *record.Logger
	advice  func(refusal error) string
	lease   time.Duration
	follows bool // there is a Topology, so another server may replace this one

	refusals *atomic.Uint64          // batches that any server of the Network refused in part or whole
	refused  atomic.Bool             // that the server refuses to renew was logged, and no batch was renewed since
	told     atomic.Int64            // when that was logged last, Unix ns
	last     atomic.Pointer[Refusal] // nil if the server never refused
}

// newLane returns the lane of s. It does no I/O.
// An error says that the watchdog is closed.
func newLane(cfg *Config, s *servers.Server, refusals *atomic.Uint64) (*lane, error) {
	t := cfg.Servers.Topology
	l := &lane{server: s, logger: cfg.Logger, lease: cfg.Lease, advice: cfg.Advice, follows: t != nil, refusals: refusals}
	l.renewer = renewer.New(renewer.Config{
		Timeout: cfg.IOTimeout, Conns: cfg.Watchdog.Config().Dispatchers, Prefix: cfg.ID + ":",
		Slots: t != nil && t.Traits().Slots, Server: s.Name(),
		Dial: s.DialRenewal, Timed: s.Timed, Epoch: s.Epoch, Target: l.target,
		Answered: l.answered, Failed: s.RenewalFailed, Resumed: l.resumed, Cast: cfg.Cast,
	})
	leases, err := cfg.Watchdog.Lane(s.Name(), l.renewer)
	if err != nil {
		return nil, err
	}
	l.leases = leases
	return l, nil
}

// laneOf returns the lane of s, or nil if the server is not known.
func laneOf(s *servers.Server) *lane {
	l, _ := s.Attachment().(*lane)
	return l
}

// target returns the lane of the server that a redirection names. A Client of one server
// has no other lane, so leases whose keys have moved are lost.
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

// answered is called at the end of a batch. It keeps the error with which the server refused
// to renew, for the errors of holds that get lost. It also warns, once until the server renews
// again. It warns at most once in a lease, because one key may be refused while others are
// renewed.
func (l *lane) answered(err error) {
	var said redis.Error
	refused := errors.As(err, &said)
	if err == nil || refused {
		l.server.RenewalAnswered()
	}
	if !refused {
		if err == nil {
			l.refused.Store(false)
		}
		return
	}
	l.refusals.Add(1)
	now := time.Now()
	l.last.Store(&Refusal{Err: said, at: now})
	advice := l.advice(said)
	if advice == "" {
		return
	}
	last := l.told.Load()
	if now.UnixNano()-last < int64(l.lease) || l.refused.Load() || !l.told.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	if l.logger.Log(record.RenewalRefused, l.server.Address(), said, advice) {
		l.refused.Store(true)
	}
}

// Leases implements Lane.
func (l *lane) Leases() *renewal.Lane { return l.leases }

// Open implements Lane.
func (l *lane) Open() { l.renewer.Open() }

// Refusal implements Lane.
func (l *lane) Refusal() *Refusal {
	if r := l.last.Load(); r != nil && time.Since(r.at) <= l.lease {
		return r
	}
	return nil
}

// resumed is called when renewal has a connection again after it lost one. Meanwhile a
// server of a Topology may have failed over, or restarted without its data.
func (l *lane) resumed() {
	if l.follows {
		l.leases.Verify()
	}
}

// Replaced implements servers.Attachment. It closes the connections to the old server, and
// checks all holds on the new one.
func (l *lane) Replaced() {
	var wg sync.WaitGroup
	wg.Go(l.renewer.Drop)
	l.leases.Verify()
	wg.Wait()
}

// Idle implements servers.Attachment.
func (l *lane) Idle() bool { return l.leases.Stats().Leases == 0 }

// Retire implements servers.Attachment. Leases that have just come to the lane are lost.
func (l *lane) Retire() { l.leases.Close() }

// Close implements servers.Attachment. Retire or the watchdog has already closed the
// leases.
func (l *lane) Close() { l.renewer.Close() }
