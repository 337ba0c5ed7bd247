package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/sender"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/renewal"
)

// terms are what the caller of a lock function asks for.
type terms struct {
	lease   time.Duration
	renewed bool
	wait    bool
	fewer   bool // of permits: fewer will do
	polite  bool // of a RedLock: a try that passes nobody who waits

	maxHoldEnd time.Time // when Config.MaxHold is over; zero: so long after the acquisition
}

// errGone: the hold that was to be re-entered is no more.
var errGone = errors.New("lock: bug: the hold is gone")

func errOtherKind(name string) error {
	return fmt.Errorf("lock: %q is held by the same owner as another kind of lock: use a name for one kind only", name)
}

// foreignPoll is how long a waiter sleeps at most while another library has the
// lock. Such a library publishes no release.
const foreignPoll = 250 * time.Millisecond

// attempt is one outermost acquisition on its way. Its field is used for as
// long as Redis answers; after an unknown outcome it takes a new one, and the
// old one becomes an orphan.
type attempt struct {
	c      *keeper
	name   string
	kind   kind
	shared bool // the owner came with the context, so others may have it too
	owner  owner.Owner
	terms
	began    waitqueue.Instant // the call
	seq      uint64
	waiter   *locktable.Waiter[*hold] // of its queue
	stranger bool                     // had the lock, by the last refusal
	held     *Held                    // what the waiter got
	writer   string                   // of a writer that waits: its name in the list of those, see RWMutex
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
	if a.kind != mutexKind || !a.renewed {
		return 0
	}
	return a.waiter.HandOvers()
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
		a.stranger = other.Stranger
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
		r = c.newRun(a.owner, a.seq, ans.Stamp, g)
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
	case !c.table.Adopt(h, a.waiter):
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

// stand takes the lock, in the queue of that kind.
func (a *attempt) stand(ctx context.Context, k locktable.Kind, wants locktable.Acquisition[*hold], r locktable.Request) (*Held, error) {
	r.Owner, r.Joint, r.Try = a.owner, a.shared, !a.wait
	w := a.c.table.NewWaiter(locktable.Key{Name: a.name, Kind: k}, wants, r)
	defer w.End()
	a.waiter = w
	err := w.Run(ctx)
	if a.wait && w.Waited() {
		a.c.hooks.tellWaited(ctx, a, a.held, err)
	}
	if err != nil {
		return nil, err
	}
	return a.held, nil
}

var _ locktable.Acquisition[*hold] = (*attempt)(nil)

// Try implements locktable.Acquisition.
func (a *attempt) Try(ctx context.Context) locktable.Reply {
	held, err := a.try(ctx)
	a.held = held
	said := waitqueue.Answer{TTL: -1}
	if other, refused := err.(*HeldError); refused {
		if said.TTL = other.TTL; other.Foreign {
			said.Within = foreignPoll
		}
	}
	r := replyOf(said, err)
	r.Stranger = r.Verdict == locktable.Refused && a.stranger
	return r
}

// Reenter implements locktable.Acquisition.
func (a *attempt) Reenter(ctx context.Context, h *hold) locktable.Reply {
	if h.kind != a.kind {
		return replyOf(waitqueue.Answer{}, errOtherKind(a.name))
	}
	held, err := h.reenter(ctx, a.lease, a.renewed)
	a.held = held
	return replyOf(waitqueue.Answer{}, err)
}

// Follows implements locktable.Acquisition.
func (a *attempt) Follows(h *hold, over bool) bool {
	return a.kind == h.kind && (!over || h.kind == mutexKind)
}

// Take implements locktable.Acquisition.
func (a *attempt) Take(h *hold) { a.held = h.firstHeld(a.renewed) }

// Barred implements locktable.Acquisition. No owner of these kinds is.
func (a *attempt) Barred(*hold) error { return closedError(a.name) }

// Channel implements locktable.Acquisition.
func (a *attempt) Channel() string { return a.kind.rules().(mutexRules).channel(a.name) }

// Refusal implements locktable.Acquisition.
func (a *attempt) Refusal(ttl time.Duration) error { return &HeldError{Name: a.name, TTL: ttl} }

// replyOf is what a Waiter is told of a try or a re-entry that ended so.
func replyOf(said waitqueue.Answer, err error) locktable.Reply {
	r := locktable.Reply{Err: err, Said: said}
	switch {
	case err == nil:
	case err == errGone:
		r.Verdict = locktable.Gone
	case errors.Is(err, ErrNotAcquired):
		r.Verdict = locktable.Refused
		var other *HeldError
		if errors.As(err, &other) {
			r.HeldUntil = time.Now().Add(max(other.TTL, 0))
		}
	case errors.Is(err, ErrUnknown):
		r.Verdict = locktable.Unknown
	default:
		r.Verdict = locktable.Denied
	}
	return r
}
