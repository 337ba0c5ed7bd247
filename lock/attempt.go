package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/sender"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/renewal"
)

// attempt is one outermost acquisition on its way. Its field is used for as
// long as Redis answers; after an unknown outcome it takes a new one, and the
// old one becomes an orphan.
type attempt struct {
	c      *Client
	name   string
	kind   kind
	shared bool // the owner came with the context, so others may have it too
	owner  owner.Owner
	terms
	began  waitqueue.Instant // the call
	seq    uint64
	waiter *waiter // if it stands in a queue
	held   *Held   // what the waiter got
	writer string  // of a writer that waits: its name in the list of those, see RWMutex
}

// field is the field that the hold will have.
func (a *attempt) field() string {
	return (&hold{c: a.c, kind: a.kind, owner: a.owner, seq: a.seq}).field()
}

// request is the acquire script with its arguments.
func (a *attempt) request(f string) wire.Call {
	return a.kind.rules().(mutexRules).acquire(a, f).With(a.c.owed(a.kind, a.name))
}

// more is how many tokens the attempt reserves for the waiters behind it.
func (a *attempt) more() int64 {
	if a.waiter == nil || a.kind != mutexKind || !a.renewed {
		return 0
	}
	return a.waiter.more
}

// try sends the acquire script once.
func (a *attempt) try(ctx context.Context) (*Held, error) {
	c, f := a.c, a.field()
	call := a.request(f)
	name, k, lease := a.name, a.kind, a.lease
	writer := a.writer
	// If the caller leaves before the answer, an acquired lock goes back. A writer
	// has withdrawn when it left; with Config.Replicas that went over another
	// connection, and this request may have announced it after that.
	late := func(ans pipe.Answer) {
		if writer != "" {
			withdraw(c, name, writer)
		}
		switch g, _, err := c.scripts.readAcquire(name, ans); {
		case g.Token > 0 || ans.Taken:
			c.owe(k, name, f, lease)
		case mayHaveRun(ans, err):
			c.oweUnanswered(k, name, f, lease, ans.Open)
		}
	}
	c.counts.tries.Add(1)
	var ans pipe.Answer
	if call.Least > 0 {
		ans = sender.Mint(ctx, c.sender, call, late)
	} else {
		ans = c.sender.Send(ctx, a.name, call, late)
	}
	g, other, err := c.scripts.readAcquire(a.name, ans)
	switch {
	case err != nil:
		if ans.Taken || mayHaveRun(ans, err) {
			a.c.oweUnanswered(a.kind, a.name, f, a.lease, ans.Open)
			a.renew()
		}
		return nil, err
	case other != nil:
		if a.waiter != nil {
			a.waiter.stranger = other.Stranger
		}
		return nil, &HeldError{Name: a.name, TTL: other.TTL, Foreign: other.Foreign}
	}
	return a.grant(ctx, ans, g)
}

// grant makes a hold of an acquisition that Redis said yes to.
func (a *attempt) grant(ctx context.Context, ans pipe.Answer, g wire.Granted) (*Held, error) {
	c := a.c
	if ans.Acks < c.cfg.Replicas {
		a.undo(ctx)
		return nil, &ReplicationError{Name: a.name, Wanted: c.cfg.Replicas, Acknowledged: ans.Acks}
	}
	var r *run
	if g.More > 0 {
		r = c.tables.newRun(a.owner, a.seq, ans.Stamp, g)
	}
	h, leased := a.newHold(r, a.seq, g.Token)
	if !a.kind.exclusive() {
		h.token = 0 // none was minted
	}
	err := c.lane(h.name).keep(h, leased, renewal.Terms{
		Stamp: ans.Stamp, TTL: a.lease, Fixed: !a.renewed, MaxHoldEnd: a.maxHoldEnd,
	})
	switch {
	case errors.Is(err, renewal.ErrClosed) && wait.Closed(c.closing):
		a.retire()
		return nil, closedError(a.name)
	case err != nil: // the yes came after its trust had ended, or the server's
		a.retire()
		return nil, &UnknownError{Op: "acquire", Name: a.name, Err: err}
	case !c.tables.adopt(h, a.waiter):
		h.lease.Release()
		a.retire()
		return nil, closedError(a.name)
	}
	return h.firstHeld(a.renewed), nil
}

// undo releases what an attempt has taken and may not keep, and gives it a new
// field.
func (a *attempt) undo(ctx context.Context) {
	ans := a.c.sender.Send(ctx, a.name, a.kind.rules().release(&a.c.scripts, a.name, a.field()), nil)
	if ans.Err != nil {
		a.retire()
		return
	}
	a.renew()
}

// retire leaves the field to the orphans and takes a new one.
func (a *attempt) retire() {
	a.c.owe(a.kind, a.name, a.field(), a.lease)
	a.renew()
}

// renew takes a new field.
func (a *attempt) renew() {
	if a.kind == permitKind {
		a.owner = newPermits(a.permits().n()).asOwner()
		return
	}
	a.seq = a.c.seqs.Add(1)
}

// stand takes the lock as w, which stands in its queue.
func (a *attempt) stand(ctx context.Context, w *waiter) (*Held, error) {
	w.caller.Owner, w.caller.Try = a.owner, !a.wait
	w.owned = a.shared
	a.waiter = w
	err := w.run(ctx)
	if a.wait && w.waited {
		a.c.hooks.tellWaited(ctx, a, a.held, err)
	}
	if err != nil {
		return nil, err
	}
	return a.held, nil
}

var _ wants = (*attempt)(nil)

func (a *attempt) probe(ctx context.Context) (said waitqueue.Answer, err error) {
	a.held, err = a.try(ctx)
	said.TTL = -1
	if other, refused := err.(*HeldError); refused {
		if said.TTL = other.TTL; other.Foreign {
			said.Within = foreignPoll
		}
	}
	return said, err
}

func (a *attempt) reenter(ctx context.Context, h *hold) (err error) {
	if h.kind != a.kind {
		return errOtherKind(a.name)
	}
	a.held, err = h.reenter(ctx, a.lease, a.renewed)
	return err
}

func (a *attempt) follows(h *hold, over bool) bool {
	return a.kind == h.kind && (!over || h.kind == mutexKind)
}

func (a *attempt) take(h *hold) { a.held = h.firstHeld(a.renewed) }

func (a *attempt) barred(*hold) error { return closedError(a.name) } // not of these kinds

func (a *attempt) channel() string { return a.kind.rules().(mutexRules).channel(a.name) }

func (a *attempt) refusal(ttl time.Duration) error { return &HeldError{Name: a.name, TTL: ttl} }
