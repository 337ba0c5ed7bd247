package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// MultiLock takes several mutexes as one lock, either all or none of them. The
// mutexes may belong to one client or to several. All methods are safe for
// concurrent use. See NewMultiLock.
type MultiLock struct {
	members []*Mutex // immutable; in the order in which they are taken
}

// NewMultiLock returns the lock of all members together, or one error with all
// faults of its arguments. This is Redisson's RedissonMultiLock. NewMultiLock
// does no I/O and keeps nothing.
//
// Each member is a lock of any kind, which others may take alone. The order of
// the members does not matter. Two MultiLocks never deadlock, whichever members
// they share and in whichever processes they are.
//
// A MultiLock excludes others as long as all servers keep their keys, so it is
// as weak as the weakest server. While one server is down, the MultiLock cannot
// be taken. For locks that survive the loss of a server use RedLock.
//
// A member that is in the list twice is taken twice. If the list has the same
// key of one server by two clients, the two clients are two owners, and the
// MultiLock waits for itself.
func NewMultiLock(members ...*Mutex) (*MultiLock, error) {
	if err := checkMembers("MultiLock", members); err != nil {
		return nil, err
	}
	m := &MultiLock{members: slices.Clone(members)}
	// Names have the same order in every process. Servers of one name have the
	// same order at least within this process. So callers that want the same
	// members queue at the first one. This is for speed; no promise depends on it.
	slices.SortStableFunc(m.members, func(a, b *Mutex) int {
		// A writer may also read, but a reader may not write.
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.c.id, b.c.id), cmp.Compare(b.kind, a.kind))
	})
	return m, nil
}

func checkMembers(kind string, members []*Mutex) error {
	if len(members) == 0 {
		return fmt.Errorf("lock: the %s has no members: give it at least one mutex", kind)
	}
	var errs []error
	for i, m := range members {
		if m == nil {
			errs = append(errs, fmt.Errorf("lock: member %d of the %s is nil", i, kind))
			continue
		}
		if err := m.c.checkName(m.name); err != nil {
			errs = append(errs, fmt.Errorf("lock: member %d of the %s: %w", i, kind, err))
		}
	}
	return errors.Join(errs...)
}

// Lock takes all members and keeps them renewed until Unlock. It takes the
// members one by one and usually holds none while it waits. When another owner
// has a member, Lock releases what it has, waits for that member, and continues
// from there. If others take a member again and again, Lock holds the other
// members while it waits for that one, for at most 1.5 s each time. Then Lock
// begins anew.
//
// ctx limits only the waiting. If its deadline has already passed, Lock makes
// one try; see Mutex.Lock. If ctx or another error ends the wait, Lock releases
// everything that it took. If that takes longer than a moment, it continues in
// the background after Lock has returned.
//
// If ctx carries an owner, Lock re-enters the members that this owner holds.
// Otherwise a new owner holds all of them.
func (m *MultiLock) Lock(ctx context.Context) (*MultiHeld, error) {
	return m.acquire(ctx, hold.Terms{Renewed: true, Wait: true})
}

// LockFor is Lock with leases of d that are not renewed. Each lease counts from
// the time when its member was taken. So the MultiLock is lost when the first
// lease ends, which is less than d after LockFor returns.
func (m *MultiLock) LockFor(ctx context.Context, d time.Duration) (*MultiHeld, error) {
	return m.acquire(ctx, hold.Terms{Lease: d, Wait: true})
}

// TryLock takes all members, one by one, if no other owner holds any of them.
// Otherwise it releases those that it took and returns the error of the member
// that it did not get; see Mutex.TryLock.
func (m *MultiLock) TryLock(ctx context.Context) (*MultiHeld, error) {
	return m.acquire(ctx, hold.Terms{Renewed: true})
}

// TryLockFor is TryLock with leases of d that are not renewed, see LockFor.
func (m *MultiLock) TryLockFor(ctx context.Context, d time.Duration) (*MultiHeld, error) {
	return m.acquire(ctx, hold.Terms{Lease: d})
}

// Do runs f while it holds the lock, see Mutex.Do.
func (m *MultiLock) Do(ctx context.Context, f func(ctx context.Context, held *MultiHeld) error) error {
	return do(ctx, m.members[0].name, m.Lock, f)
}

// errTooLate: the first members were lost before the last one was taken.
var errTooLate = errors.New("the first leases ended before the last member was taken")

// acquire is the common part of all four functions that take the lock.
func (m *MultiLock) acquire(ctx context.Context, t hold.Terms) (*MultiHeld, error) {
	if t.Wait && deadlinePassed(ctx) {
		t.Wait = false
		first := m.members[0]
		return tryOnce(ctx, first.c.cfg.IOTimeout, first.name, func(ctx context.Context) (*MultiHeld, error) { return m.acquire(ctx, t) })
	}
	if !t.Renewed {
		if err := hold.CheckLease(m.members[0].name, t.Lease); err != nil {
			return nil, err
		}
	}
	o, _, err := m.members[0].c.ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	ctx = owner.With(ctx, o, nil)
	first := 0
	var before error // the error of the passes before this one
	for n := 0; ; n++ {
		p := pass{m: m, Terms: t, first: first, limit: passLimit(m.random(), n, t.Lease, len(m.members)), owner: o}
		held, err := p.run(ctx)
		if err == nil {
			return held, nil
		}
		if !t.Wait {
			return nil, err
		}
		said := lastOf(before, err)
		if !p.mayRetry(ctx, err) {
			if said != nil && wait.Ended(ctx) != nil {
				err = newWaitError(ctx, m.members[p.at].name, said)
			}
			return nil, err
		}
		first, before = m.firstLike(p.at), said
		if n > 0 { // so that two callers that collided do not collide again
			_ = wait.Pause(ctx, nil, wait.Upto(m.random(), time.Millisecond<<min(n, 6)))
		}
	}
}

