package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/pipe"
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
	return x.a.stand(ctx, x, locktable.Request{Needs: needs})
}

// Channel implements locktable.Acquisition.
func (x *permitAcquire) Channel() string { return x.a.Channel() }

// Refusal implements locktable.Acquisition.
func (x *permitAcquire) Refusal(time.Duration) error {
	return x.a.k.errors.Few(x.a.Name, x.a.Permits, 0)
}

// Try implements locktable.Acquisition. The answer says how many permits are free then, or
// when the next one expires.
func (x *permitAcquire) Try(ctx context.Context) locktable.Reply {
	a := &x.a
	k, name, lease := a.k, a.Name, a.Lease
	if !k.Orphans.Begin() {
		return a.got(nil, k.errors.Closed(name, nil))
	}
	f, ids := a.field(), permitIDs(a.Owner)
	n := ids.n()
	began := time.Now()
	call := wire.PermitTake{
		Name: name, IDs: ids.Text, N: n, Fewer: a.Fewer, Lease: lease, Now: began, Publish: k.calls.publish(name),
	}.Call().With(k.Orphans.Named(familyPermits, name))
	// If the caller leaves before the answer, permits that it brings go back.
	late := func(ans pipe.Answer) {
		defer k.Orphans.End()
		switch taken, _, _, err := k.calls.readPermits(name, ans); {
		case taken > 0 || ans.Taken:
			k.owe(Permits, name, f, lease)
		case k.calls.mayHaveRun(ans, err):
			k.oweUnanswered(Permits, name, f, lease, ans.Open)
		}
	}
	k.Counts.Tries.Add(1)
	ans := k.Network.Send(ctx, name, call, late)
	if !ans.Left {
		defer k.Orphans.End()
	}
	taken, free, next, err := k.calls.readPermits(name, ans)
	switch {
	case err != nil:
		if ans.Taken || k.calls.mayHaveRun(ans, err) {
			k.oweUnanswered(Permits, name, f, lease, ans.Open)
			a.renew()
		}
		return a.got(nil, err)
	case taken == 0:
		r := a.got(nil, k.errors.Few(name, n, free))
		r.Said.Left = free
		if next > 0 {
			r.Said.TTL = next
		}
		return r
	case taken != n && !a.Fewer:
		a.retire(time.Time{}) // a copy of this request came before, and what it took is partly gone
		return a.got(nil, k.errors.Unknown("acquire", name, fmt.Errorf("%d permits instead of %d", taken, n)))
	}
	a.Owner = ids.first(taken).asOwner()
	ans.Stamp = began // what Redis was told counts from then, not from when it was sent
	r := a.got(a.grant(ctx, ans, wire.Granted{}))
	r.Said.Left = free
	return r
}
