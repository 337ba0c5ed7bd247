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
	server      *servers.Server
	renewer     *renewer.Renewer
	leases      *renewal.Lane
	logger      *record.Logger
	advice      func(refusal error) string
	lease       time.Duration
	hasTopology bool // so another server may replace this one

	refusals        *atomic.Uint64          // batches that any server of the Network refused, in part or whole
	isRefusalLogged atomic.Bool             // the log says that the server refuses renewals, and no batch was renewed since
	lastLogged      atomic.Int64            // when the log last said that; Unix ns
	lastRefusal     atomic.Pointer[refusal] // nil if the server never refused
}

// refusal is an error that a server answered to a renewal.
type refusal struct {
	err error
	at  time.Time
}

// newLane returns the lane of s. It does no I/O. An error says that the watchdog is closed.
func newLane(cfg *Config, s *servers.Server, refusals *atomic.Uint64) (*lane, error) {
	t := cfg.Servers.Topology
	l := &lane{server: s, logger: cfg.Logger, lease: cfg.Lease, advice: cfg.Advice, hasTopology: t != nil, refusals: refusals}
	l.renewer = renewer.New(renewer.Config{
		Timeout: cfg.IOTimeout, Conns: cfg.Watchdog.Config().Dispatchers, Prefix: cfg.ID + ":",
		Slots: t != nil && t.Traits().Slots, Server: s.Name(),
		Dial: s.DialRenewal, Timed: s.Timed, Epoch: s.Epoch, Target: l.target,
		Answered: l.answered, Failed: s.RenewalFailed, Resumed: l.resumed, Labeler: cfg.Labeler,
	})
	leases, err := cfg.Watchdog.Lane(s.Name(), l.renewer)
	if err != nil {
		return nil, err
	}
	l.leases = leases
	return l, nil
}

// target returns the lane of the server that a redirection names. A Client of one server
// has no other lane, so leases whose keys have moved are lost.
func (l *lane) target(to pipe.Redirection) *renewal.Lane {
	s := l.server.FollowRedirection(to)
	if s == nil {
		return nil
	}
	if other := (server{s}).Lane(); other != nil {
		return other.RenewalLane()
	}
	return nil
}

// answered is called at the end of a batch, with the error of renewer.Config.Answered. If the
// server refused to renew, answered keeps the error, which explains why holds are lost. It also
// logs a warning, once until the server renews again, and at most once in the time of a lease.
// Without the second limit, one key that is refused while others are renewed would cause a
// warning in every interval.
func (l *lane) answered(err error) {
	var said redis.Error
	refused := errors.As(err, &said)
	if err == nil || refused {
		l.server.RenewalAnswered()
	}
	if !refused {
		if err == nil {
			l.isRefusalLogged.Store(false)
		}
		return
	}
	l.refusals.Add(1)
	now := time.Now()
	l.lastRefusal.Store(&refusal{said, now})
	advice := l.advice(said)
	if advice == "" {
		return
	}
	last := l.lastLogged.Load()
	if now.UnixNano()-last < int64(l.lease) || l.isRefusalLogged.Load() || !l.lastLogged.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	if l.logger.Log(record.RenewalRefused, l.server.Address(), said, advice) {
		l.isRefusalLogged.Store(true)
	}
}

// The methods of Lane.

func (l *lane) RenewalLane() *renewal.Lane { return l.leases }
func (l *lane) Open()                      { l.renewer.Open() }
func (l *lane) Refusal() error {
	if r := l.lastRefusal.Load(); r != nil && time.Since(r.at) <= l.lease {
		return r.err
	}
	return nil
}

// resumed is called when renewal has a connection again after one was lost. Meanwhile the
// server may have failed over, or restarted without its data, if it is one of a Topology.
func (l *lane) resumed() {
	if l.hasTopology {
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