// lastOf returns the error of the last try of a call that has ended with err. before is the error of
// earlier tries, or nil. lastOf returns before if this call made no try, or if an earlier try may have
// been carried out and the last one was not sent. It returns nil if err does not come from a try.
func lastOf(before, err error) error {
	var ended *waitError
	switch {
	case errors.As(err, &ended):
		if err = ended.last(); err == nil {
			return before
		}
	case !errors.Is(err, ErrNotAcquired) && !gotNoAnswer(err):
		return nil
	}
	if errors.Is(before, ErrUnknown) && errors.Is(err, ErrNotSent) { // the earlier one may have been carried out
		return before
	}
	return err
}

// firstLike returns the first member that is a lock of the same client and name as member i. If member i
// is the reader of a RWMutex whose writer is also a member, firstLike returns the writer, because an
// owner that reads cannot get the writer.
func (m *MultiLock) firstLike(i int) int {
	return slices.IndexFunc(m.members, func(x *Mutex) bool { return x.c == m.members[i].c && x.name == m.members[i].name })
}

func (m *MultiLock) random() *rand.Rand { return m.members[0].c.random }

// passLimit is how long pass n waits for each further member while it holds the
// first. Early passes do not wait at all. Later passes wait longer and longer, up
// to Redisson's limit.
func passLimit(r *rand.Rand, n int, lease time.Duration, members int) time.Duration {
	const notWaiting, shortest, longest = 3, 25 * time.Millisecond, 1500 * time.Millisecond
	if n < notWaiting {
		return 0
	}
	d := min(shortest<<min(n-notWaiting, 10), longest)
	if lease > 0 { // LockFor: most of the lease is for the work
		d = min(d, lease/time.Duration(4*members))
	}
	return d/2 + wait.Upto(r, d/2+1)
}

// pass is one attempt to take all members. It waits for the first one while it
// holds none.
type pass struct {
	m *MultiLock
	hold.Terms
	first int
	limit time.Duration // of the wait for each of the others
	owner owner.Owner

	at    int          // the member that the pass takes now, or at which it failed
	taken []*hold.Held // by member
}

func (p *pass) run(ctx context.Context) (held *MultiHeld, err error) {
	p.taken = make([]*hold.Held, len(p.m.members))
	p.at = p.first
	if p.taken[p.at], err = p.take(ctx, p.Wait); err != nil {
		return nil, err
	}
	for i := range p.m.members {
		if i == p.first {
			continue
		}
		p.at = i
		if p.taken[i], err = p.takeNext(ctx); err != nil {
			p.giveUp(ctx)
			return nil, err
		}
	}
	x := &multiHold{parts: make([]part, len(p.taken)), need: len(p.taken), inOrder: true, owner: p.owner}
	for i, h := range p.taken {
		x.parts[i].Hold = h
	}
	x.start()
	if !x.valid() {
		p.at = p.first
		p.giveUp(ctx)
		return nil, &UnknownError{Op: "acquire", Name: p.m.members[p.at].name, Err: errTooLate}
	}
	return x.newMultiHeld(), nil
}

// take takes the member p.at.
func (p *pass) take(ctx context.Context, wait bool) (*hold.Held, error) {
	m, t := p.m.members[p.at], p.Terms
	t.Wait = wait
	held, err := m.acquire(ctx, t)
	return (*hold.Held)(held), err
}

// takeNext takes a further member. It waits no longer than the limit for an owner that has it.
func (p *pass) takeNext(ctx context.Context) (*hold.Held, error) {
	held, refused := p.take(ctx, false)
	if p.limit == 0 || !errors.Is(refused, ErrNotAcquired) {
		return held, refused
	}
	limited, cancel := context.WithTimeout(wait.Sound(ctx), p.limit)
	defer cancel()
	held, err := p.take(limited, true)
	if err != nil && limited.Err() != nil && wait.Ended(ctx) == nil {
		return nil, refused // the limit may have ended a last try
	}
	return held, err
}

// giveUp releases the members that the pass has taken.
func (p *pass) giveUp(ctx context.Context) {
	giveUp(ctx, slices.DeleteFunc(p.taken, func(x *hold.Held) bool { return x == nil }))
}

// mayRetry reports whether another pass may succeed after this error.
func (p *pass) mayRetry(ctx context.Context, err error) bool {
	switch {
	case wait.Ended(ctx) != nil:
		return false
	case gotNoAnswer(err):
		return !p.m.members[p.at].c.cfg.FailFast
	}
	return errors.Is(err, ErrNotAcquired)
}
