package hold

import (
	"context"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// mutexAcquire is a call such as Lock of a Mutex, with or without a counter of its own. Its
// queue is only in this client.
type mutexAcquire struct{ attempt }

func (x *mutexAcquire) take(ctx context.Context) (*Held, error) {
	return x.waitInLine(ctx, x, locktable.Request{})
}

// Try implements locktable.Acquisition.
func (x *mutexAcquire) Try(ctx context.Context) wire.Outcome {
	var room [fieldRoom]byte
	f := appendField(room[:0], x.k.cfg.ID, x.Kind, x.Owner, x.seq)
	counter, least := x.k.calls.counterOf(x.Kind, x.Name)
	return x.try(ctx, wire.Acquire{
		Name: x.Name, Counter: counter, Field: f, Lease: x.Lease, Least: least, More: x.more(), Again: x.waiter.Again(),
	}.Call(), nil)
}

// more returns how many tokens it reserves for the waiters behind it.
func (x *mutexAcquire) more() int64 {
	if !kinds[x.Kind].handedOver || !x.Renewed {
		return 0
	}
	return x.waiter.HandOvers()
}
