package hold

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/sender"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/renewal"
)

// ForeignPoll is how long a waiter sleeps at most while another library has the
// lock. Such a library publishes no release.
const ForeignPoll = 250 * time.Millisecond

// attempt is one outermost acquisition that runs. It uses one field as long as
// Redis answers. After an unknown outcome it takes a new field, and package
// orphans releases the old one. Only a waiter of a FairMutex keeps its field.
type attempt struct {
	Wanted
	k      *Keeper
	seq    uint64
	waiter *locktable.Waiter[*Hold] // of its queue
	held   *Held                    // what the waiter got
}

// field is the field that the hold will have.
func (a *attempt) field() string { return fieldOf(a.k.cfg.ID, a.Kind, a.Owner, a.seq) }

// try sends once a script that takes a's field and removes the fields whose release is pending. If
// left is not nil, it is called when the answer comes after the caller has left.
func (a *attempt) try(ctx context.Context, call wire.Call, left func()) locktable.Reply {
	k, name, kind, lease, own, seq := a.k, a.Name, a.Kind, a.Lease, a.Owner, a.seq
	if !k.Orphans.Begin() {
		return a.got(nil, k.errors.Closed(name, nil))
	}
	call = call.With(k.Orphans.Named(kinds[kind].family, name))
	// If the caller leaves before the answer, an acquired lock goes back.
	late := func(ans pipe.Answer) {
		defer k.Orphans.End()
		if left != nil {
			left()
		}
		field := fieldOf(k.cfg.ID, kind, own, seq)
		switch g, _, err := k.calls.readAcquire(name, ans); {
		case g.Token > 0 || ans.Taken:
			k.owe(kind, name, field, lease)
		case k.calls.mayHaveRun(ans, err):
			k.oweUnanswered(kind, name, field, lease, ans.Open)
		}
	}
	k.Counts.Tries.Add(1)
	var ans pipe.Answer
	if call.Least > 0 {
		ans = sender.Mint(ctx, k.Network, name, call, late)
	} else {
		ans = k.Network.Send(ctx, name, call, late)
	}
	if !ans.Left {
		defer k.Orphans.End()
	}
	g, other, err := k.calls.readAcquire(name, ans)
	switch {
	case err != nil:
		if ans.Taken || k.calls.mayHaveRun(ans, err) {
			k.oweUnanswered(kind, name, a.field(), lease, ans.Open)
			a.renew()
		}
		return a.got(nil, err)
	case g.Token == 0:
		r := a.got(nil, k.held(name, other.TTL, other.Foreign))
		if r.Said.TTL = other.TTL; other.Foreign {
			r.Said.Within = ForeignPoll
		}
		r.HeldUntil, r.Stranger = time.Now().Add(max(other.TTL, 0)), other.Stranger
		return r
	}
	return a.got(a.grant(ctx, ans, g))
}

// got records the result of a try or a re-entry, and returns the Reply for the waiter.
func (a *attempt) got(held *Held, err error) locktable.Reply {
	a.held = held
	r := locktable.Reply{Err: err, Said: waitqueue.Answer{TTL: -1}}
	switch {
	case err == errGone:
		r.Verdict = locktable.Gone
	case err != nil:
		r.Verdict = a.k.errors.Verdict(err)
	}
	return r
}

// grant makes a hold of an acquisition that Redis has granted. ans.Open is until when an earlier
// request with the same field may still be carried out.
func (a *attempt) grant(ctx context.Context, ans pipe.Answer, g wire.Granted) (*Held, error) {
	k := a.k
	if ans.Acks < k.cfg.Replicas {
		a.undo(ctx, ans.Open)
		return nil, k.errors.NotReplicated(a.Name, k.cfg.Replicas, ans.Acks)
	}
	var r *run
	if g.More > 0 {
		r = k.newRun(a.Owner, a.seq, ans.Stamp, g)
	}
	h, leased := a.newHold(r, a.seq, g.Token)
	if !a.Kind.Exclusive() {
		h.token = 0 // none was minted
	}
	if !ans.Open.IsZero() {
		h.noteOpenUntil(ans.Open)
	}
	err := k.keep(h, leased, renewal.Terms{
		Stamp: ans.Stamp, TTL: a.Lease, Fixed: !a.Renewed, MaxHoldEnd: a.MaxHoldEnd,
	})
	switch {
	case errors.Is(err, renewal.ErrClosed) && wait.Closed(k.cfg.Closing):
		a.retire(ans.Open)
		return nil, k.errors.Closed(a.Name, nil)
	case err != nil: // the answer came after the hold was no longer safe, or after its server was retired
		a.retire(ans.Open)
		return nil, k.errors.Unknown("acquire", a.Name, err)
	case !k.Table.Adopt(h, a.waiter):
		h.lease.Release()
		a.retire(ans.Open)
		return nil, k.errors.Closed(a.Name, nil)
	}
	return h.firstHeld(a.Renewed), nil
}

