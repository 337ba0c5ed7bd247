package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// rwLocks are the rules of both halves.
type rwLocks struct{}

func (rwLocks) key(name string) string     { return name }
func (rwLocks) channel(name string) string { return keys.RWChannel(name) }

func (rwLocks) force(s *scripts, name string) (wire.Call, string) {
	return wire.RWForce(name, s.publish(name)), "is no read-write lock"
}

// readers are the rules of the lock for reading.
type readers struct{ rwLocks }

func (readers) acquire(a *attempt, field string) wire.Call {
	c, writer := a.c, ""
	if h := c.table.Own(a.name, a.owner, locktable.Writing); h != nil {
		writer = h.field()
	}
	return wire.Read{
		Name: a.name, Field: field, Lease: a.lease, Writer: writer, First: c.cfg.ReadersFirst, Publish: c.scripts.publish(a.name),
	}.Call()
}

func (readers) release(s *scripts, name, field string) wire.Call {
	return wire.ReadRelease(name, field, s.publisher(name))
}

func (readers) reenter(h *hold, count int32, lease time.Duration) wire.Call {
	return wire.ReadReenter(h.name, h.field(), count, lease)
}

func (readers) class() carrier.Class { return carrier.Readers }

// orphanOutlived: other readers, or a write hold of the owner, keep the key.
func (readers) orphanOutlived(h *hold, why Reason) {
	if why == Expired || why == MaxHold {
		h.orphan()
	}
}

// writers are the rules of the lock for writing.
type writers struct{ rwLocks }

func (writers) acquire(a *attempt, field string) wire.Call {
	announced := time.Duration(0)
	if a.writer != "" {
		announced = announcement(a.c.cfg)
	}
	return wire.Write{
		Name: a.name, Field: field, Lease: a.lease, Waiting: a.writer, Announced: announced, Publish: a.c.scripts.publish(a.name),
	}.Call()
}

func (writers) release(s *scripts, name, field string) wire.Call {
	return wire.WriteRelease(name, field, s.publisher(name))
}

func (writers) reenter(h *hold, count int32, lease time.Duration) wire.Call {
	return wire.Reenter(h.name, h.field(), count, lease)
}

func (writers) class() carrier.Class { return carrier.Fields }

// orphanOutlived: a reading of the same owner keeps the key, and the field would keep
// all others out for as long. When nothing could be renewed, the others end too.
func (writers) orphanOutlived(h *hold, why Reason) {
	if why == Expired || why == MaxHold || why == TrustEnded && h.c.table.Own(h.name, h.owner, locktable.Reading) != nil {
		h.orphan()
	}
}

func (rwLocks) take(ctx context.Context, a *attempt) (held *Held, err error) {
	k, reads := locktable.ReadersWriters, a.kind == readKind
	if reads && a.c.cfg.ReadersFirst {
		k = locktable.ReadersFirst
	}
	held, err = a.stand(ctx, k, rwAcquire{a}, locktable.Request{Reading: reads})
	if a.writer != "" && (held == nil || held.h.seq != a.seq) { // a re-entry's script knows nothing of writers
		withdraw(a.c, a.name, a.writer)
	}
	return held, err
}

// rwAcquire is a call of Lock and its like of a RWMutex.
type rwAcquire struct{ *attempt }

func (x rwAcquire) Try(ctx context.Context) locktable.Reply {
	if a := x.attempt; a.kind == writeKind && a.wait && !a.c.cfg.ReadersFirst && a.waiter.Waited() && a.writer == "" {
		a.writer = a.field() // it waits: new readers wait behind it
	}
	return x.attempt.Try(ctx)
}

func (x rwAcquire) Barred(*hold) error {
	return fmt.Errorf("%w and cannot also write, because it would wait for itself: unlock the read lock of %q first", ErrUpgrade, x.name)
}

// withdraw tells readers that a writer waits no more.
func withdraw(c *keeper, name, writer string) {
	c.orphans.Send(name, wire.Withdraw(name, writer, c.scripts.publisher(name)), time.Now().Add(announcement(c.cfg)))
}

// announcement is how long a writer that waits keeps readers out before it must
// say so again, which it does each MaxPoll.
func announcement(cfg Config) time.Duration { return 2*cfg.MaxPoll + cfg.IOTimeout }
