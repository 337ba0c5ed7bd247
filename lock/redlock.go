package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// RedLockConfig configures a RedLock. The zero RedLockConfig works.
type RedLockConfig struct {
	// LongestLease is the longest lease that any process gives to the lock, by
	// Config.Lease of its clients or by d of LockFor. A member that has been up
	// for less may have forgotten a hold that still counts, so it has no vote (P25).
	// From the longest Config.Lease of the members' clients, which is the
	// default, to 30 days. If it is more than an hour, set the servers'
	// repl-backlog-ttl to at least as much; see NewRedLock.
	LongestLease time.Duration
	// MemberTimeout limits how long one attempt waits for a member: from 1 ms
	// to the least Config.IOTimeout of the members' clients, which is the
	// default.
	MemberTimeout time.Duration
	// Durable says that a restarted member still has everything that it
	// confirmed (appendonly yes, appendfsync always, and nobody deletes the
	// file). Such a member may vote at once. With Durable, RedLock does not ask
	// members how long they have been up, whether they were replicas, or whether
	// two of them are the same server. A replica is never Durable, because it may
	// lack what its master has confirmed.
	Durable bool
}

// RedLock is one lock on several independent masters. The owner that holds a
// majority of its members holds the lock. All methods are safe for concurrent
// use. Make a RedLock once and share it, because its waiters in this process
// stand in one queue, and it remembers which members did not answer. See
// NewRedLock.
type RedLock struct {
	// immutable
	members []*Mutex
	cfg     RedLockConfig
	need    int // the quorum
	start   time.Time

	silentUntil []atomic.Int64 // by member: until when no attempt waits for its answer, in ns from start
	slowUntil   []atomic.Int64 // the same, of attempts whose leases are not renewed: such a lease may be too short for an answer
	line        *quorum.Line
}

// NewRedLock returns a lock on several independent masters, or one error with
// all faults of its arguments. This is Redisson's RedissonRedLock and the Redlock
// algorithm. NewRedLock does no I/O.
//
// A RedLock survives the loss of a server. While less than half of the members
// are down, cut off or stopped, an owner can take the lock, holds continue, and
// no two owners hold the lock at once. A holder is told of a loss before the
// servers release a quorum (P24).
//
// Each member is a lock of its own client. The client's server is a master that
// replicates to none of the others. 3 or 5 members are usual. All processes that
// want the lock list the same members, in any order. Members may be of any kind
// except fair ones, because a waiter of a RedLock has no place in a queue in
// Redis. For the same reason, with writers as members, Lock waits as long as
// there are readers on a majority.
//
// No member may fail over to a replica. Replication is asynchronous, so the new
// master may have forgotten a hold, and two owners could hold the lock. For that
// reason NewRedLock refuses clients of NewTopology (Sentinel, Cluster), however
// durable their servers are. If the server at a member's address was a replica
// before, it has no vote until this process has known it as the master for
// LongestLease. The same applies to a server that has loaded the file of a
// master with replicas. This is safe only if nobody reaches the former master
// any more, and only without Durable. The server itself tells that it was a
// replica, but only until it has had no replicas of its own for repl-backlog-ttl
// (an hour by default). From Redis 7 on it still tells after that, until somebody
// calls CONFIG RESETSTAT. So repl-backlog-ttl must not be less than LongestLease.
//
// Servers may be restarted one after the other. Restart the next one when
// MultiHeld.Members shows that the last one is held again. That is after
// LongestLease at the earliest, or at once with Durable. A hold can lose a
// member because the member's server was restarted, or was out of reach until
// the member's lease had ended. While a quorum of the other members is held, the
// client asks such a member again every third of Config.Lease. The member counts
// again when it says yes and may vote. The client does not ask a member again
// whose key was deleted by DEL or ForceUnlock, or that did not vote for the hold (P26).
// A member that comes back does not prolong a lease of LockFor, and MaxHold
// counts from the first vote.
//
// A RedLock relies on clocks. During a lease, nobody may set the clocks of the
// servers and of this process, and their speeds must not differ by more than a
// hundredth. A RedLock cannot undo what a holder does while its process is
// paused, and has no fencing token; see MultiHeld.
func NewRedLock(cfg RedLockConfig, members ...*Mutex) (*RedLock, error) {
	if err := checkMembers("RedLock", members); err != nil {
		return nil, err
	}
	var errs []error
	lease, timeout := time.Duration(0), members[0].c.cfg.IOTimeout
	for i, m := range members {
		lease, timeout = max(lease, m.c.cfg.Lease), min(timeout, m.c.cfg.IOTimeout)
		if m.c.topology != nil {
			errs = append(errs, fmt.Errorf("lock: member %d of the RedLock has the client of a Topology (Sentinel, Cluster): "+
				"a replica that takes the place of its master may have forgotten the member's vote; "+
				"use lock.New or lock.Open with a master that does not fail over", i))
		}
		if m.kind == hold.Fair {
			errs = append(errs, fmt.Errorf("lock: member %d of the RedLock is a FairMutex: "+
				"a waiter of a RedLock has no place in the queue of a FairMutex; use Client.Mutex", i))
		}
		if slices.ContainsFunc(members[:i], func(other *Mutex) bool { return other.c == m.c }) {
			errs = append(errs, fmt.Errorf("lock: member %d of the RedLock has the client of another member: "+
				"give each member a server of its own, and so a client of its own", i))
		}
	}
	between(&errs, "RedLockConfig.LongestLease", &cfg.LongestLease, lease, lease, MaxLease)
	between(&errs, "RedLockConfig.MemberTimeout", &cfg.MemberTimeout, timeout, time.Millisecond, timeout)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	watched := make([]quorum.WatchedMember, len(members))
	for i, m := range members {
		watched[i] = watchedMember{m}
	}
	pacing := locktable.PacingOf(waitqueue.Exclusive, members[0].c.cfg.MaxPoll, 0)
	return &RedLock{
		members: slices.Clone(members), cfg: cfg, need: len(members)/2 + 1, start: time.Now(),
		line: quorum.NewLine(watched, pacing, members[0].c.random), silentUntil: make([]atomic.Int64, len(members)), slowUntil: make([]atomic.Int64, len(members)),
	}, nil
}

