package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/engine/watch"
)

// MultiHeld is one successful Lock or TryLock of a MultiLock or a RedLock. A
// re-entry has a MultiHeld of its own. Each MultiHeld needs one Unlock. All
// methods are safe for concurrent use.
//
// A MultiHeld lasts as long as enough of its members are held: all of a
// MultiLock, a majority of a RedLock. When it is lost, the client does not renew
// the remaining members any more. They are free after at most one lease, or at
// Unlock.
//
// The hooks of the members' clients are called for each member, even for a
// member that was taken in an attempt that failed. A MultiHeld has no fencing
// token, because the token counters of its members' servers are independent.
type MultiHeld struct{ *multiHold }

// multiHold is the hold of a MultiHeld. The callbacks of its members refer to the multiHold and not to the
// MultiHeld, so the garbage collector can collect a MultiHeld that the user has forgotten.
type multiHold struct {
	// immutable
	from         *founding     // the attempt that made it; nil for a MultiLock
	need         int           // how many of parts must be held
	inOrder      bool          // Unlock releases the first part last
	spareTimeout time.Duration // how long Unlock waits for the members that need not answer
	owner        owner.Owner
	wake         func() // called at the end of Unlock; or nil

	state atomic.Uint32
	spare int // how many of parts Unlock need not release; only Unlock changes it
	watch watch.Watch

	mu        sync.Mutex      // guards what follows; never held during I/O
	parts     []part          // never changed, but replaced as a whole
	ended     int             // how many parts are lost, or have a client that is closing
	isLost    bool            // it is lost, and not only ended because a client is closing
	retakes   map[int]*retake // of parts that have ended, by their index in parts
	forgotten bool            // see forget
	cause     *LostError      // why the MultiHeld was lost, or ended because a client is closing; nil before
	lostAt    time.Time       // when that was; zero before
	timer     *time.Timer     // runs atDeadline, at the deadline or before; nil if the ends of the parts suffice
}

// States of a MultiHeld.
const (
	stateHeld       uint32 = iota // to stateUnlocking in Unlock
	stateUnlocking                // to stateUnlocked, or to stateUnanswered
	stateUnlocked                 // terminal
	stateUnanswered               // after an Unlock that was not answered; to stateUnlocking by the next one
)

// Valid reports whether enough members are held now: not unlocked, not lost,
// and trusted by the clock; see Held.Valid.
func (x *MultiHeld) Valid() bool {
	x.mustBeMade()
	return x.valid()
}

func (x *multiHold) valid() bool { return x.state.Load() == stateHeld && x.members() >= x.need }

// Members returns how many members are held now, in the sense of Valid. A
// RedLock is lost when fewer members than its quorum are left. Once the lock is
// lost, Members returns fewer than Valid needs. A member whose server was
// restarted can come back; see NewRedLock. A member that did not vote for the
// hold is never added.
func (x *MultiHeld) Members() int {
	x.mustBeMade()
	return x.members()
}

// members returns less than need once x is lost. More may be held even then: members whose clients are
// closing, which count as ended, and members that are renewed by a late answer.
func (x *multiHold) members() int {
	x.mu.Lock()
	parts, over := x.parts, x.isLost
	x.mu.Unlock()
	n := quorum.CountValid(parts, time.Now())
	if over {
		n = min(n, x.need-1)
	}
	return n
}

// Deadline returns the end of trust as it is now. For a MultiLock, it is the
// earliest end of its members. For a RedLock, it is the time at which fewer than
// a quorum of its members would be trusted, less an allowance for clocks that
// run at different speeds. Renewals move the end later. Once the lock is lost,
// Deadline returns a time not after the loss.
func (x *MultiHeld) Deadline() time.Time {
	x.mustBeMade()
	x.mu.Lock()
	parts, over, lostAt := x.parts, x.isLost, x.lostAt
	x.mu.Unlock()
	if end, ok := quorum.Deadline(parts, x.need); ok && (!over || !lostAt.Before(end)) {
		return end
	}
	return lostAt // zero if the loss is just about to be told
}

