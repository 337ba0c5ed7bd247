package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// permitAcquire is a call of PermitSemaphore.Acquire and its like.
type permitAcquire struct {
	locktable.Unowned[*Hold]
	a attempt
}

func (x *permitAcquire) take(ctx context.Context) (*Held, error) {
	needs := x.a.Permits
	if x.a.Fewer {
		needs = 1
	}
	return x.a.waitInLine(ctx, x, locktable.Request{Needs: needs})
}

// Channel implements locktable.Acquisition.
func (x *permitAcquire) Channel() string { return x.a.Channel() }

// Refusal implements locktable.Acquisition.
func (x *permitAcquire) Refusal(time.Duration) wire.Outcome {
	return wire.Outcome{Result: wire.Refused, Wanted: x.a.Permits}
}

// Try implements locktable.Acquisition.
func (x *permitAcquire) Try(ctx context.Context) wire.Outcome {
	a := &x.a
	k := a.k
	if !k.Orphans.Begin() {
		return wire.Outcome{Result: wire.Closed}
	}
	ids := permitIDs(a.Owner)
	n := ids.n()
	began := time.Now()
	ans := a.send(ctx, wire.PermitTake{
		Name: a.Name, IDs: ids.Text, N: n, Fewer: a.Fewer, Lease: a.Lease, Now: began, Publish: k.calls.publish(a.Name),
	}.Call(), a.lateHandler(wire.ReadPermits, nil))
	if !ans.Left {
		defer k.Orphans.End()
	}
	o := k.read("acquire", ans, wire.ReadPermits)
	o.Wanted = n
	switch {
	case o.Result != wire.Granted:
		return a.failTry(o, ans)
	case o.Taken != n && !a.Fewer:
		a.retire(time.Time{}) // a copy of this request came before, and what it took is partly gone
		return wire.Outcome{Result: wire.Unknown, Op: "acquire", Cause: fmt.Errorf("%d permits instead of %d", o.Taken, n)}
	}
	a.Owner = ids.first(o.Taken).asOwner()
	ans.Stamp = began // what Redis was told counts from then, not from when it was sent
	return a.grant(ctx, ans, o)
}
