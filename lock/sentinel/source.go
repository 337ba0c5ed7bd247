package sentinel

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
	"github.com/wheellock/wheellock/lock/topology"
)

// dialsOut is how many dials to one sentinel may still run after their context has
// ended, because Config.SentinelOptions do not heed it.
const dialsOut = 2

// DefaultTimeout is the default of Config.Timeout, if Config.DialTimeout is not set.
const DefaultTimeout = 2500 * time.Millisecond

// Config says where the sentinels are and how to dial.
type Config struct {
	// Master is the name under which the sentinels watch the master.
	Master string
	// Sentinels are the addresses of all sentinels, host:port.
	Sentinels []string
	// DialOptions are for connections to the master, for example a password, a
	// database or TLS. NetDial, TLS and Credentials replace the options of the same
	// purpose. lock.Dial says which options cost something or have no effect.
	DialOptions []redis.DialOption
	// SentinelOptions are for connections to sentinels, which have a password
	// of their own. NetDial, TLS and SentinelCredentials replace the options of the
	// same purpose.
	SentinelOptions []redis.DialOption
	// NetDial connects to the master and to sentinels, as
	// net.Dialer.DialContext does.
	NetDial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the TLS configuration for the master and for sentinels. Without a
	// ServerName each certificate must be valid for the address that is dialled.
	TLS *tls.Config
	// Credentials is called at each dial of the master, so a password may change
	// and a token may expire. An empty user means the default user.
	Credentials func(ctx context.Context) (user, password string, err error)
	// SentinelCredentials is like Credentials, for sentinels.
	SentinelCredentials func(ctx context.Context) (user, password string, err error)
	// Timeout limits a question to a sentinel, including the dial. It is from 1 ms
	// to a minute. Default: half of DialTimeout, which is 2.5 s.
	Timeout time.Duration
	// DialTimeout limits a dial of the master with everything in it. Default 5 s,
	// and never more than a sixth of the Client's lease. Open takes it from the URL.
	DialTimeout time.Duration
}

// Topology finds the master. Give it to lock.NewTopology. It has no goroutine and no
// connection of its own, so it has no Close. All methods are safe for concurrent use,
// and several Clients may share a Topology.
type Topology struct {
	cfg      Config          // immutable
	master   endpoint.Dialer // how the master is dialled; immutable
	sentinel endpoint.Dialer // how sentinels are dialled; immutable
	dials    *dialing.Bound  // bounds the dials to each sentinel; immutable

	mu    sync.Mutex // guards the fields below; never held during I/O
	known master     // the master now; no address before the first answer
	turn  int        // rises with each new master, and with each restart of a master
	past  string     // the run id that the known master had before its last restart
	// follows is how many Follows run. While one does, it finds the master for Dial.
	follows int
	// behind is the time since when a majority has answered with an older
	// configuration; zero while it does not.
	behind time.Time
}

var _ topology.Topology = (*Topology)(nil)

var (
	// ErrNoSentinel is returned when no sentinel answered, or when all that
	// answered have missed a failover.
	ErrNoSentinel = errors.New("sentinel: no sentinel knows the master")
	// ErrNotMaster is returned when the server that the sentinels name is not yet
	// a master, or no longer one.
	ErrNotMaster = errors.New("sentinel: the server is not a master")
)

// New returns a Topology, or all faults of cfg. It does no I/O.
func New(cfg Config) (*Topology, error) {
	return dialledBy(cfg,
		endpoint.Dialer{NetDial: cfg.NetDial, TLS: cfg.TLS, Credentials: cfg.Credentials, Options: cfg.DialOptions},
		endpoint.Dialer{NetDial: cfg.NetDial, TLS: cfg.TLS, Credentials: cfg.SentinelCredentials, Options: cfg.SentinelOptions})
}