// Done returns a channel that is closed when the MultiHeld is lost, when Unlock
// is called, or when the client of a member that it needs begins to close. Err
// tells which. Done looks at the clock; see Held.Err.
func (x *MultiHeld) Done() <-chan struct{} {
	x.mustBeMade()
	x.watch.Look()
	return x.watch.Done()
}

// Err returns nil while the MultiHeld is held, and ErrNotHeld after Unlock. When
// the MultiHeld is lost, Err returns a *LostError that names the member whose
// loss ended it. Err looks at the clock; see Held.Err.
func (x *MultiHeld) Err() error {
	x.mustBeMade()
	err := x.look()
	if x.state.Load() != stateHeld {
		err = notHeldError(x.currentParts()[0].Hold.Name())
	}
	if err != nil {
		x.watch.End(err)
	}
	return err
}

func (x *multiHold) lost() *LostError {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cause
}

// Context returns a context that is derived from parent and carries the owner. A
// Lock with this context re-enters the lock or one of its members. The context
// ends when parent ends, when Unlock of this MultiHeld is called, and when the
// MultiHeld is lost. In the last two cases context.Cause is what Err returns.
// Contexts that are derived from it may end a little later; see Held.Context.
func (x *MultiHeld) Context(parent context.Context) context.Context {
	x.mustBeMade()
	return x.watch.Context(parent)
}

// Unlock gives this MultiHeld back on every member, even on members that are
// lost, and even when another member does not answer. Done and the contexts end
// first. Unlock works with a cancelled ctx, because ctx only carries values.
//
// nil means that the lock is released. For a RedLock it means that so many
// members are released that another owner can have a quorum. Unlock waits for
// the remaining members at most for RedLockConfig.MemberTimeout more.
//
// Otherwise the error says which members failed and how. errors.Is and errors.As
// find the error of each member. ErrLost: the MultiHeld was lost before. Or the
// client of a member that it needs began to close, even if Valid was still true
// and Unlock has released all members; the error is then ErrClosed too.
// ErrUnknown: members did not answer within their Config.UnlockTimeout. Unlock
// may then be called again, and the members' clients keep trying. ErrNotHeld:
// this MultiHeld was unlocked before.
func (x *MultiHeld) Unlock(ctx context.Context) error {
	x.mustBeMade()
	if !x.state.CompareAndSwap(stateHeld, stateUnlocking) && !x.state.CompareAndSwap(stateUnanswered, stateUnlocking) {
		return notHeldError(x.currentParts()[0].Hold.Name())
	}
	x.mu.Lock()
	cause, parts := x.cause, x.parts
	retakes := x.endRetakesLocked()
	if x.timer != nil {
		x.timer.Stop()
	}
	x.mu.Unlock()
	x.watch.EndAll(notHeldError(parts[0].Hold.Name())) // the ordinary end
	lost, open := x.release(ctx, parts, retakes)
	if cause != nil || len(parts)-len(lost) < x.need {
		if len(parts)-len(lost) >= x.need { // the members that are lost do not explain it
			lost = append(lost, cause)
		}
		x.noteLost(lost[0])
	} else {
		lost = nil
	}
	if len(open) > 0 {
		x.state.Store(stateUnanswered)
	} else {
		x.state.Store(stateUnlocked)
	}
	if x.wake != nil {
		x.wake()
	}
	if len(lost)+len(open) == 0 {
		return nil
	}
	return &multiUnlockError{members: len(x.parts), lost: lost, open: open}
}

// multiUnlockError says what became of the members that Unlock did not release. By
// errors.Is and errors.As it is the error of each of these members.
type multiUnlockError struct {
	members    int
	lost, open []error
}

func (e *multiUnlockError) Error() string   { return textOf(e) }
func (e *multiUnlockError) Unwrap() []error { return slices.Concat(e.lost, e.open) }

