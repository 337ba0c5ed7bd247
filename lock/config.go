package lock

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/renewal"
)

// Bounds and defaults of Config.
const (
	DefaultLease         = renewal.DefaultTTL // 30 s, Redisson's lockWatchdogTimeout
	MinLease             = renewal.MinTTL     // 100 ms
	MaxLease             = renewal.MaxTTL     // 30 days
	DefaultMaxPoll       = 5 * time.Second
	DefaultIOTimeout     = time.Second
	DefaultUnlockTimeout = 3 * time.Second
	DefaultConnections   = 2
	maxConnections       = 64
	maxReplicas          = 100
	maxOwnerLen          = 200
)

// Config configures a Client. The zero Config works. If settings are out of
// their bounds, New returns one error that names every such setting, its value
// and its bounds.
//
//	leases       Lease, MaxHold, Margin, ReleaseOnClose, DropForgotten
//	waiting      MaxPoll, FailFast, ReadersFirst
//	connections  IOTimeout, UnlockTimeout, Connections, Dispatchers, MaxBatch
//	safety       Replicas, ReplicaTimeout
//	names        KeyPrefix, Label
//	others       Hooks, Logger, Rand
type Config struct {
	// Lease is the TTL of a renewed lock: whole milliseconds from 100 ms to 30
	// days, default 30 s. The client renews a lock every third of the Lease. When
	// the process dies, its locks are free after at most one Lease.
	Lease time.Duration
	// MaxHold is how long after its acquisition a renewed lock is lost (reason
	// MaxHold): at least Lease, default 0, no limit. A LockFor or Extend that would
	// make a renewed lock last longer than that returns an error. A lock that had a
	// longer lease before it was renewed keeps that lease.
	MaxHold time.Duration
	// Margin is the time between the moment when a holder is told that its lock
	// is lost, and the moment when the lock expires in Redis. From Lease/50 or
	// 20 ms, whichever is less, to Lease/4. The default is a fiftieth of the
	// hold's own lease, which is 600 ms for 30 s, but at least Lease/50 + 5 ms or
	// 25 ms, whichever is less. The client never uses more than a quarter of the
	// hold's own lease, however short that lease is, and never less than a
	// hundredth, because clocks may run at different speeds.
	Margin time.Duration
	// ReleaseOnClose makes Close delete the locks that are still held when its
	// context ends. By default Close leaves them to their TTL, so that no other
	// owner enters a critical section that may still run.
	ReleaseOnClose bool
	// DropForgotten ends the renewal of a lock that was not unlocked and whose
	// Held the garbage collector has found unreachable. Logger gets a warning,
	// and the lock is lost when its lease ends (P16). By default such a lock is
	// renewed as long as the process lives. Keep the Held while you hold the
	// lock, because the Held's channel or context does not keep it reachable.
	// DropForgotten costs about 150 bytes per lock.
	DropForgotten bool
	// MaxPoll limits the time between two tries of a waiter while it is not
	// certain that the waiter receives the messages of releases: from 1 ms to an
	// hour, default 5 s. While the server answers pings on the pub/sub
	// connection, a waiter of a Mutex tries when the lease that it has seen
	// ends, and at least every 6 x MaxPoll. So the waiter notices a key that
	// somebody deletes without a message. One of the client's waiters tries
	// every MaxPoll, unless other calls ask Redis anyway. So the client notices
	// that its connections lead to a server that has become a replica. In a
	// Cluster a replica names the master, and that try is not needed. While
	// another caller of the same client has the Mutex, a waiter sends nothing.
	// Instead, the client asks Redis about the hold every MaxPoll, in one
	// request with other holds.
	MaxPoll time.Duration
	// FailFast makes Lock return ErrUnknown at the first unknown outcome. By
	// default Lock tries again until its context ends.
	FailFast bool
	// ReadersFirst lets new readers of a RWMutex in while a writer waits, as
	// Redisson does. A stream of readers then keeps writers out as long as it
	// lasts. By default new readers wait.
	ReadersFirst bool
	// IOTimeout limits one round trip. The client closes a connection whose oldest
	// request has waited for longer. It sends a call that only reads (IsLocked,
	// Inspect) once more then, over a new connection. From 1 ms to Lease/10 or an
	// hour, whichever is less, default 1 s, or Lease/10 if that is less. A dial
	// takes several round trips and has a limit of its own, see "Timeouts" in
	// lock/SERVERS.md.
	IOTimeout time.Duration
	// UnlockTimeout limits Unlock, which repeats its request while the outcome
	// is unknown. It also limits how long Close with ReleaseOnClose tries a
	// server that does not answer. From IOTimeout to an hour, default 3 s.
	UnlockTimeout time.Duration
	// Connections is the number of pipelined connections for commands to each
	// server: from 1 to 64, default 2.
	Connections int
	// Dispatchers is the number of connections for renewal to each server. Each
	// has one batch under way at a time. From 1 to 1024, default 2.
	Dispatchers int
	// MaxBatch limits the number of locks that are renewed in one round trip:
	// from 1 to 4096, default 1600. A batch is sent as script calls of 128 locks
	// each. One call occupies Redis for about half a millisecond.
	MaxBatch int
	// Replicas makes each acquisition wait until this many replicas of the
	// server have the lock (Redis' WAIT): from 0 to 100, default 0. If fewer
	// replicas have it, the client releases the lock again and returns
	// ErrNotReplicated. A lock then survives a failover to one of those replicas
	// for its first lease. Re-entry and renewal do not wait for replicas.
	// Acquisitions use as many additional connections as Connections says. Each
	// of these waits for one group of acquisitions at a time. The client does
	// not hand locks from owner to owner in memory.
	Replicas int
	// ReplicaTimeout limits the wait for Replicas: whole milliseconds from 1 ms
	// to Lease/10, default IOTimeout. The lease of the lock is shorter by the
	// time of this wait.
	ReplicaTimeout time.Duration
	// KeyPrefix is put before the name of a lock to make its key. Clients that
	// share locks must have the same prefix. Each prefix has its own counter of
	// fencing tokens. Two prefixes can make the same key of different names
	// ("a:" with "b:x" and "a:b:" with "x"). Then the tokens of the key's
	// holders need not rise from one prefix to the other. A prefix with a brace
	// must have a hash tag, such as "{app}:". All its locks are then in one slot
	// of a Cluster.
	KeyPrefix string
	// Label says who holds a lock: default the host's name without its domain,
	// "-" for none. Holder.Label and the command wheellock show the Label. The
	// Label is the end of Client.ID and so is visible in Redis to all users who
	// may read keys. Letters, digits and ._- are kept, and all other characters
	// become underscores. Of more than 19 characters, the last 19 are kept. The
	// Label costs no memory in Redis. Permits, semaphores and latches have no
	// holders, and so no Label.
	Label string
	// Hooks are functions that are called at the events of a lock.
	Hooks Hooks
	// Logger gets warnings that no return value or hook reports; default
	// slog.Default(). A loss is not logged. The client tells it to the holder
	// and to Hooks.Lost, and counts it in Stats. lock/SERVICE.md lists every
	// record under "Log records", with its level, its attributes, how often it
	// comes at most, and what to do. Many locks do not make many records, and no
	// cause makes records without bound.
	//
	// One goroutine calls the Logger, in the order of the records, a moment after
	// each cause. So a Logger that blocks delays no renewal and no call, only Close (P17).
	// If more than 256 records wait, the client drops the next ones and counts them
	// in Stats.Unlogged.
	//
	// The attribute server is an address. For a pool or an Endpoint, it is the
	// address to which the last dial has connected or tried to connect. Before
	// that, it is host and port of the Endpoint's URL. For a pool whose Dial has no
	// context, server is "the pool's". If you have several such
	// clients, give each of them a Logger with an attribute of its own.
	Logger *slog.Logger
	// Rand is the source of the random part of pauses, polls and renewal times.
	// The random part keeps clients from acting at the same moment. Rand must be
	// safe for concurrent use. A test with a seeded source gets the same values
	// each time. Default: the source of math/rand/v2. The client's ID does not
	// come from Rand.
	Rand rand.Source
}

