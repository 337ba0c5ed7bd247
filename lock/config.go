package lock

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
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

// Config configures a Client. The zero Config works.
type Config struct {
	// Lease is the TTL of a renewed lock: whole milliseconds from 100 ms to 30
	// days, default 30 s. Locks are renewed every third of it. When the process
	// dies, its locks are free after at most this time.
	Lease time.Duration
	// KeyPrefix is put before the name of a lock to make its key. Clients that
	// share locks must have the same prefix. Each prefix has its own counter of
	// fencing tokens. So if two prefixes with other names make the same key
	// ("a:" with "b:x" and "a:b:" with "x"), the tokens of its holders need not
	// rise from one prefix to the other. A prefix with a brace must have a hash
	// tag, as "{app}:" has: then all its locks are in one slot of a Cluster.
	KeyPrefix string
	// MaxPoll limits the time between two tries of a waiter while it is not
	// certain that messages of releases reach it: from 1 ms to an hour, default
	// 5 s. While the server answers pings on the pub/sub connection, a waiter
	// of a Mutex tries when the lease that it has seen ends, and at least every
	// 6 x MaxPoll. So it notices a key that somebody deletes without a message.
	// While a waiter waits for a Mutex of its own client, it sends nothing, and
	// the client asks about the hold, together with others, every MaxPoll.
	MaxPoll time.Duration
	// IOTimeout limits one round trip, including a dial. A connection whose
	// oldest request is older is closed. From 1 ms to Lease/10, default min(1
	// s, Lease/10).
	IOTimeout time.Duration
	// UnlockTimeout limits Unlock, which sends again while the outcome is
	// unknown. It also limits how long Close with ReleaseOnClose tries a server
	// that does not answer. From IOTimeout to an hour, default 3 s.
	UnlockTimeout time.Duration
	// ReadersFirst lets new readers of a RWMutex in while a writer waits, as
	// Redisson does. A stream of readers then keeps writers out as long as it
	// lasts. By default new readers wait.
	ReadersFirst bool
	// FailFast makes Lock return ErrUnknown at the first unknown outcome. By
	// default Lock tries again until its context ends.
	FailFast bool
	// ReleaseOnClose makes Close delete the locks that are still held when its
	// context ends. By default they are left to their TTL, so that no other
	// owner enters a critical section that may still run.
	ReleaseOnClose bool
	// DropForgotten ends the renewal of a lock that was not unlocked and whose
	// Held the garbage collector has found unreachable. Logger gets a warning,
	// and the lock is lost when its lease ends. By default such a lock is
	// renewed as long as the process lives. Keep the Held while you hold the
	// lock: its channel or its context does not keep it. It costs about 150
	// bytes per lock.
	DropForgotten bool
	// MaxHold ends every renewed lock this long after it was acquired (reason
	// MaxHold): at least Lease, default 0, no limit.
	MaxHold time.Duration
	// Margin is how long before Redis' own expiry a holder is told that its
	// lock is lost: by default lease/50, which is 600 ms for a lease of 30 s,
	// but at least Lease/50 + 5 ms or 25 ms, whichever is less. From Lease/50 or
	// 20 ms, whichever is less, to Lease/4. It is never more than a quarter of a
	// lease, however short that lease is.
	Margin time.Duration
	// MaxBatch limits the number of locks that are renewed in one round trip:
	// default 1600, at most 4096. It is sent as script calls of 128 locks, each
	// of which occupies Redis for about half a millisecond.
	MaxBatch int
	// Dispatchers is the number of connections for renewal to each server, and
	// so of batches under way there: default 2, at most 1024.
	Dispatchers int
	// Connections is the number of pipelined connections for commands to each
	// server: default 2, at most 64.
	Connections int
	// Replicas makes each acquisition wait until this many replicas of the
	// server have it (Redis' WAIT): default 0, at most 100. If fewer have it,
	// the lock is released again and the error is ErrNotReplicated. A lock then
	// survives a failover to one of those replicas for its first lease;
	// re-entry and renewal do not wait for replicas. Acquisitions use
	// Connections more connections, each of which waits for one group at a
	// time. Locks are not handed from owner to owner within the client.
	Replicas int
	// ReplicaTimeout limits the wait for Replicas: whole milliseconds from 1 ms
	// to Lease/10, default IOTimeout. The lease of the lock is shorter by the
	// time of this wait.
	ReplicaTimeout time.Duration
	// Rand is the source of the random part of pauses, polls and the phase of
	// renewals, which keeps clients apart. It must be safe for concurrent use. A
	// test that gives one with a seed repeats them. Default: the source of
	// math/rand/v2. The client's ID does not come from it.
	Rand rand.Source
	// Hooks are functions that are called at the events of a lock.
	Hooks Hooks
	// Logger gets what nobody else could tell; default slog.Default(). Losses are
	// told to the holder and to Hooks.Lost, and counted in Stats. The keys do not
	// change:
	//
	//	a Held was dropped without Unlock      warning  name
	//	a hook panicked                        error    name, panic, stack
	//	no connection to Redis                 warning  server, error; once until there is one
	//	connected to Redis again               info     server
	//	the server was replaced (a failover)   warning  old, new
	//	pub/sub failed                         warning  server, error; once until it works again
	//	pub/sub works again                    info     server
	//	renewal is refused                     warning  server, error, advice; once until one works
	//	                                                again, and once in a Lease
	//	PUBLISH is refused                     warning  server, error; once
	//	still waiting for a lock that this
	//	client itself holds                    warning  name, waited
	//	how releases are published was chosen  info     command, versions; when it changes
	//	sharded pub/sub is refused             warning  server, command, error; once
	//	this server does not tell its version  warning  server, error; once
	//	this Redis evicts keys                 warning  server, maxmemory_policy, maxmemory
	//	this Redis ends connections that ask
	//	for INFO, or does not answer           warning  server, error; once
	//	TIME is refused, so requests have no
	//	time limit                             warning  server, error; once
	//	requests come too late, as if two
	//	servers answered at one address        warning  server; once
	//	the server's clock was set             warning  server, by; once in 10 minutes
	//	Check has advice                       info     server, advice, error; for each
	//
	// server is an address. That of a pool is the address that its last dial has
	// connected to, or could not. A pool whose Dial has no context is called "the
	// pool's"; give its client a Logger with an attribute of its own, if there are several.
	Logger *slog.Logger
}