func (r *RedLock) random() *rand.Rand { return r.members[0].c.random }

// Lock takes the lock and keeps it renewed until Unlock, on every member that
// said yes. Lock waits while it cannot get a quorum. ctx limits only the waiting.
// If its deadline has already passed, Lock makes one attempt; see Mutex.Lock.
//
// If ctx ends first, the error is ctx.Err() (errors.Is) and a *QuorumError
// about the last attempt. After an attempt whose outcome is not known, Lock tries
// again unless a client's Config.FailFast is set. If a majority refuses for a
// reason that stays until something is changed (NOPERM, a closed client, too few
// replicas), Lock returns a *QuorumError at once.
//
// If ctx carries an owner, Lock re-enters the members that this owner holds, and
// takes the other members if they are free.
func (r *RedLock) Lock(ctx context.Context) (*MultiHeld, error) {
	return r.acquire(ctx, hold.Terms{Renewed: true, Wait: true}, false)
}

// LockFor is Lock with leases of d that are not renewed. d is at most
// RedLockConfig.LongestLease.
func (r *RedLock) LockFor(ctx context.Context, d time.Duration) (*MultiHeld, error) {
	return r.acquire(ctx, hold.Terms{Lease: d, Wait: true}, false)
}

// TryLock asks every member once, all at the same time, and takes the lock if a
// quorum says yes. Otherwise it releases the members that it took and returns a
// *QuorumError. The error is ErrNotAcquired if so many members refused that there
// is no quorum, and ErrUnknown if too few answered to know that.
func (r *RedLock) TryLock(ctx context.Context) (*MultiHeld, error) {
	return r.acquire(ctx, hold.Terms{Renewed: true}, false)
}

// TryLockFor is TryLock with leases of d that are not renewed; see LockFor.
func (r *RedLock) TryLockFor(ctx context.Context, d time.Duration) (*MultiHeld, error) {
	return r.acquire(ctx, hold.Terms{Lease: d}, false)
}

// Do runs f while it holds the lock, see Mutex.Do.
func (r *RedLock) Do(ctx context.Context, f func(ctx context.Context, held *MultiHeld) error) error {
	return do(ctx, r.members[0].name, r.Lock, f)
}

// drift returns the time by which the trust in a member is shortened, because clocks may run at
// different speeds. The formula is from the Redlock algorithm.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

const (
	// voteShare and lateShare are the parts of a lease that is not renewed which an attempt may spend: a
	// tenth on all votes, and a twentieth on the votes that come after a quorum. The rest is for the work.
	voteShare, lateShare = 10, 20
	// silentTime is how long an attempt waits, beyond the time that the others took, for a member that did
	// not answer lately.
	silentTime = 5 * time.Millisecond
)

