package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// mutexes are the rules of a lock that one owner holds at a time: a hash {field:
// count} under its name. With or without a counter of its own.
type mutexes struct{}

func (mutexes) acquire(a *attempt, field string) wire.Call {
	counter, least := a.c.scripts.counterOf(a.kind, a.name)
	return wire.Acquire{
		Name: a.name, Counter: counter, Field: field, Lease: a.lease, Least: least, More: a.more(), Again: a.waiter.Again(),
	}.Call()
}

func (mutexes) release(s *scripts, name, field string) wire.Call {
	return wire.Release(name, field, s.publisher(name))
}

func (mutexes) reenter(h *hold, count int32, lease time.Duration) wire.Call {
	return wire.Reenter(h.name, h.field(), count, lease)
}

func (mutexes) class() carrier.Class         { return carrier.Fields }
func (mutexes) key(name string) string       { return name }
func (mutexes) channel(name string) string   { return keys.Channel(name) }
func (mutexes) orphanOutlived(*hold, Reason) {}

// notMutex is what a hash is that no exclusive lock has made.
const notMutex = "is a hash of other things than owners and counts"

func (mutexes) force(s *scripts, name string) (wire.Call, string) {
	return wire.Force(name, s.publish(name)), notMutex
}

func (mutexes) take(ctx context.Context, a *attempt) (*Held, error) {
	return a.stand(ctx, locktable.Mutexes, a, locktable.Request{})
}
