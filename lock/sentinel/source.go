package sentinel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/endpoint"
	"github.com/wheellock/wheellock/lock/topology"
)

// dialsOut is how many dials to one sentinel may be left behind, where
// Config.SentinelOptions do not let them end in time.
const dialsOut = 2

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 500 * time.Millisecond

// Config says where the sentinels are and how to dial.
type Config struct {
	// Master is the name under which the sentinels watch the master.
	Master string
	// Sentinels are the addresses of all sentinels, host:port.
	Sentinels []string
	// DialOptions are for connections to the master: a password, a database,
	// TLS. NetDial, TLS and Credentials replace what they say of these.
	DialOptions []redis.DialOption
	// SentinelOptions are for connections to sentinels, which have a password
	// of their own. NetDial, TLS and SentinelCredentials replace what they say
	// of these.
	SentinelOptions []redis.DialOption
	// NetDial connects to the master and to sentinels, as
	// net.Dialer.DialContext does.
	NetDial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the TLS configuration for the master and for sentinels. Without a
	// ServerName a certificate must be valid for the address that is dialled.
	TLS *tls.Config
	// Credentials are asked for at each dial of the master, so a password may
	// change and a token may expire. An empty user is the default one.
	Credentials func(ctx context.Context) (user, password string, err error)
	// SentinelCredentials are Credentials for sentinels.
	SentinelCredentials func(ctx context.Context) (user, password string, err error)
	// Timeout limits a question to a sentinel, including its dial: from 1 ms to
	// a minute, default 500 ms.
	Timeout time.Duration
}

// Topology finds the master and is what lock.NewTopology takes. It has no goroutine and
// no connection of its own, so there is nothing to close. All methods are safe
// for concurrent use, and several Clients may share it.
type Topology struct {
	cfg   Config         // immutable
	dials *dialing.Bound // to each sentinel; immutable

	mu    sync.Mutex // guards what follows; never held during I/O
	known master     // the latest that counts; no address before the first answer
	turn  int        // counts the servers that were master, or were restarted as such
	// behind is since when a majority has known only older configurations; zero
	// while they do not.
	behind time.Time
}

var _ topology.Topology = (*Topology)(nil)

var (
	// ErrNoSentinel is returned when no sentinel answered, or only sentinels
	// that were cut off.
	ErrNoSentinel = errors.New("sentinel: no sentinel knows the master")
	// ErrNotMaster is returned when the server that the sentinels name is not a
	// master, not yet or not any more.
	ErrNotMaster = errors.New("sentinel: the server is not a master")
)

// New returns a Topology, or all faults of cfg. It does no I/O.
func New(cfg Config) (*Topology, error) {
	var errs []error
	if cfg.Master == "" {
		errs = append(errs, errors.New("sentinel: Config.Master is empty: it is the name under which the sentinels watch the master"))
	}
	if len(cfg.Sentinels) == 0 {
		errs = append(errs, errors.New("sentinel: Config.Sentinels is empty: list the addresses of all sentinels"))
	}
	for _, addr := range cfg.Sentinels {
		if err := dialing.CheckAddr(addr); err != nil {
			errs = append(errs, fmt.Errorf("sentinel: Config.Sentinels: %w", err))
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Timeout < time.Millisecond || cfg.Timeout > time.Minute {
		errs = append(errs, fmt.Errorf("sentinel: Config.Timeout is %v: it must be from %v to %v", cfg.Timeout, time.Millisecond, time.Minute))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	cfg.Sentinels = append([]string(nil), cfg.Sentinels...)
	return &Topology{cfg: cfg, dials: dialing.NewBound(dialsOut)}, nil
}

// MasterAddr asks the sentinels for the master's address. ErrNoSentinel: none
// of them knows it.
func (s *Topology) MasterAddr(ctx context.Context) (string, error) {
	m, _, err := s.ask(ctx)
	return m.addr, err
}

// GetContext dials the master and checks that it is a master. The caller closes
// the connection. It can be the DialContext of a redis.Pool.
func (s *Topology) GetContext(ctx context.Context) (redis.Conn, error) { return s.Dial(ctx, "") }

// Traits implements topology.Topology.
func (s *Topology) Traits() topology.Traits { return topology.Traits{} }

// Dial implements topology.Topology; there is one server, without a name.
func (s *Topology) Dial(ctx context.Context, _ string) (redis.Conn, error) {
	m, _, err := s.ask(ctx)
	if err != nil {
		if m, _ = s.last(); m.addr == "" || ctx.Err() != nil {
			return nil, err
		}
		// The sentinels are gone, the master need not be.
	}
	to := endpoint.Dialer{NetDial: s.cfg.NetDial, TLS: s.cfg.TLS, Credentials: s.cfg.Credentials, Options: s.cfg.DialOptions}
	conn, err := to.Dial(ctx, "tcp", m.addr)
	if err != nil {
		return nil, fmt.Errorf("sentinel: the master %q at %s: %w", s.cfg.Master, m.addr, err)
	}
	if err := checkRole(ctx, conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("sentinel: the master %q at %s: %w", s.cfg.Master, m.addr, err)
	}
	return conn, nil
}

// checkRole makes sure that conn leads to a master.
func checkRole(ctx context.Context, conn redis.Conn) error {
	role, err := redis.Values(do(ctx, conn, "ROLE"))
	if err == nil {
		if len(role) > 0 {
			if name, _ := redis.String(role[0], nil); name == "master" {
				return nil
			}
		}
		return ErrNotMaster
	}
	if _, refused := err.(redis.Error); !refused {
		return err
	}
	info, err := redis.String(do(ctx, conn, "INFO", "replication"))
	if err != nil {
		return err
	}
	if infoValue(info, "role") != "master" {
		return ErrNotMaster
	}
	return nil
}

// do sends one command and waits for its answer. If ctx ends before that, it closes
// conn and returns ctx.Err().
func do(ctx context.Context, conn redis.Conn, cmd string, args ...any) (any, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var reply any
	var err error
	if deadline, ok := ctx.Deadline(); ok {
		reply, err = redis.DoWithTimeout(conn, max(time.Until(deadline), time.Millisecond), cmd, args...)
	} else {
		reply, err = conn.Do(cmd, args...)
	}
	if !stop() {
		return nil, ctx.Err()
	}
	return reply, err
}

// last returns the master that was last known, and the number of its turn.
func (s *Topology) last() (master, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known, s.turn
}

// note takes over the best of some answers, and returns what counts now and the
// number of its turn; false if these sentinels have missed a failover that was
// seen before.
func (s *Topology) note(m master, majority bool, now time.Time) (master, int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.known
	if m.epoch >= old.epoch {
		s.behind = time.Time{}
	} else {
		if s.behind.IsZero() || !majority {
			s.behind = now
		}
		if now.Sub(s.behind) < backwards {
			return master{}, 0, false
		}
	}
	switch {
	case old.addr != m.addr, old.runID != m.runID && old.runID != "" && m.runID != "":
		s.turn++
	case m.runID == "": // sentinels learn it only some seconds after a failover
		m.runID = old.runID
	}
	s.known = m
	return m, s.turn, true
}

// instance names a server that is master for a while.
func (m master) instance(turn int) string { return m.addr + "#" + strconv.Itoa(turn) }
