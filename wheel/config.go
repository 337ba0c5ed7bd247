package wheel

import (
	"errors"
	"fmt"
	"log/slog"
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
	// filed once more when it comes near, which costs tens of nanoseconds, so
	// the default suits almost every program. A large ring costs more elsewhere:
	// 16 bytes per slot in each of 16 shards, made at the first Schedule of each
	// (20 µs with 1024 slots, 50 ms with 1<<20), and up to a millisecond per
	// wake-up with 1<<20.
	Slots int

	// MaxPending is how many timers may be pending at once. One more is refused
	// with ErrTooManyPending. At least 1; zero means no limit, and costs
	// nothing.
	MaxPending int

	// SlowCallback is how long a callback may take before it is counted and
	// OnSlow is called. At least 1 ns, default 100 ms. While a callback runs,
	// other timers wait, unless an Executor runs the callbacks.
	SlowCallback time.Duration

	// Executor, if set, runs the callbacks instead of the driver goroutine. The
	// driver calls it with no lock held, so it should not block. It must call
	// run at most once. If it returns an error, it will not call run, and
	// OnError gets ErrRefused. It must call every run that it accepts, or Done
	// never closes.
	Executor func(run func()) error

	// OnError is called for every callback that panicked, called runtime.Goexit
	// or was refused by the Executor, on the goroutine where that happened. The
	// default logs to slog.Default. A panic in the hook itself is not
	// recovered.
	OnError func(*CallbackError)

	// OnSlow is called for every callback that took longer than SlowCallback,
	// after it returned and where it ran. See Stats.Running for one that has
	// not returned. The default logs to slog.Default.
	OnSlow func(t *Timer, took time.Duration)
}

const (
	minTick  = time.Microsecond
	maxTick  = time.Hour
	maxSlots = 1 << 20
)

// withDefaults returns c with its zero fields filled in, or every fault of it.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	fault := func(field string, value any, bound string) {
		faults = append(faults, fmt.Errorf("wheel: Config.%s is %v, it must be %s", field, value, bound))
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
		c.OnError = logError
	}
	if c.OnSlow == nil {
		c.OnSlow = logSlow
	}
	return c, errors.Join(faults...)
}

func logError(err *CallbackError) {
	slog.Error("wheel: a callback failed", "error", err, "stack", string(err.Stack))
}

func logSlow(t *Timer, took time.Duration) {
	slog.Warn("wheel: a callback was slow", "task", nameOf(t), "took", took)
}