// firstHeld is the Held of the acquisition.
func (h *Hold) firstHeld(renewed bool) *Held {
	if h.k.cfg.DropForgotten {
		return h.anotherHeld(renewed)
	}
	h.first.begin(h, renewed)
	return &h.first
}

// newHold returns the hold that a gets, of r or, if that is nil, of no run, and what its
// lease belongs to. a may be trying meanwhile, so seq is not its own.
func (a *attempt) newHold(r *run, seq uint64, token int64) (h *Hold, o carrier.Owner) {
	if r == nil {
		h = &Hold{}
		o = h
	} else {
		x := &runHold{run: r}
		h, o = &x.Hold, x
	}
	h.k, h.name, h.kind = a.k, a.Name, a.Kind
	h.owner, h.seq, h.token, h.count = a.Owner, seq, token, 1
	if a.Renewed {
		h.renewing = 1
	}
	h.lengthen(a.Lease)
	return h, o
}

// undo releases a lock that an attempt has taken and may not keep. The attempt gets
// a new field.
func (a *attempt) undo(ctx context.Context, open time.Time) {
	ans := a.k.Network.Send(ctx, a.Name, a.k.calls.release(a.Kind, a.Name, []byte(a.field())), nil)
	if ans.Err != nil || !open.IsZero() {
		a.retire(open)
		return
	}
	a.renew()
}

// retire leaves the field to the orphans and takes a new one.
func (a *attempt) retire(open time.Time) {
	a.owe(open)
	a.renew()
}

// owe leaves the field to the orphans. open is until when a request with it may still be
// carried out; zero if none may.
func (a *attempt) owe(open time.Time) {
	if open.IsZero() {
		a.k.owe(a.Kind, a.Name, a.field(), a.Lease)
		return
	}
	a.k.oweUnanswered(a.Kind, a.Name, a.field(), a.Lease, open)
}

// renew takes a new field.
func (a *attempt) renew() {
	if a.Kind == Permits {
		a.Owner = newPermits(a.Permits).asOwner()
		return
	}
	a.seq = a.k.seqs.Add(1)
}

// stand takes the lock, in the queue of its kind.
func (a *attempt) stand(ctx context.Context, wants locktable.Acquisition[*Hold], r locktable.Request) (*Held, error) {
	queue := kinds[a.Kind].queue
	if a.Kind == Read && a.k.cfg.ReadersFirst {
		queue = waitqueue.ReadersAlone
	}
	r.Owner, r.Joint, r.Try = a.Owner, a.Shared, !a.Wait
	w := a.k.Table.NewWaiter(locktable.Key{Name: a.Name, Kind: queue}, wants, r)
	defer w.End()
	a.waiter = w
	err := w.Run(ctx)
	if a.Wait && w.Waited() {
		var h *Hold
		if err == nil {
			h = a.held.h
		}
		a.k.cfg.Observer.Waited(ctx, a.Name, time.Duration(a.k.Table.Now()-a.Began), h, err)
	}
	if err != nil {
		return nil, err
	}
	return a.held, nil
}

// Reenter implements locktable.Acquisition.
func (a *attempt) Reenter(ctx context.Context, h *Hold) locktable.Reply {
	if h.kind != a.Kind {
		return a.got(nil, errOtherKind(a.Name))
	}
	return a.got(h.reenter(ctx, a.Lease, a.Renewed))
}

// Follows implements locktable.Acquisition.
func (a *attempt) Follows(h *Hold, over bool) bool {
	return a.Kind == h.kind && (!over || kinds[h.kind].handedOver)
}

// Take implements locktable.Acquisition.
func (a *attempt) Take(h *Hold) { a.held = h.firstHeld(a.Renewed) }

// Barred implements locktable.Acquisition. No owner of these kinds is.
func (a *attempt) Barred(*Hold) error { return a.k.errors.Closed(a.Name, nil) }

// Channel implements locktable.Acquisition.
func (a *attempt) Channel() string { return a.Kind.Channel(a.Name) }

// Refusal implements locktable.Acquisition. For a hold of this client, ttl counts to the end of its
// trust. The lease of a hold that is renewed ends a margin later.
func (a *attempt) Refusal(ttl time.Duration) error {
	if h := a.k.Table.Live(a.Name); h != nil && h.isRenewed() {
		ttl += a.k.cfg.Watchdog.Margin(a.k.cfg.Lease)
	}
	return a.k.held(a.Name, ttl, false)
}
