package hold

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// claim is a field that may be in Redis, or may come there, without a holder.
type claim struct {
	engine *Engine
	kind   Kind
	name   string
	field  string
	lease  time.Duration // how long it is in Redis at most
}

// releaseIfTaken releases the field if the script that takes it has taken it, may have taken it or may still
// take it. The caller of the acquisition does not get it. releaseIfTaken reports whether it released the field,
// so that the field is not used again.
func (c claim) releaseIfTaken(o wire.Outcome, a pipe.Answer) (owed bool) {
	switch {
	case o.Result == wire.Granted || a.Taken:
		c.releaseLater()
	case mayStillRun(o, a):
		c.releaseUnconfirmed(a.MayRunUntil)
	case mayHaveRun(o, a):
		// Redis has refused it, perhaps halfway. One release is enough, but the next attempts must name
		// the field: with full memory, Redis lets them write only if they have removed something.
		c.engine.Orphans.AddRefused(c.newOrphan(), time.Now().Add(min(c.lease, c.engine.cfg.Lease)))
	default:
		return false
	}
	return true
}

// mayHaveRun reports whether a request that ended so may have been carried out, or
// may still be carried out. A request that was never written cannot.
func mayHaveRun(o wire.Outcome, a pipe.Answer) bool {
	return o.Result == wire.Unknown && !a.Stamp.IsZero()
}

// mayStillRun reports whether a request that ended so may still be carried out, because no answer came.
func mayStillRun(o wire.Outcome, a pipe.Answer) bool {
	_, answered := a.Err.(redis.Error)
	return mayHaveRun(o, a) && !answered
}

// releaseLater leaves a field that is in Redis to the orphans.
func (c claim) releaseLater() { c.engine.Orphans.Add(c.newOrphan()) }

// releaseUnconfirmed is releaseLater for a field whose acquisition got no answer, and may run until then. If
// mayRunUntil is zero, that time is not known.
func (c claim) releaseUnconfirmed(mayRunUntil time.Time) {
	c.engine.Orphans.AddUnanswered(c.newOrphan(), mayRunUntil)
}

func (c claim) newOrphan() orphans.Field {
	f := orphans.Field{Name: c.name, Family: kinds[c.kind].family, Text: c.field, Lease: c.lease}
	if c.kind != Fair {
		f.Release = c.engine.releaseCall(c.kind, c.name, []byte(c.field))
		return f
	}
	f.Together = func(fields []string) wire.Call {
		return c.engine.releaseCall(c.kind, c.name, []byte(fields[0])).With(fields[1:])
	}
	return f
}

// releaseLater leaves the field of a hold that was given out to the orphans, for as
// long as Redis may have it.
func (h *Hold) releaseLater() {
	lease := max(time.Until(h.lease.Deadline())+h.engine.cfg.Watchdog.Config().Margin+h.engine.cfg.IOTimeout, h.engine.cfg.Lease, h.longestLease())
	c := claim{h.engine, h.kind, h.name, h.field(), lease}
	if open := h.mayRunFor(); h.kind == Fair && open > 0 {
		c.releaseUnconfirmed(time.Now().Add(open))
		return
	}
	c.releaseLater()
}