// withDefaults returns cfg with every zero field set, or all its faults.
func (cfg Config) withDefaults() (Config, error) {
	var errs []error
	between := func(field string, d *time.Duration, standard, least, most time.Duration) {
		if *d == 0 {
			*d = standard
		}
		if *d < least || *d > most {
			errs = append(errs, fmt.Errorf("lock: Config.%s is %v: it must be from %v to %v", field, *d, least, most))
			*d = standard // so that bounds that depend on it make sense
		}
	}
	between("Lease", &cfg.Lease, DefaultLease, MinLease, MaxLease)
	if cfg.Lease%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("lock: Config.Lease is %v: it must be whole milliseconds", cfg.Lease))
		cfg.Lease = DefaultLease
	}
	between("MaxPoll", &cfg.MaxPoll, DefaultMaxPoll, time.Millisecond, time.Hour)
	between("IOTimeout", &cfg.IOTimeout, min(DefaultIOTimeout, cfg.Lease/10), time.Millisecond, cfg.Lease/10)
	between("UnlockTimeout", &cfg.UnlockTimeout, max(DefaultUnlockTimeout, cfg.IOTimeout), cfg.IOTimeout, time.Hour)
	if cfg.Connections == 0 {
		cfg.Connections = DefaultConnections
	}
	if cfg.Connections < 1 || cfg.Connections > maxConnections {
		errs = append(errs, fmt.Errorf("lock: Config.Connections is %d: it must be from 1 to %d", cfg.Connections, maxConnections))
		cfg.Connections = DefaultConnections
	}
	if cfg.Replicas < 0 || cfg.Replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("lock: Config.Replicas is %d: it must be from 0 to %d", cfg.Replicas, maxReplicas))
		cfg.Replicas = 0
	}
	if cfg.Replicas != 0 {
		between("ReplicaTimeout", &cfg.ReplicaTimeout, max(cfg.IOTimeout.Truncate(time.Millisecond), time.Millisecond), time.Millisecond, cfg.Lease/10)
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

// forRenewal sets the fields that the watchdog uses, and returns their faults: in the words of
// this package, which has a Lease and no Tick.
func (cfg *Config) forRenewal() (errs []error) {
	tick := min(max(cfg.Lease/100, time.Millisecond), 10*time.Millisecond) // the watchdog's default
	if cfg.Margin != 0 && (cfg.Margin < 2*tick || cfg.Margin > cfg.Lease/4) {
		errs = append(errs, fmt.Errorf("lock: Config.Margin is %v: it must be from %v to Lease/4 = %v", cfg.Margin, 2*tick, cfg.Lease/4))
	}
	if cfg.MaxHold != 0 && cfg.MaxHold < cfg.Lease {
		errs = append(errs, fmt.Errorf("lock: Config.MaxHold is %v: it must be 0 (no limit) or at least Lease = %v", cfg.MaxHold, cfg.Lease))
	}
	for _, field := range []struct {
		name           string
		n              *int
		standard, most int
	}{
		{"MaxBatch", &cfg.MaxBatch, renewal.DefaultMaxBatch, renewal.MaxMaxBatch},
		{"Dispatchers", &cfg.Dispatchers, renewal.DefaultDispatchers, renewal.MaxDispatchers},
	} {
		if *field.n == 0 {
			*field.n = field.standard
		}
		if *field.n < 1 || *field.n > field.most {
			errs = append(errs, fmt.Errorf("lock: Config.%s is %d: it must be from 1 to %d", field.name, *field.n, field.most))
			*field.n = field.standard
		}
	}
	return errs
}

// renewal is what the watchdog gets of it.
func (cfg *Config) renewal() renewal.Config {
	return renewal.Config{
		TTL: cfg.Lease, MaxHold: cfg.MaxHold, Margin: cfg.Margin, MaxBatch: cfg.MaxBatch, Dispatchers: cfg.Dispatchers,
		OnBatch: cfg.renewed(), Rand: cfg.Rand,
	}
}

// replicatedConns is how many connections carry what replicas must have.
func (cfg Config) replicatedConns() int {
	if cfg.Replicas == 0 {
		return 0
	}
	return cfg.Connections
}
