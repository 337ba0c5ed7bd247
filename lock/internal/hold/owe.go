package hold

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// orphan returns a field that may be in Redis without a holder.
func (k *Keeper) orphan(kind Kind, name, field string, lease time.Duration) orphans.Field {
	f := orphans.Field{Name: name, Family: kinds[kind].family, Text: field, Lease: lease}
	if kind != Fair {
		f.Release = k.calls.release(kind, name, []byte(field))
		return f
	}
	f.Together = func(fields []string) wire.Call {
		return k.calls.release(kind, name, []byte(fields[0])).With(fields[1:])
	}
	return f
}

// owe leaves a field that is in Redis for at most lease to the orphans.
func (k *Keeper) owe(kind Kind, name, field string, lease time.Duration) {
	k.Orphans.Add(k.orphan(kind, name, field, lease))
}

// oweUnanswered is owe for a field that may have been taken or may still be taken. It may be
// taken until open. If open is zero, that time is not known.
func (k *Keeper) oweUnanswered(kind Kind, name, field string, lease time.Duration, open time.Time) {
	k.Orphans.AddUnanswered(k.orphan(kind, name, field, lease), open)
}

// orphan leaves the field of a hold that was given out to the orphans, for as
// long as Redis may have it.
func (h *Hold) orphan() {
	lease := max(time.Until(h.lease.Deadline())+h.k.cfg.Watchdog.Config().Margin+h.k.cfg.IOTimeout, h.k.cfg.Lease, h.longestLease())
	if open := h.openFor(); h.kind == Fair && open > 0 {
		h.k.oweUnanswered(h.kind, h.name, h.field(), lease, time.Now().Add(open))
		return
	}
	h.k.owe(h.kind, h.name, h.field(), lease)
}

// orphanCopy leaves the field of a hold that was released to the orphans, if a copy of a request
// of its waiter may still take it again. A waiter of a FairMutex keeps its field after a request
// that was not answered. While it is held, the field is nobody's orphan.
func (h *Hold) orphanCopy() {
	if h.kind == Fair && h.openFor() > 0 {
		h.orphan()
	}
}
