package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// Mutex is one re-entrant lock on Redis, of any kind: a plain one, which has
// Redisson's RLock format, a hash {owner: count} under the lock's name
// (Client.Mutex); one whose waiters are served in order over all processes
// (Client.FairMutex); one with a counter of tokens of its own
// (Client.FencedMutex); or a half of a RWMutex. All methods are safe for concurrent
// use. Who holds it is an owner that travels in the context: Lock with no owner
// in its context makes a fresh one, Lock(held.Context(ctx)) re-enters.
type Mutex struct {
	c    *Client // immutable
	name string  // immutable
	kind kind    // immutable
}

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (m *Mutex) Name() string { return m.name }

// Lock takes the lock and keeps it renewed until Unlock; it waits while another
// owner holds it. ctx bounds only the waiting: its end later changes nothing.
// This is Redisson's lock().
//
// When ctx ends first, the error is ctx.Err() (errors.Is), and ErrNotAcquired
// if the last try said that another holds the lock, or ErrUnknown if its
// outcome was not known; a lock that a late answer brings is given back.
// A ctx whose deadline is over makes one try all the same, of at most
// Config.IOTimeout, unless others of this client wait: so Lock with a deadline of
// now takes a free lock, like Redisson's tryLock(0). A cancelled ctx makes none.
// Unknown outcomes are retried unless Config.FailFast. ErrClosed: the client is
// closing. An answer like NOPERM or WRONGTYPE is returned as it is.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, terms{lease: m.c.cfg.Lease, renewed: true, wait: true})
}

// LockFor is Lock with a lease of d that is not renewed: after d the lock is
// lost (reason Expired) unless it was unlocked. d is whole milliseconds from
// 100 ms to 30 days. This is Redisson's lock(leaseTime).
func (m *Mutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, terms{lease: d, wait: true})
}

// TryLock takes the lock and keeps it renewed if nobody else holds it, and
// otherwise returns a *HeldError, which is ErrNotAcquired, at once. An unknown
// outcome is ErrUnknown; if the lock was taken, it is given back. This is
// Redisson's tryLock().
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, terms{lease: m.c.cfg.Lease, renewed: true})
}

// TryLockFor is TryLock with a lease of d that is not renewed, see LockFor.
func (m *Mutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, terms{lease: d})
}

// terms are what a caller asks for.
type terms struct {
	lease   time.Duration
	renewed bool
	wait    bool
	fewer   bool // of permits: fewer will do
	polite  bool // of a RedLock: a try that passes nobody who waits
}

// errGone: the hold that was to be re-entered is no more.
var errGone = errors.New("lock: bug: the hold is gone")

func errOtherKind(name string) error {
	return fmt.Errorf("lock: %q is held by the same owner as another sort of lock: use a name for one sort", name)
}

// acquire is all four ways to take the lock.
func (m *Mutex) acquire(ctx context.Context, t terms) (*Held, error) {
	if t.wait && overdue(ctx) {
		t.wait = false
		return once(ctx, m.c.cfg.IOTimeout, m.name, func(ctx context.Context) (*Held, error) { return m.acquire(ctx, t) })
	}
	if m.c.cfg.Hooks.Acquired == nil {
		return m.enter(ctx, t)
	}
	began := time.Now()
	held, err := m.enter(ctx, t)
	if err == nil && held.Count() == 1 {
		m.c.callHook(m.c.cfg.Hooks.Acquired, Event{Name: m.name, Token: held.Token(), Waited: time.Since(began)})
	}
	return held, err
}

// enter takes the lock by the rules of its kind.
func (m *Mutex) enter(ctx context.Context, t terms) (*Held, error) {
	a, err := m.c.enter(ctx, m.name, m.kind, t)
	if err != nil {
		return nil, err
	}
	defer a.shard.end()
	return m.rules().take(ctx, m, a)
}

// foreignPoll is how long a waiter sleeps at most while another library has the
// lock: nobody tells when that is released.
const foreignPoll = 250 * time.Millisecond

// enter begins an acquisition, if nothing forbids it; the caller calls end when
// it is through.
func (c *Client) enter(ctx context.Context, name string, k kind, t terms) (*attempt, error) {
	if err := errors.Join(c.checkName(name), checkLease(name, t.lease)); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, newWaitError(ctx, name, nil)
	}
	o, err := c.ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	s := c.tables.shard(name)
	if !s.begin(true) {
		return nil, closedError(name)
	}
	return &attempt{c: c, shard: s, name: name, kind: k, owner: o, shared: carriesOwner(ctx), terms: t, seq: c.seqs.Add(1)}, nil
}

