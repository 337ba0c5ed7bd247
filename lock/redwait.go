package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// acquire is the common part of all four functions that take a RedLock. With mustNotPass, a
// try does not overtake waiters of this process.
func (r *RedLock) acquire(ctx context.Context, t hold.Terms, mustNotPass bool) (*MultiHeld, error) {
	if t.Wait && deadlinePassed(ctx) {
		t.Wait = false
		first := r.members[0]
		return tryOnce(ctx, first.c.cfg.IOTimeout, first.name, func(ctx context.Context) (*MultiHeld, error) { return r.acquire(ctx, t, true) })
	}
	if !t.Renewed {
		if err := hold.CheckLease(r.members[0].name, t.Lease); err != nil {
			return nil, err
		}
		if t.Lease > r.cfg.LongestLease {
			return nil, fmt.Errorf("lock: %q: the lease is %v: it must be at most RedLockConfig.LongestLease, %v", r.members[0].name, t.Lease, r.cfg.LongestLease)
		}
	}
	o, carried, err := r.members[0].c.ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	ctx = owner.With(ctx, o, nil)
	var held *MultiHeld
	err = r.line.Run(ctx, quorum.Call{
		Owner: o, SharesOwner: carried, NoWait: !t.Wait, MustNotPass: mustNotPass,
		Attempt: func(ctx context.Context) (quorum.AttemptResult, error) {
			var err error
			held, err = r.askAll(ctx, t, o)
			return r.resultOf(err), err
		},
		ErrorOfEnd: func(ctx context.Context, last error) error {
			e := &waitError{name: r.members[0].name, errs: []error{wait.Ended(ctx)}}
			if last != nil {
				e.errs = append(e.errs, last)
			}
			return e
		},
	})
	if err != nil {
		return nil, err
	}
	got := held
	held = nil // the line may keep Attempt, and so this variable, but Config.DropForgotten needs the garbage collector
	return got, nil
}

// resultOf returns what a waiting call learns from an attempt that returned err.
func (r *RedLock) resultOf(err error) (s quorum.AttemptResult) {
	if err == nil {
		return s
	}
	var q *QuorumError
	errors.As(err, &q)
	switch {
	case errors.Is(err, ErrUnknown) || q == nil:
		s.Unanswered = true
	case q.Held > 0:
		s.Answer.TTL = q.TTL
		if q.foreign {
			s.Answer.Within = locktable.ForeignPoll
		}
	default:
		s.NotCounted = true // a restarted member has no vote yet
	}
	if q != nil {
		s.HeldByOthers, s.Taken = q.held, q.Acquired
	}
	s.Refused, s.IsFinal = errors.Is(err, ErrNotAcquired), !r.mayRetry(err)
	return s
}

// mayRetry reports whether another attempt may succeed after this error.
func (r *RedLock) mayRetry(err error) bool {
	var q *QuorumError
	if errors.As(err, &q) && q.final() {
		return false
	}
	if errors.Is(err, ErrUnknown) {
		return !slices.ContainsFunc(r.members, func(m *Mutex) bool { return m.c.cfg.FailFast })
	}
	return errors.Is(err, ErrNotAcquired)
}

// watchedMember is a member of a RedLock as the waiters of the RedLock see it.
type watchedMember struct{ m *Mutex }

var _ quorum.WatchedMember = watchedMember{}

// Has implements quorum.WatchedMember.
func (p watchedMember) Has(o owner.Owner) bool { return p.m.heldBy(o) }

// Watch implements quorum.WatchedMember.
func (p watchedMember) Watch(o owner.Owner, wake chan struct{}) (end func()) {
	return p.m.c.table.WatchOwner(p.m.name, o, wake)
}

// Closing implements quorum.WatchedMember.
func (p watchedMember) Closing() <-chan struct{} { return p.m.c.closing }

// Listener implements quorum.WatchedMember.
func (p watchedMember) Listener(wake chan struct{}) quorum.Listener {
	return &memberListener{Listener: pubsub.NewListener(wake), m: p.m}
}

// memberListener listens to the channel of a member.
type memberListener struct {
	pubsub.Listener
	m *Mutex
}

// News implements quorum.Listener.
func (l *memberListener) News() quorum.News {
	n := l.Listener.News()
	return quorum.News{Confirmed: n.Confirmed, Messages: n.Messages}
}

// Listen implements quorum.Listener.
func (l *memberListener) Listen() bool {
	return l.Listener.Listen(l.m.c.network.Server(l.m.name).Subscriber(), l.m.kind.Channel(l.m.name))
}
