package lock

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// orphan is a field that may stand in Redis with nobody behind it.
func (c *keeper) orphan(k kind, name, field string, lease time.Duration) orphans.Field {
	f := orphans.Field{Name: name, Family: k.family(), Text: field, Lease: lease}
	if k != fairKind {
		f.Release = k.rules().release(&c.scripts, name, field)
		return f
	}
	f.Together = func(fields []string) wire.Call {
		return fairMutexes{}.release(&c.scripts, name, fields[0]).With(fields[1:])
	}
	return f
}

// owe leaves a field that stands in Redis for at most lease to the orphans.
func (c *keeper) owe(k kind, name, field string, lease time.Duration) {
	c.orphans.Add(c.orphan(k, name, field, lease))
}

// oweUnanswered is owe of a field of which it is not known whether it was, or will be, taken:
// until open, or, if that is zero, nobody knows until when.
func (c *keeper) oweUnanswered(k kind, name, field string, lease time.Duration, open time.Time) {
	c.orphans.AddUnanswered(c.orphan(k, name, field, lease), open)
}

// owed are the fields that an attempt of kind k at a lock should remove.
func (c *keeper) owed(k kind, name string) []string { return c.orphans.Named(k.family(), name) }
