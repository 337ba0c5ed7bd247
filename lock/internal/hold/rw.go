package hold

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// rwAcquire is a call such as Lock of the reader or the writer of a RWMutex.
type rwAcquire struct {
	attempt
	writer string // of a writer that waits: its name in the list of those, see RWMutex
}

func (x *rwAcquire) take(ctx context.Context) (*Held, error) {
	held, err := x.waitInLine(ctx, x, locktable.Request{Reading: x.Kind == Read})
	if x.writer != "" && (held == nil || held.h.seq != x.seq) { // a re-entry's script knows nothing of writers
		withdraw(x.k, x.Name, x.writer)
	}
	return held, err
}

// Try implements locktable.Acquisition.
func (x *rwAcquire) Try(ctx context.Context) wire.Outcome {
	f := x.field()
	if x.Kind == Read {
		return x.try(ctx, x.read(f), nil)
	}
	if x.Wait && !x.k.cfg.ReadersFirst && x.waiter.Waited() && x.writer == "" {
		x.writer = f // it waits: new readers wait behind it
	}
	if x.writer == "" {
		return x.try(ctx, x.write(f), nil)
	}
	// A writer that leaves has withdrawn; with Config.Replicas that went over another
	// connection, and this request may have announced it after that.
	k, name, writer := x.k, x.Name, x.writer
	return x.try(ctx, x.write(f), func() { withdraw(k, name, writer) })
}

func (x *rwAcquire) read(field string) wire.Call {
	writer := ""
	if h := x.k.Table.Own(x.Name, x.Owner, locktable.Writing); h != nil {
		writer = h.field()
	}
	return wire.Read{
		Name: x.Name, Field: field, Lease: x.Lease, Writer: writer, First: x.k.cfg.ReadersFirst, Publish: x.k.calls.publish(x.Name),
	}.Call()
}

func (x *rwAcquire) write(field string) wire.Call {
	announced := time.Duration(0)
	if x.writer != "" {
		announced = announcement(&x.k.cfg)
	}
	return wire.Write{
		Name: x.Name, Field: field, Lease: x.Lease, Waiting: x.writer, Announced: announced, Publish: x.k.calls.publish(x.Name),
	}.Call()
}

// RefuseDeadlock implements locktable.Acquisition.
func (x *rwAcquire) RefuseDeadlock(*Hold) wire.Outcome { return wire.Outcome{Result: wire.Upgrade} }

// withdraw tells readers that a writer no longer waits.
func withdraw(k *Keeper, name, writer string) {
	k.Orphans.Send(name, wire.Withdraw(name, writer, k.calls.publisher(name)), time.Now().Add(announcement(&k.cfg)))
}

// announcement is how long the announcement of a waiting writer keeps readers out. The
// writer repeats it in each MaxPoll.
func announcement(cfg *Config) time.Duration { return 2*cfg.MaxPoll + cfg.IOTimeout }
