package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/renewal"
)

// attempt is one outermost acquisition that runs. It uses one field as long as
// Redis answers. After an unknown outcome it takes a new field, and package
// orphans releases the old one. Only a waiter of a FairMutex keeps its field.
type attempt struct {
	Wanted
	engine *Engine
	seq    uint64
	lane   network.Lane             // of the server that had the lock's key before the last request was sent
	waiter *locktable.Waiter[*Hold] // of its queue
	held   *Held                    // what the waiter got
}

// field is the field that the hold will have.
func (a *attempt) field() string { return fieldOf(a.engine.cfg.ID, a.Kind, a.Owner, a.seq) }

// claim is a's claim to its field.
func (a *attempt) claim() claim { return claim{a.engine, a.Kind, a.Name, a.field(), a.Lease} }

// try sends once a script that takes a's lock. If answered is not nil, it gets the answer, also when
// the caller has left before it came.
func (a *attempt) try(ctx context.Context, call wire.Call, answered func(o wire.Outcome, ans pipe.Answer, left bool)) wire.Outcome {
	if !a.engine.Orphans.Begin() {
		return wire.Outcome{Result: wire.Closed}
	}
	ans := a.send(ctx, call, a.lateHandler(wire.ReadAcquire, answered))
	if !ans.IsAbandoned {
		defer a.engine.Orphans.End()
	}
	o := a.engine.read("acquire", ans, wire.ReadAcquire)
	if answered != nil && !ans.IsAbandoned {
		answered(o, ans, false)
	}
	if o.Result != wire.Granted {
		return a.failTry(o, ans)
	}
	return a.grant(ctx, ans, o)
}

// lateHandler returns the function that gets the answer when the caller has left. It gives back
// what the script has taken.
func (a *attempt) lateHandler(
	read func(op string, reply resp.Reply) wire.Outcome, answered func(o wire.Outcome, ans pipe.Answer, left bool),
) func(pipe.Answer) {
	k, name, kind, lease, own, seq := a.engine, a.Name, a.Kind, a.Lease, a.Owner, a.seq
	return func(ans pipe.Answer) {
		defer k.Orphans.End()
		o := k.read("acquire", ans, read)
		if answered != nil {
			answered(o, ans, true)
		}
		claim{k, kind, name, fieldOf(k.cfg.ID, kind, own, seq), lease}.releaseIfTaken(o, ans)
	}
}

// send sends once a script that takes a's field and removes the fields whose release is pending. It
// is called after Orphans.Begin. If the caller has left, late calls Orphans.End, else the caller does.
func (a *attempt) send(ctx context.Context, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	if fields := a.engine.Orphans.FieldsToRemove(kinds[a.Kind].family, a.Name); len(fields) > 0 {
		call = call.With(fields)
	}
	a.engine.Counts.Tries.Add(1)
	a.lane = a.engine.lane(a.Name)
	if call.Least > 0 {
		return network.Mint(ctx, a.engine.Network, a.Name, call, late)
	}
	return a.engine.Network.Send(ctx, a.Name, call, late)
}

// failTry takes a new field if the script may have taken this one. It returns o.
func (a *attempt) failTry(o wire.Outcome, ans pipe.Answer) wire.Outcome {
	if o.Result != wire.Refused && a.claim().releaseIfTaken(o, ans) {
		a.newField()
	}
	return o
}

// grant makes a hold of an acquisition that Redis has granted. ans.MayRunUntil is until when an earlier
// request with the same field may still be carried out.
func (a *attempt) grant(ctx context.Context, ans pipe.Answer, o wire.Outcome) wire.Outcome {
	k := a.engine
	if ans.Acks < k.cfg.Replicas {
		a.undo(ctx, ans.MayRunUntil)
		return wire.Outcome{Result: wire.NotReplicated, Wanted: int64(k.cfg.Replicas), Taken: int64(ans.Acks)}
	}
	var r *run
	if o.Reserved > 0 {
		r = k.newRun(a.Owner, a.seq, ans.Stamp, o)
	}
	h, leased := a.newHold(r, a.seq, o.Token)
	if !a.Kind.Exclusive() {
		h.token = 0 // none was minted
	}
	if !ans.MayRunUntil.IsZero() {
		h.noteMayRunUntil(ans.MayRunUntil)
	}
	err := k.keep(h, a.lane, leased, renewal.Terms{
		Stamp: ans.Stamp, TTL: a.Lease, Fixed: !a.Renewed, MaxHoldEnd: a.MaxHoldEnd,
	})
	switch {
	case errors.Is(err, renewal.ErrClosed) && wait.Closed(k.cfg.Closing):
		a.retire(ans.MayRunUntil)
		return wire.Outcome{Result: wire.Closed}
	case err != nil: // the answer came after the hold was no longer safe, or after its server was retired
		a.retire(ans.MayRunUntil)
		return wire.Outcome{Result: wire.Unknown, Op: "acquire", Cause: err}
	case !k.Table.Adopt(h, a.waiter):
		h.lease.Release()
		a.retire(ans.MayRunUntil)
		return wire.Outcome{Result: wire.Closed}
	}
	a.held = h.firstHeld(a.Renewed)
	return o
}