// askAll asks every member at once.
func (r *RedLock) askAll(ctx context.Context, t hold.Terms, o owner.Owner) (*MultiHeld, error) {
	ask, cancel := context.WithTimeout(wait.Sound(ctx), r.cfg.MemberTimeout)
	defer cancel()
	began := time.Now()
	ballots := make(chan quorum.Ballot[*hold.Held], len(r.members))
	for i := range r.members {
		go r.members[i].c.labeler.Label("ask a member", func() { ballots <- r.ask(ask, i, t) })() // ends with ask; the loop below waits for it
	}
	y := quorum.NewTally[*hold.Held](len(r.members))
	hurried, elected := false, false
	var isShort atomic.Bool // the attempt has ended before MemberTimeout, because of its short lease
	for range r.members {
		y.Add(<-ballots)
		if !elected && !t.Renewed && y.Count(quorum.Yes) >= r.need {
			// The others may be a little slower.
			elected = true
			took := time.Since(began)
			timer := time.AfterFunc(max(t.Lease/voteShare-took, min(took, t.Lease/lateShare)), func() { isShort.Store(true); cancel() })
			defer timer.Stop()
		}
		if y.CountAgainst() > len(r.members)-r.need {
			cancel() // there is no quorum, whatever the other members answer
		}
		if !hurried && r.allSilent(y.Missing, t.Renewed) {
			// A member that did not answer lately must not delay every attempt. If it
			// is back, it is about as fast as the others. If the quorum depends on it,
			// it gets its full time in half of the attempts.
			hurried = true
			if y.Count(quorum.Yes) >= r.need || r.random().Uint64()%2 == 0 {
				t := time.AfterFunc(time.Since(began)+silentTime, cancel)
				defer t.Stop()
			}
		}
	}
	for _, b := range y.Ballots {
		if b.Vote != quorum.Unknown {
			r.silentUntil[b.Member].Store(0)
			r.slowUntil[b.Member].Store(0)
			continue
		}
		until := int64(time.Since(r.start) + silentTimeouts*r.cfg.MemberTimeout)
		switch {
		case wait.Ended(ctx) != nil:
		case ask.Err() == context.DeadlineExceeded:
			r.silentUntil[b.Member].Store(until)
		case isShort.Load():
			r.slowUntil[b.Member].Store(until)
		}
	}
	return r.elect(ctx, y, &founding{lock: r, terms: t, began: began}, o)
}

// silentTimeouts is the number of MemberTimeouts for which attempts do not wait for a member
// that did not answer.
const silentTimeouts = 10

// allSilent reports whether an attempt, whose leases are renewed or not, need not wait for any of members.
func (r *RedLock) allSilent(members map[int]bool, renewed bool) bool {
	now := int64(time.Since(r.start))
	for i := range members {
		if now >= r.silentUntil[i].Load() && (renewed || now >= r.slowUntil[i].Load()) {
			return false
		}
	}
	return true
}

// elect makes a hold of the members that an attempt has taken, or releases them.
func (r *RedLock) elect(ctx context.Context, y *quorum.Tally[*hold.Held], from *founding, o owner.Owner) (*MultiHeld, error) {
	x := &multiHold{
		from: from, need: r.need, spareTimeout: r.cfg.MemberTimeout, owner: o, wake: r.line.Nudge,
	}
	var taken, useless []*hold.Held
	for _, b := range y.Ballots {
		switch {
		case !b.WasTaken:
			continue
		case b.Vote == quorum.Yes:
			x.parts = append(x.parts, r.partOf(b, from.terms))
		default:
			useless = append(useless, b.Hold)
		}
		taken = append(taken, b.Hold)
	}
	if len(x.parts) < r.need {
		giveUp(ctx, taken)
		return nil, r.noQuorum(y)
	}
	x.spare = len(x.parts) - x.need
	x.start()
	if !x.valid() { // the attempt took too long, or members were lost meanwhile
		giveUp(ctx, taken)
		return nil, &UnknownError{Op: "acquire", Name: r.members[0].name, Err: errTooLate}
	}
	for _, h := range useless {
		h.InBackground(func() { _ = h.Unlock(ctx) })
	}
	return x.newMultiHeld(), nil
}

// partOf returns the hold of a member that has voted.
func (r *RedLock) partOf(b quorum.Ballot[*hold.Held], t hold.Terms) part {
	return part{Hold: b.Hold, Drift: drift(r.leaseOf(b.Member, t)), Member: b.Member, Server: b.Server}
}

// leaseOf returns the lease of a member.
func (r *RedLock) leaseOf(member int, t hold.Terms) time.Duration {
	if t.Renewed {
		return r.members[member].c.cfg.Lease
	}
	return t.Lease
}

// ask takes a member and returns its vote.
func (r *RedLock) ask(ctx context.Context, i int, t hold.Terms) quorum.Ballot[*hold.Held] {
	return quorum.Ask(ctx, i, r.voter(i, t), r.cfg.Durable)
}

func (r *RedLock) voter(i int, t hold.Terms) voter {
	return voter{Mutex: r.members[i], Terms: t, longest: r.cfg.LongestLease}
}