// dialledBy is New with the Dialers of the master and of the sentinels.
func dialledBy(cfg Config, master, sentinel endpoint.Dialer) (*Topology, error) {
	var errs []error
	if cfg.Master == "" {
		errs = append(errs, errors.New("sentinel: Config.Master is empty: set the name under which the sentinels watch the master"))
	}
	if len(cfg.Sentinels) == 0 {
		errs = append(errs, errors.New("sentinel: Config.Sentinels is empty: list the addresses of all sentinels"))
	}
	for i, addr := range cfg.Sentinels {
		if err := dialing.CheckAddr(addr); err != nil {
			errs = append(errs, fmt.Errorf("sentinel: Config.Sentinels: %w", err))
		} else if slices.Contains(cfg.Sentinels[:i], addr) {
			errs = append(errs, fmt.Errorf("sentinel: Config.Sentinels has %s twice: each sentinel has one vote", addr))
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
		if cfg.DialTimeout > 0 {
			cfg.Timeout = min(max(cfg.DialTimeout/2, time.Millisecond), time.Minute)
		}
	}
	if cfg.Timeout < time.Millisecond || cfg.Timeout > time.Minute {
		errs = append(errs, fmt.Errorf("sentinel: Config.Timeout is %v: it must be from %v to %v", cfg.Timeout, time.Millisecond, time.Minute))
	}
	if cfg.DialTimeout < 0 {
		errs = append(errs, fmt.Errorf("sentinel: Config.DialTimeout is %v: it must not be below 0", cfg.DialTimeout))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	cfg.Sentinels = append([]string(nil), cfg.Sentinels...)
	return &Topology{cfg: cfg, master: master, sentinel: sentinel, dials: dialing.NewBound(dialsOut)}, nil
}

// Open returns a Topology of the master that the sentinels at a URL watch:
//
//	redis-sentinel://user:password@host1:26379,host2:26379/0?master=mymaster
//	rediss-sentinel://host1,host2?master=mymaster   TLS
//
// The documentation of lock.Open lists the options of such a URL. lock.Open takes the
// URL without a Topology. In cfg, only NetDial, TLS, Credentials, SentinelCredentials
// and Timeout may be set. Like New, Open does no I/O. An error about the URL does not
// repeat the URL, because the URL may have a password.
func Open(rawURL string, cfg Config) (*Topology, error) {
	u, err := endpoint.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("sentinel: Open: %w", err)
	}
	switch {
	case u.Kind != endpoint.Sentinels:
		return nil, errors.New("sentinel: Open: the URL is not that of sentinels: write redis-sentinel:// or rediss-sentinel://, or use lock.Open")
	case cfg.Master != "" || len(cfg.Sentinels)+len(cfg.DialOptions)+len(cfg.SentinelOptions) > 0:
		return nil, errors.New("sentinel: Open: Config.Master, Sentinels, DialOptions and SentinelOptions must be empty: write these settings in the URL")
	case cfg.DialTimeout != 0:
		return nil, errors.New("sentinel: Open: Config.DialTimeout must be 0: write dial_timeout in the URL")
	case cfg.SentinelCredentials != nil && u.SentinelPassword != "":
		return nil, errors.New("sentinel: Open: Config.SentinelCredentials is set and the URL has a sentinel_password: give only one of them")
	}
	to, err := u.Dialer(endpoint.Settings{NetDial: cfg.NetDial, TLS: cfg.TLS, Credentials: cfg.Credentials}, "Config.%s")
	if err != nil {
		return nil, fmt.Errorf("sentinel: Open: %w", err)
	}
	watchers := u.Sentinel(to)
	if cfg.SentinelCredentials != nil {
		watchers.Credentials = cfg.SentinelCredentials
	}
	cfg.Master, cfg.Sentinels, cfg.DialTimeout = u.Master, u.Addrs, u.Connect
	return dialledBy(cfg, to, watchers)
}

// MasterAddr asks the sentinels for the master's address. The error is
// ErrNoSentinel if no sentinel knows it.
func (s *Topology) MasterAddr(ctx context.Context) (string, error) {
	found, err := s.ask(ctx)
	return found.addr, err
}

// GetContext dials the master and checks that the server is a master. The caller
// closes the connection. GetContext can be the DialContext of a redis.Pool. The
// program's own commands have the limits of lock.Dial: an answer may have 16 MiB and
// 1,048,576 elements. Config.DialTimeout limits GetContext, too.
func (s *Topology) GetContext(ctx context.Context) (redis.Conn, error) { return s.Dial(ctx, "") }

// Traits implements topology.Topology.
func (s *Topology) Traits() topology.Traits {
	return topology.Traits{DialTimeout: s.cfg.DialTimeout}
}

// Dial implements topology.Topology. There is one server, and it has no name.
func (s *Topology) Dial(ctx context.Context, _ string) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.cfg.DialTimeout, endpoint.DialTimeout))
	defer cancel()
	found, followed := s.last()
	if !followed || found.addr == "" {
		answer, err := s.askInHalf(ctx)
		switch {
		case err == nil:
			found = answer
		case found.addr == "" || ctx.Err() != nil:
			return nil, err
		} // otherwise the sentinels do not answer, but the last known master may
	}
	conn, err := s.dialMaster(ctx, found.addr)
	if err != nil {
		return nil, fmt.Errorf("sentinel: the master %q at %s: %w", s.cfg.Master, found.addr, err)
	}
	return conn, nil
}

