package hold

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/watch"
)

// What a lock of several members, or one that is taken again, needs of the hold of one.

// Watch ends when x does, see Done.
func (x *Held) Watch() *watch.Watch { return &x.watched().Watch }

// Renewed reports whether x needs renewal.
func (x *Held) Renewed() bool {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return x.renewed
}

// MaxHoldEnd returns when Config.MaxHold ends the hold, or zero if it does not.
func (h *Hold) MaxHoldEnd() time.Time { return h.lease.MaxHoldEnd() }

// Valid reports whether the hold is one, as far as the clock can tell.
func (h *Hold) Valid() bool { return h.lease.Valid() }

// InBackground runs f, which must be short once the client is closed, on a goroutine that Close
// waits for.
func (x *Held) InBackground(role string, f func()) {
	k, name := x.h.k, x.h.name
	k.Table.Begin(name, false)
	go k.cfg.Cast.As(role, func() {
		defer k.Table.End(name)
		f()
	})()
}
