package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock"
)

// Bounds and defaults of Config.
const (
	DefaultLook      = lock.DefaultLease / 3 // 10 s
	MinLook          = 100 * time.Millisecond
	MaxLook          = time.Hour
	DefaultAtOnce    = 64
	MaxAtOnce        = 512
	DefaultPerSecond = 10_000
	MaxPerSecond     = 1_000_000
)

// Config configures a Keeper. Taken is required. Every other field that is zero
// has its default. If settings are out of their bounds, New returns one error that
// names every such setting, its value and its bounds.
type Config struct {
	// Taken is called when the Keeper has taken a name. held is the lock. ctx
	// carries its owner and ends when the lock is lost, when the name is dropped
	// or given up, and at Close. context.Cause(ctx) is then a *lock.LostError or
	// ErrGivenUp.
	//
	// Taken may return at once, and the name stays kept. Or Taken may run for as
	// long as ctx: the name is not given back before Taken has returned. Every
	// call has a goroutine of its own. A panic ends the process, as in any
	// goroutine. Taken must not unlock held, because the Keeper does that.
	Taken func(ctx context.Context, name string, held *lock.Held)

	// Ended, if set, is called once for every call of Taken, after ctx has ended
	// and Taken has returned. err is nil if the name is given up. The lock is then
	// still held and renewed, and is released when Ended has returned, so Ended
	// may write what the next holder reads. If the lock is lost, also after the name
	// was given up and before Taken returned, err is the *lock.LostError, and another
	// process may have the lock. A lock that is lost while Ended runs is not reported
	// again. Every call has a goroutine of its own.
	Ended func(name string, err error)

	// Most limits how many names this Keeper keeps at once, with those that it is
	// giving back: at least 1; zero means no limit. SetMost changes it.
	Most int

	// Share, if set, is the name of the set of names, which several Keepers share:
	// 1 to 1000 bytes. Each of them then keeps at most its part, rounded up, of the
	// names that it wants, and gives up what is more. Every Keeper holds one of 64
	// locks of its client, Share + ":sharer:0" to ":sharer:63", and counts them once
	// in a Look, and when one is released. See "A fair share" in the comment of the
	// package. A Keeper keeps no name until it has counted for the first time.
	// Default: no share.
	Share string

	// Look is the longest time between two looks at a name that another owner
	// holds: from 100 ms to an hour, default 10 s. The Keeper draws each time at
	// random from 7/10 of Look to Look, and looks sooner if the lease of the holder
	// ends sooner. While the messages of a name come, it is four times as long, but not
	// if the Keeper's last try found a lock of another library, which publishes none. So Look
	// limits how late a release is noticed whose message did not come. A name whose
	// try failed is asked for again within a Look, or within 10 s, unless all names
	// share one probe. Sharers are counted once in a Look.
	Look time.Duration

	// AtOnce limits how many tries are under way at once: from 1 to 512, default 64.
	AtOnce int

	// PerSecond limits the tries per second: from 1 to 1,000,000, default 10,000.
	// After a quiet time, a twentieth of PerSecond may be sent at once.
	PerSecond int
}

// withDefaults returns cfg with its defaults, or an error that names every fault.
func (cfg Config) withDefaults() (Config, error) {
	var faults []error
	if cfg.Taken == nil {
		faults = append(faults, errors.New("keeper: Config.Taken is nil: set the function that is called when a name is taken"))
	}
	if cfg.Most < 0 {
		faults = append(faults, fmt.Errorf("keeper: Config.Most is %d: it must be at least 1, or 0 for no limit", cfg.Most))
	}
	if len(cfg.Share) > 1000 {
		faults = append(faults, fmt.Errorf("keeper: Config.Share has %d bytes: it must have at most 1000", len(cfg.Share)))
	}
	if cfg.Look == 0 {
		cfg.Look = DefaultLook
	}
	if cfg.Look < MinLook || cfg.Look > MaxLook {
		faults = append(faults, fmt.Errorf("keeper: Config.Look is %v: it must be from %v to %v", cfg.Look, MinLook, MaxLook))
	}
	count := func(name string, value *int, byDefault, most int) {
		if *value == 0 {
			*value = byDefault
		}
		if *value < 1 || *value > most {
			faults = append(faults, fmt.Errorf("keeper: Config.%s is %d: it must be from 1 to %d", name, *value, most))
		}
	}
	count("AtOnce", &cfg.AtOnce, DefaultAtOnce, MaxAtOnce)
	count("PerSecond", &cfg.PerSecond, DefaultPerSecond, MaxPerSecond)
	return cfg, errors.Join(faults...)
}