// askInHalf is ask with half of the time that is left of ctx. The rest is for a dial.
func (s *Topology) askInHalf(ctx context.Context) (finding, error) {
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	return s.ask(ctx)
}

// dialMaster dials a server and checks that it is a master.
func (s *Topology) dialMaster(ctx context.Context, addr string) (redis.Conn, error) {
	conn, err := s.master.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := checkRole(ctx, conn); err != nil {
		conn.Close()
		return nil, err
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
	if _, refused := err.(redis.Error); !refused || dialing.TurnedAway(err) {
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

// last returns the last known master. followed says that a Follow runs, which learns of a new
// master by itself.
func (s *Topology) last() (found finding, followed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return finding{s.known, s.turn, nil}, s.follows > 0
}

// addFollow adds n to the number of Follows that run.
func (s *Topology) addFollow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follows += n
}

// note compares answers of the same epoch with the known master, and returns the master now.
// majority says that a majority of the sentinels has answered. If the answers differ, their
// majority decides. Only a majority of all sentinels can name another master without a new epoch.
// Otherwise the known master stays, or the error is errSplit if there is none.
func (s *Topology) note(answers []master, majority bool, now time.Time) (finding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.known
	m, votes := s.leaderLocked(answers)
	needed := len(answers)/2 + 1
	if old.addr != "" && m.epoch == old.epoch {
		needed = s.majority()
	}
	switch again := m.epoch == old.epoch && m.addr == old.addr; {
	case again, votes >= needed:
	case old.addr == "":
		return finding{}, errSplit
	default:
		return finding{old, s.turn, fmt.Errorf("sentinel: %d of %d sentinels name the master %s in place of %s, without a new configuration",
			votes, len(s.cfg.Sentinels), m.addr, old.addr)}, nil
	}
	switch {
	case m.epoch >= old.epoch:
		s.behind = time.Time{}
	case !majority:
		s.behind = time.Time{}
		return finding{}, errBehind
	case s.behind.IsZero():
		s.behind = now
		return finding{}, errBehind
	case now.Sub(s.behind) < backwards:
		return finding{}, errBehind
	}
	switch {
	case old.addr != m.addr:
		s.turn++
		s.past = ""
	case old.runID != m.runID && old.runID != "" && m.runID != "":
		s.turn++
		s.past = old.runID
	case m.runID == "": // sentinels learn the run id only some seconds after a failover
		m.runID = old.runID
	}
	s.known = m
	return finding{m, s.turn, nil}, nil
}

// errBehind is the error of note if all sentinels that answer have missed a failover.
var errBehind = errors.New("the sentinels that answer have missed a failover")

// leaderLocked returns the address that most answers name, and how many do. Its run id is a new
// one if some answer has it. A sentinel may tell the id from before a restart for 10 s after
// others have told the new one.
func (s *Topology) leaderLocked(answers []master) (best master, most int) {
	for _, m := range answers {
		votes := 0
		for _, other := range answers {
			if other.addr != m.addr {
				continue
			}
			votes++
			if id := other.runID; id != "" && id != s.known.runID && (id != s.past || m.addr != s.known.addr) {
				m.runID = id
			}
		}
		if m.addr == s.known.addr && m.runID == s.past {
			m.runID = ""
		}
		if votes > most {
			best, most = m, votes
		}
	}
	return best, most
}

// instance returns topology.Server.Instance: the address of the master and the number of its turn.
func (f finding) instance() string { return f.addr + "#" + strconv.Itoa(f.turn) }