// withDefaults returns cfg with every zero field set, or all its faults.
func (cfg Config) withDefaults() (Config, error) {
	var errs []error
	between(&errs, "Config.Lease", &cfg.Lease, DefaultLease, MinLease, MaxLease)
	if cfg.Lease%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("lock: Config.Lease is %v: it must be whole milliseconds", cfg.Lease))
		cfg.Lease = DefaultLease
	}
	between(&errs, "Config.MaxPoll", &cfg.MaxPoll, DefaultMaxPoll, time.Millisecond, time.Hour)
	between(&errs, "Config.IOTimeout", &cfg.IOTimeout, min(DefaultIOTimeout, cfg.Lease/10), time.Millisecond, min(cfg.Lease/10, time.Hour))
	between(&errs, "Config.UnlockTimeout", &cfg.UnlockTimeout, max(DefaultUnlockTimeout, cfg.IOTimeout), cfg.IOTimeout, time.Hour)
	between(&errs, "Config.Connections", &cfg.Connections, DefaultConnections, 1, maxConnections)
	between(&errs, "Config.Replicas", &cfg.Replicas, 0, 0, maxReplicas)
	if cfg.Replicas != 0 {
		between(&errs, "Config.ReplicaTimeout", &cfg.ReplicaTimeout, max(cfg.IOTimeout.Truncate(time.Millisecond), time.Millisecond), time.Millisecond, cfg.Lease/10)
	} else if cfg.ReplicaTimeout != 0 {
		errs = append(errs, fmt.Errorf("lock: Config.ReplicaTimeout is %v: it needs Config.Replicas", cfg.ReplicaTimeout))
	}
	if cfg.ReplicaTimeout%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("lock: Config.ReplicaTimeout is %v: it must be whole milliseconds", cfg.ReplicaTimeout))
	}
	if err := keys.CheckPrefix(cfg.KeyPrefix); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, cfg.forRenewal()...)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg, errors.Join(errs...)
}

