package wheel

import (
	"errors"
	"fmt"
	"time"
)

// Config sets up a [Wheel]. The zero Config works: a zero field means the
// default that its comment names. A value out of range is an error of [New];
// nothing is clamped.
type Config struct {
	// Tick is the length of a tick. Timers fire at multiples of it, counted
	// from New: never before their deadline, and at most one tick after it,
	// plus the delay of the scheduler. From 1 µs to 1 h, default 10 ms.
	Tick time.Duration

	// Slots is the number of buckets in one revolution: a power of two from 1
	// to 1<<20, default 1024. A timer that is further away than Tick x Slots is
	// filed once more when it comes near. That costs tens of nanoseconds, so the
	// default suits almost every program. More slots cost more memory and time. A
	// slot takes 16 bytes in each of 16 shards. The first Schedule of a shard
	// makes its slots, which takes 20 µs for 1024 slots and 50 ms for 1<<20. With
	// 1<<20 slots, a wake-up takes up to a millisecond.
	Slots int

	// MaxPending is how many timers may be pending at once. A further timer is
	// refused with ErrTooManyPending. At least 1; zero means no limit, and costs
	// nothing.
	MaxPending int

	// SlowCallback is how long a callback may take before it is counted and
	// OnSlow is called. At least 1 ns, default 100 ms. While a callback runs,
	// other timers wait, unless an Executor runs the callbacks.
	SlowCallback time.Duration

	// Executor, if set, runs the callbacks instead of the driver goroutine. The
	// driver calls Executor with no lock held. Other timers wait for it, so it
	// should not block. It must call run at most once. If Executor returns an
	// error, it must not call run, and OnError gets ErrRefused. If it returns nil,
	// it must call run. Otherwise Done never closes, and an Every whose call it was
	// never calls again.
	Executor func(run func()) error

	// OnError is called for every callback that panicked, called runtime.Goexit
	// or was refused by the Executor, on the goroutine where that happened. If
	// that is the driver, other timers wait for it, so it should not block. The
	// default logs to slog.Default, at most 5 times a minute, and does not block.
	// A panic in OnError itself is not recovered.
	OnError func(*CallbackError)

	// OnSlow is called for every callback that took longer than SlowCallback,
	// after the callback has returned and on its goroutine, so it should not
	// block. Stats.Running shows a callback that has not returned. The default
	// logs to slog.Default, at most 5 times a minute, and does not block.
	OnSlow func(t *Timer, took time.Duration)
}

const (
	minTick  = time.Microsecond
	maxTick  = time.Hour
	maxSlots = 1 << 20
)

// withDefaults returns c with its zero fields filled in, or an error with every fault of c.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	fault := func(field string, value any, bound string) {
		faults = append(faults, fmt.Errorf("wheel: Config.%s is %v: it must be %s", field, value, bound))
	}
	if c.Tick == 0 {
		c.Tick = 10 * time.Millisecond
	}
	if c.Tick < minTick || c.Tick > maxTick {
		fault("Tick", c.Tick, fmt.Sprintf("from %v to %v", minTick, maxTick))
	}
	if c.Slots == 0 {
		c.Slots = 1024
	}
	if c.Slots < 1 || c.Slots > maxSlots || c.Slots&(c.Slots-1) != 0 {
		fault("Slots", c.Slots, fmt.Sprintf("a power of two from 1 to %d", maxSlots))
	}
	if c.MaxPending < 0 {
		fault("MaxPending", c.MaxPending, "at least 1, or 0 for no limit")
	}
	if c.SlowCallback == 0 {
		c.SlowCallback = 100 * time.Millisecond
	}
	if c.SlowCallback < 0 {
		fault("SlowCallback", c.SlowCallback, "at least 1ns")
	}
	if c.OnError == nil {
		c.OnError = logErrors()
	}
	if c.OnSlow == nil {
		c.OnSlow = logSlow()
	}
	return c, errors.Join(faults...)
}