func (e *multiUnlockError) what() string {
	text := fmt.Sprintf("unlock of %d members: ", e.members)
	switch {
	case len(e.open) == 0:
		text += fmt.Sprintf("%d lost", len(e.lost))
	case len(e.lost) == 0:
		text += fmt.Sprintf("%d not known to be released", len(e.open))
	default:
		text += fmt.Sprintf("%d lost, %d not known to be released", len(e.lost), len(e.open))
	}
	return text + ": " + saidOf(e.Unwrap())
}

func (e *multiUnlockError) hint() string {
	var hints []string
	if slices.ContainsFunc(e.lost, func(err error) bool { return !errors.Is(err, ErrClosed) }) {
		hints = append(hints, "check what the work has done, because another owner may have had the lock")
	}
	switch refused := slices.ContainsFunc(e.open, func(err error) bool { return !errors.Is(err, ErrUnknown) }); {
	case refused:
		hints = append(hints, "call Unlock again when Redis permits it")
	case len(e.open) > 0:
		hints = append(hints, "the members' clients keep trying")
	}
	return strings.Join(hints, "; ")
}

// noteLost keeps a loss that Unlock has found. A repeated Unlock reports it again.
func (x *multiHold) noteLost(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cause == nil {
		errors.As(err, &x.cause)
	}
}

// release unlocks all parts that are not unlocked yet. It returns the errors of the
// parts that were lost, and of the parts that may not be released. The latter are nil if
// x.need others are free, which is enough for another owner. It also waits for retakes
// under way, because a retake that gets its member releases it.
func (x *multiHold) release(ctx context.Context, parts []part, retakes []*retake) (lost, open []error) {
	results := make(chan error, len(parts)+len(retakes))
	waiting := 0
	await := func(all bool, late <-chan time.Time) {
		for waiting > 0 && (all || waiting+len(open) > x.spare) {
			select {
			case err := <-results:
				waiting--
				switch {
				case err == nil, errors.Is(err, ErrNotHeld): // by an earlier call
				case errors.Is(err, ErrLost):
					lost = append(lost, err)
					if !isGone(err) {
						x.spare = max(x.spare-1, 0)
					}
				default:
					open = append(open, err)
				}
			case <-late:
				return
			}
		}
	}
	send := func(parts []part) {
		for _, p := range parts {
			waiting++
			p.Hold.InBackground(func() { results <- p.Hold.Unlock(ctx) })
		}
	}
	for _, w := range retakes {
		waiting++
		w.lost.Hold.InBackground(func() {
			<-w.ended
			results <- w.err
		})
	}
	if x.inOrder {
		// Other callers of this process queue at the first member. It is handed
		// over when the other members are free.
		send(parts[1:])
		await(true, time.After(releaseGrace))
		send(parts[:1])
	} else {
		send(parts)
	}
	await(false, nil)
	await(true, time.After(x.spareTimeout))
	await(false, nil)
	if len(open) <= x.spare {
		open = nil
	}
	return lost, open
}

// isGone reports whether a part was lost because its key was gone, so others can have it. The server of
// any other lost part may have the key still.
func isGone(err error) bool {
	var lost *LostError
	return errors.As(err, &lost) && lost.Reason == NotOwner
}

// releaseGrace is how long a caller that gives up waits until the members that it
// took are released. After that, they are released in the background.
const releaseGrace = 100 * time.Millisecond

// giveUp unlocks the members that were taken in an attempt that failed. It waits a
// little for the releases, so that as a rule nothing is held when it returns.
func giveUp(ctx context.Context, taken []*hold.Held) {
	if len(taken) == 0 {
		return
	}
	done := make(chan struct{}, len(taken))
	for _, x := range taken {
		x.InBackground(func() {
			_ = x.Unlock(ctx) // after an unknown outcome the client keeps trying
			done <- struct{}{}
		})
	}
	t := time.NewTimer(releaseGrace)
	defer t.Stop()
	for range taken {
		select {
		case <-done:
		case <-t.C:
			return
		}
	}
}
