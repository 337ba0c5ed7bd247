package hold

import (
	"context"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// mutexAcquire is a call of Lock and its like of a Mutex, with or without a counter of its
// own, whose queue is in this client alone.
type mutexAcquire struct{ attempt }

func (x *mutexAcquire) take(ctx context.Context) (*Held, error) {
	return x.stand(ctx, locktable.Mutexes, x, locktable.Request{})
}

// Try implements locktable.Acquisition.
func (x *mutexAcquire) Try(ctx context.Context) locktable.Reply {
	f := x.field()
	counter, least := x.k.calls.counterOf(x.Kind, x.Name)
	return x.try(ctx, f, wire.Acquire{
		Name: x.Name, Counter: counter, Field: f, Lease: x.Lease, Least: least, More: x.more(), Again: x.waiter.Again(),
	}.Call(), nil)
}

// more is how many tokens it reserves for the waiters behind it.
func (x *mutexAcquire) more() int64 {
	if x.Kind != Mutex || !x.Renewed {
		return 0
	}
	return x.waiter.HandOvers()
}