// forRenewal sets the fields that the watchdog uses, and returns their faults. Package renewal would
// call them by other names.
func (cfg *Config) forRenewal() (errs []error) {
	tick := min(max(cfg.Lease/100, time.Millisecond), 10*time.Millisecond) // the watchdog's default
	if cfg.Margin != 0 && (cfg.Margin < 2*tick || cfg.Margin > cfg.Lease/4) {
		errs = append(errs, fmt.Errorf("lock: Config.Margin is %v: it must be from %v to Lease/4 = %v", cfg.Margin, 2*tick, cfg.Lease/4))
	}
	if cfg.MaxHold != 0 && cfg.MaxHold < cfg.Lease {
		errs = append(errs, fmt.Errorf("lock: Config.MaxHold is %v: it must be 0 (no limit) or at least Lease = %v", cfg.MaxHold, cfg.Lease))
	}
	between(&errs, "Config.MaxBatch", &cfg.MaxBatch, renewal.DefaultMaxBatch, 1, renewal.MaxMaxBatch)
	between(&errs, "Config.Dispatchers", &cfg.Dispatchers, renewal.DefaultDispatchers, 1, renewal.MaxDispatchers)
	return errs
}

// between gives a field that is zero its default. It appends an error if the field is out of its bounds.
func between[N int | time.Duration](errs *[]error, field string, n *N, standard, least, most N) {
	if *n == 0 {
		*n = standard
	}
	if *n < least || *n > most {
		*errs = append(*errs, fmt.Errorf("lock: %s is %v: it must be from %v to %v", field, *n, least, most))
		*n = standard // so that the bounds that depend on the field make sense
	}
}

// label returns the end of the ids of clients on that host.
func (cfg *Config) label(host string) string {
	switch cfg.Label {
	case "":
		name, _, _ := strings.Cut(host, ".")
		return name
	case "-":
		return ""
	}
	return cfg.Label
}

// renewal returns the watchdog's Config.
func (cfg *Config) renewal(t *telling) renewal.Config {
	r := renewal.Config{
		TTL: cfg.Lease, MaxHold: cfg.MaxHold, Margin: cfg.Margin, MaxBatch: cfg.MaxBatch, Dispatchers: cfg.Dispatchers, Rand: cfg.Rand,
	}
	if cfg.Hooks.Renewed != nil {
		r.OnBatch = t.passReport
	}
	return r
}

// replicatedConns returns the number of connections for acquisitions that replicas must have.
func (cfg Config) replicatedConns() int {
	if cfg.Replicas == 0 {
		return 0
	}
	return cfg.Connections
}