// firstHeld is the Held of the acquisition.
func (h *Hold) firstHeld(renewed bool) *Held {
	if h.engine.cfg.DropForgotten {
		return h.anotherHeld(renewed)
	}
	h.first.begin(h, renewed)
	return &h.first
}

// newHold returns the hold that a gets, and the owner of its lease. The hold belongs to the run r,
// or to no run if r is nil. The hold has the caller's seq, because a may meanwhile try with another.
func (a *attempt) newHold(r *run, seq uint64, token int64) (h *Hold, o renewer.Owner) {
	if r == nil {
		h = &Hold{}
		o = h
	} else {
		x := &runHold{run: r}
		h, o = &x.Hold, x
	}
	h.engine, h.name, h.kind = a.engine, a.Name, a.Kind
	h.owner, h.seq, h.token, h.count = a.Owner, seq, token, 1
	if a.Renewed {
		h.renewing = 1
	}
	h.recordLease(a.Lease)
	return h, o
}

// undo releases a lock that an attempt has taken and may not keep. The attempt gets
// a new field.
func (a *attempt) undo(ctx context.Context, open time.Time) {
	ans := a.engine.Network.Send(ctx, a.Name, a.engine.releaseCall(a.Kind, a.Name, []byte(a.field())), nil)
	if ans.Err != nil || !open.IsZero() {
		a.retire(open)
		return
	}
	a.newField()
}

// retire leaves the field to the orphans and takes a new one.
func (a *attempt) retire(open time.Time) {
	a.releaseLater(open)
	a.newField()
}

// releaseLater leaves the field to the orphans. open is until when a request with it may still be
// carried out; zero if none may.
func (a *attempt) releaseLater(open time.Time) {
	if open.IsZero() {
		a.claim().releaseLater()
		return
	}
	a.claim().releaseUnconfirmed(open)
}

// newField takes a new field.
func (a *attempt) newField() {
	if a.Kind == Permits {
		a.Owner = newPermits(a.Permits).asOwner()
		return
	}
	a.seq = a.engine.seqs.Add(1)
}

// waitInLine takes the lock, in the queue of its kind. It reports whether a call that waits had to.
func (a *attempt) waitInLine(ctx context.Context, wants locktable.Acquisition[*Hold], r locktable.Request) (held *Held, waited bool, err error) {
	queue := kinds[a.Kind].queue
	if a.Kind == Read && a.engine.cfg.ReadersFirst {
		queue = waitqueue.ReadersAlone
	}
	r.Owner, r.SharesOwner, r.NoWait = a.Owner, a.Shared, !a.Wait
	w := a.engine.Table.NewWaiter(locktable.Key{Name: a.Name, Kind: queue}, wants, r)
	defer w.End()
	a.waiter = w
	o := w.Run(ctx)
	waited = a.Wait && w.Waited()
	if o.Result != wire.Granted {
		return nil, waited, a.engine.errors.Of(ctx, a.Name, o)
	}
	held, a.held = a.held, nil // the queue may keep a, and Config.DropForgotten needs the garbage collector
	return held, waited, nil
}

// Reenter implements locktable.Acquisition.
func (a *attempt) Reenter(ctx context.Context, h *Hold) (o wire.Outcome) {
	if h.kind != a.Kind {
		return wire.Failure(errOtherKind(a.Name))
	}
	limit := time.Duration(0)
	if !a.Wait {
		limit = a.engine.cfg.IOTimeout
	}
	a.held, o = h.reenter(ctx, a.Lease, a.Renewed, limit)
	return o
}

func errOtherKind(name string) error {
	return fmt.Errorf("lock: %q is held by the same owner as another kind of lock: use a name for one kind only", name)
}

// Follows implements locktable.Acquisition.
func (a *attempt) Follows(h *Hold, over bool) bool {
	return a.Kind == h.kind && (!over || kinds[h.kind].handedOver)
}

// Take implements locktable.Acquisition.
func (a *attempt) Take(h *Hold) { a.held = h.firstHeld(a.Renewed) }

// RefuseDeadlock implements locktable.Acquisition. No owner of these kinds waits for itself.
func (a *attempt) RefuseDeadlock(*Hold) wire.Outcome { return wire.Outcome{Result: wire.Closed} }

// Channel implements locktable.Acquisition.
func (a *attempt) Channel() string { return a.Kind.Channel(a.Name) }

// Refusal implements locktable.Acquisition. If this client holds the lock, ttl is the time until the
// hold is no longer trusted. The lease of a hold that is renewed ends a margin later.
func (a *attempt) Refusal(ttl time.Duration) wire.Outcome {
	o := wire.Outcome{Result: wire.Refused, TTL: ttl, OthersWait: true}
	if h := a.engine.Table.Live(a.Name); h != nil {
		o.By = wire.Ours
		if h.isRenewed() {
			o.TTL += a.engine.cfg.Watchdog.Margin(a.engine.cfg.Lease)
		}
	}
	return o
}
