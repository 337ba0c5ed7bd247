package renewal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Bounds and defaults of Config.
const (
	DefaultTTL         = 30 * time.Second // Redisson's lockWatchdogTimeout
	MinTTL             = 100 * time.Millisecond
	MaxTTL             = 30 * 24 * time.Hour
	DefaultMaxBatch    = 1600
	MaxMaxBatch        = 4096
	DefaultDispatchers = 2
	MaxDispatchers     = 1024
	minTick            = time.Millisecond
	maxTick            = 10 * time.Millisecond // of the default
	longestTick        = time.Hour             // that package wheel takes
	maxSlack           = 100 * time.Millisecond
)

// Config configures a Watchdog. The zero Config works.
type Config struct {
	// TTL is the lease that a renewal asks for: whole milliseconds from 100 ms
	// to 30 days, default 30 s. Leases are renewed every third of it.
	TTL time.Duration
	// Tick is the tick of the wheel: from 1 ms to TTL/100, at most 1 h, default
	// TTL/100 but at most 10 ms. The holder of a lease shorter than 4 ticks is told of the
	// lease's end up to a tick late. Lease.Valid is exact in any case.
	Tick time.Duration
	// Margin is the time between the end of trust and the end of the lease in the
	// store: from 2 ticks to TTL/4, default max(2 ticks + 5 ms, lease/50) for
	// each lease. It is never less than a hundredth of a lease, because clocks may
	// run at different speeds, and never more than a quarter, however short that
	// lease is.
	Margin time.Duration
	// MaxBatch limits the number of leases in one call of the Renewer: default
	// 1600, at most 4096.
	MaxBatch int
	// Dispatchers is the number of goroutines of a lane, and so of concurrent
	// calls of its Renewer: default 2, at most 1024.
	Dispatchers int
	// MaxHold is how long after its acquisition a renewed lease is lost: at least
	// TTL; default 0, no limit.
	MaxHold time.Duration
	// Rand is the source of the random part of a pause after a failure, and of
	// the phase of each lane's renewals. It must be safe for concurrent use.
	// Default: the source of math/rand/v2.
	Rand rand.Source
	// OnBatch gets a report of each batch, one after the other, on a goroutine
	// of its own. It may block, because only Close waits for it. Reports for which
	// OnBatch is too slow are dropped and counted in BatchReport.Skipped.
	OnBatch func(BatchReport)
}

// withDefaults returns cfg with every zero field set, or all its faults.
func (cfg Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(field string, value any, bound string) {
		errs = append(errs, fmt.Errorf("renewal: Config.%s is %v: it must be %s", field, value, bound))
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.TTL < MinTTL || cfg.TTL > MaxTTL || cfg.TTL%time.Millisecond != 0 {
		bad("TTL", cfg.TTL, fmt.Sprintf("whole milliseconds from %v to %v", MinTTL, MaxTTL))
		cfg.TTL = DefaultTTL // so that the other bounds can be checked
	}
	tick := min(max(cfg.TTL/100, minTick), maxTick)
	if cfg.Tick == 0 {
		cfg.Tick = tick
	}
	bound := fmt.Sprintf("TTL/100 = %v", cfg.TTL/100)
	if cfg.TTL/100 > longestTick {
		bound = longestTick.String()
	}
	if cfg.Tick < minTick || cfg.Tick > min(cfg.TTL/100, longestTick) {
		bad("Tick", cfg.Tick, fmt.Sprintf("from %v to %s", minTick, bound))
		cfg.Tick = tick
	}
	if cfg.Margin != 0 && (cfg.Margin < 2*cfg.Tick || cfg.Margin > cfg.TTL/4) {
		bad("Margin", cfg.Margin, fmt.Sprintf("from 2 ticks = %v to TTL/4 = %v", 2*cfg.Tick, cfg.TTL/4))
	}
	if cfg.MaxBatch == 0 {
		cfg.MaxBatch = DefaultMaxBatch
	}
	if cfg.MaxBatch < 1 || cfg.MaxBatch > MaxMaxBatch {
		bad("MaxBatch", cfg.MaxBatch, fmt.Sprintf("from 1 to %d", MaxMaxBatch))
	}
	if cfg.Dispatchers == 0 {
		cfg.Dispatchers = DefaultDispatchers
	}
	if cfg.Dispatchers < 1 || cfg.Dispatchers > MaxDispatchers {
		bad("Dispatchers", cfg.Dispatchers, fmt.Sprintf("from 1 to %d", MaxDispatchers))
	}
	if cfg.Rand == nil {
		cfg.Rand = global{}
	}
	if cfg.MaxHold != 0 && cfg.MaxHold < cfg.TTL {
		bad("MaxHold", cfg.MaxHold, fmt.Sprintf("0 (no limit) or at least TTL = %v", cfg.TTL))
	}
	return cfg, errors.Join(errs...)
}

// global is the source of math/rand/v2, which is safe for concurrent use.
type global struct{}

func (global) Uint64() uint64 { return rand.Uint64() }

// margin is how long before its expiry a lease of ttl stops being trusted. It
// is never more than a quarter of the lease, because a lease that is trusted
// for no time could not be acquired. It is never less than a hundredth, see
// Config.Margin.
func (cfg Config) margin(ttl time.Duration) time.Duration {
	margin := cfg.Margin
	if margin == 0 {
		margin = max(2*cfg.Tick+5*time.Millisecond, ttl/50)
	}
	return min(max(margin, ttl/100), ttl/4)
}

// slack is the width of a window (see Watchdog.floorToWindow), and so how exactly the
// package keeps times that are not at a slot.
func (cfg Config) slack() time.Duration {
	return max(min(cfg.TTL/300, maxSlack), cfg.Tick)
}

// interval is the time between two renewals of a lease: a third of the TTL, in
// whole ticks because the wheel fires only at ticks.
func (cfg Config) interval() time.Duration { return (cfg.TTL / 3).Truncate(cfg.Tick) }