// attempt is one outermost acquisition on its way. Its field is used for as
// long as Redis answers; after an unknown outcome it takes a new one, and the
// old one becomes an orphan.
type attempt struct {
	c       *Client
	shard   *shard // of the name
	name    string
	kind    kind
	shared  bool // the owner came with the context, so others may have it too
	awaited bool // another call's probe, see callers
	beside  bool // it has a place of its own in Redis, and asks whatever other calls do
	owner   owner
	terms
	seq    uint64
	waiter *waiter // if it stands in a queue
	held   *Held   // what the waiter got
	writer string  // of a writer that waits: its name in the list of those, see RWMutex
}

// field is the field that the hold will have.
func (a *attempt) field() string {
	return (&hold{shard: a.shard, kind: a.kind, owner: a.owner, seq: a.seq}).field()
}

// request is the acquire script with its arguments.
func (a *attempt) request(f string) command {
	cmd := a.kind.rules().(mutexRules).acquire(a, f)
	for _, owed := range a.c.orphans.fields(a.kind, a.name) {
		cmd.args = append(cmd.args, owed)
	}
	return cmd
}

// try sends the acquire script once.
func (a *attempt) try(ctx context.Context) (*Held, error) {
	c, f := a.c, a.field()
	cmd := a.request(f)
	name, k, lease := a.name, a.kind, a.lease
	writer := a.writer
	// If the caller leaves before the answer, an acquired lock goes back. A writer
	// has withdrawn when it left; with Config.Replicas that went over another
	// connection, and this request may have announced it after that.
	late := func(ans pipe.Answer) {
		if writer != "" {
			c.withdraw(name, writer)
		}
		switch token, _, err := c.scripts.parseAcquire(name, ans); {
		case token > 0 || ans.Taken:
			c.orphans.add(k, name, f, lease)
		case mayHaveRun(ans, err):
			c.orphans.addUnanswered(k, name, f, lease)
		}
	}
	c.tries.Add(1)
	var ans pipe.Answer
	if cmd.script == script.Acquire {
		ans = c.scripts.callToken(ctx, cmd.script, late, cmd.args[4].(int64), cmd.args...)
	} else {
		ans = c.scripts.callKeys(ctx, a.name, cmd.script, cmd.keys, late, cmd.args...)
	}
	token, other, err := c.scripts.parseAcquire(a.name, ans)
	switch {
	case err != nil:
		if ans.Taken || mayHaveRun(ans, err) {
			a.c.orphans.addUnanswered(a.kind, a.name, f, a.lease)
			a.renew()
		}
		return nil, err
	case other != nil:
		return nil, other
	}
	return a.grant(ctx, ans, token)
}

// grant makes a hold of an acquisition that Redis said yes to.
func (a *attempt) grant(ctx context.Context, ans pipe.Answer, token int64) (*Held, error) {
	c := a.c
	if ans.Acks < c.cfg.Replicas {
		a.undo(ctx)
		return nil, &ReplicationError{Name: a.name, Wanted: c.cfg.Replicas, Acknowledged: ans.Acks}
	}
	h := &hold{shard: a.shard, name: a.name, kind: a.kind, owner: a.owner, seq: a.seq, token: token, count: 1}
	if !a.kind.exclusive() {
		h.token = 0 // none was minted
	}
	if a.renewed {
		h.renewing = 1
	}
	err := c.lane(h.name).keep(h, renewal.Terms{Stamp: ans.Stamp, TTL: a.lease, Fixed: !a.renewed})
	switch {
	case errors.Is(err, renewal.ErrClosed) && c.ended():
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
	cmd := a.kind.rules().release(&a.c.scripts, a.name, a.field(), 0, MinLease)
	ans := a.c.scripts.callKeys(ctx, a.name, cmd.script, cmd.keys, nil, cmd.args...)
	if ans.Err != nil {
		a.retire()
		return
	}
	a.renew()
}

// retire leaves the field to the orphans and takes a new one.
func (a *attempt) retire() {
	a.c.orphans.add(a.kind, a.name, a.field(), a.lease)
	a.renew()
}

// renew takes a new field.
func (a *attempt) renew() {
	if a.kind == permitKind {
		a.owner = newPermits(int64(a.owner.id))
		return
	}
	a.seq = a.c.seqs.Add(1)
}

// backoff is the pause after the try-th unknown outcome in a row.
func backoff(try int) time.Duration {
	d := min(10*time.Millisecond<<min(try, 7), time.Second)
	return d - rand.N(d/4+1)
}

// pause waits for d; it returns early, with an error, if ctx ends, and early
// without one if stop is closed.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
