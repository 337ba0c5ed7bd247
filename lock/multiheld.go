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

	"github.com/wheellock/wheellock/lock/internal/hold"
	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/several"
	"github.com/wheellock/wheellock/lock/internal/watch"
)

// MultiHeld is one successful Lock or TryLock of a MultiLock or a RedLock. A
// re-entry has a MultiHeld of its own. Each MultiHeld is given back by one
// Unlock. All methods are safe for concurrent use.
//
// It lasts as long as enough of its members are held: all of a MultiLock, a
// majority of a RedLock. When it is lost, the remaining members are not renewed
// any more: they are free after at most a lease, or at Unlock.
//
// The hooks of its clients are called for each member, also for one that was
// taken in an attempt that failed. It has no fencing token, because the token
// counters of its members' servers are independent.
type MultiHeld struct {
	// immutable
	from     *founding     // of a RedLock; nil of a MultiLock
	need     int           // as many of parts must be held
	spare    int           // as many of the lock's members need not answer at Unlock
	inOrder  bool          // Unlock releases the first part last
	patience time.Duration // how long Unlock waits for those that need not answer
	owner    owner.Owner
	wake     func() // called when Unlock has released it; or nil

	state atomic.Uint32
	watch watch.Watch

	mu      sync.Mutex      // guards what follows; never held during I/O
	parts   []part          // never changed, but replaced whole
	ended   int             // of those: are lost, or their client is closing
	retakes map[int]*retake // of such parts, by their place among them
	cause   *LostError      // why the whole was lost; nil before
	at      time.Time       // when
	timer   *time.Timer     // runs atDeadline, at the deadline or before; nil if the ends of its parts are told in time
}

// States of a MultiHeld.
const (
	isHeld      uint32 = iota // to isUnlocking in Unlock
	isUnlocking               // to isUnlocked, or to isLeft
	isUnlocked                // terminal
	isLeft                    // after an Unlock that was not answered; to isUnlocking by the next one
)

// Valid reports whether enough members are held now: not unlocked, not lost,
// and trusted by the clock, see Held.Valid.
func (x *MultiHeld) Valid() bool {
	x.used()
	if x.state.Load() != isHeld {
		return false
	}
	return x.Members() >= x.need
}

// Members returns how many members are held now, in the sense of Valid. A
// RedLock is lost when fewer than its quorum are left. A member whose server
// was restarted comes back, see NewRedLock. A member that did not vote for the
// hold is never added.
func (x *MultiHeld) Members() int { return several.CountValid(x.present(), time.Now()) }

// Deadline returns the end of trust as it is now. Of a MultiLock it is the
// earliest of its members. Of a RedLock it is the time at which fewer than a
// quorum of its members would be trusted, less an allowance for clocks that run
// at different speeds. Renewals move it later. Once the lock is lost, it is a
// time not after the loss.
func (x *MultiHeld) Deadline() time.Time {
	if end, ok := several.Deadline(x.present(), x.need); ok {
		return end
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.at // zero if it is just about to be told
}

// Done returns a channel that is closed when the whole is lost, when Unlock is
// called, or when a client that it needs begins to close. Err tells which. Done
// looks at the clock, see Held.Err.
func (x *MultiHeld) Done() <-chan struct{} {
	x.used()
	x.watch.Look()
	return x.watch.Done()
}

// Err returns nil while the whole is held, a *LostError that names the member
// whose loss ended it, and ErrNotHeld after Unlock. It looks at the clock, see
// Held.Err.
func (x *MultiHeld) Err() error {
	x.used()
	if x.state.Load() != isHeld {
		return notHeldError(x.present()[0].Part.Name())
	}
	x.watch.Look()
	if cause := x.lost(); cause != nil {
		return cause
	}
	return nil
}

func (x *MultiHeld) lost() *LostError {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cause
}

// Context returns a context derived from parent that carries the owner, so Lock
// with it re-enters, also the members. It ends when parent ends, when Unlock of
// this MultiHeld is called, and when the whole is lost; context.Cause is then
// the *LostError that Err returns. Contexts that are derived from it may end a
// little later, see Held.Context.
func (x *MultiHeld) Context(parent context.Context) context.Context {
	x.used()
	return x.watch.Context(parent)
}

// Unlock gives this MultiHeld back on every member, also on members that are
// lost, and also when another member does not answer. Done and the contexts end
// first. It works under a cancelled ctx: ctx only carries values.
//
// nil means released. Of a RedLock it means released on so many members that
// another owner can have a quorum; Unlock does not wait for the others longer
// than for an answer.
//
// Otherwise the error says which members failed and how, and errors.Is and
// errors.As find the error of each. ErrLost: the whole was lost before.
// ErrUnknown: members did not answer within their Config.UnlockTimeout; Unlock
// may be called again, and their clients go on trying. ErrNotHeld: this
// MultiHeld was unlocked before.
func (x *MultiHeld) Unlock(ctx context.Context) error {
	x.used()
	if !x.state.CompareAndSwap(isHeld, isUnlocking) && !x.state.CompareAndSwap(isLeft, isUnlocking) {
		return notHeldError(x.present()[0].Part.Name())
	}
	x.mu.Lock()
	cause, parts := x.cause, x.parts
	retakes := x.endRetakesLocked()
	if x.timer != nil {
		x.timer.Stop()
	}
	x.mu.Unlock()
	x.watch.End(context.Canceled) // the ordinary end
	lost, open := x.release(ctx, parts, retakes)
	if cause != nil || len(parts)-len(lost) < x.need {
		if cause != nil && !slices.Contains(lost, error(cause)) {
			lost = append(lost, cause)
		}
		x.noteLost(lost[0])
	} else {
		lost = nil
	}
	if len(open) > x.spare {
		x.state.Store(isLeft)
	} else {
		open = nil
		x.state.Store(isUnlocked)
	}
	if x.wake != nil {
		x.wake()
	}
	if len(lost)+len(open) == 0 {
		return nil
	}
	return &multiUnlockError{members: len(x.parts), lost: lost, open: open}
}

// multiUnlockError says what became of the members that Unlock did not release. It
// is what each of their errors is.
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
		hints = append(hints, "look at what the work has done, another may have had the lock")
	}
	switch refused := slices.ContainsFunc(e.open, func(err error) bool { return !errors.Is(err, ErrUnknown) }); {
	case refused:
		hints = append(hints, "call Unlock again when Redis permits it")
	case len(e.open) > 0:
		hints = append(hints, "their clients go on trying")
	}
	return strings.Join(hints, "; ")
}

// noteLost keeps a loss that Unlock has found for an Unlock that is called again.
func (x *MultiHeld) noteLost(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cause == nil {
		errors.As(err, &x.cause)
	}
}

// release unlocks all parts, as far as they are not, and returns the errors of
// those that were lost and of those whose release is not known. It waits for retakes
// that are under way as for parts: they give back what they get.
func (x *MultiHeld) release(ctx context.Context, parts []part, retakes []*retake) (lost, open []error) {
	results := make(chan error, len(parts)+len(retakes))
	waiting := 0
	await := func(enough int, late <-chan time.Time) {
		for waiting > 0 && waiting+len(open) > enough {
			select {
			case err := <-results:
				waiting--
				switch {
				case err == nil, errors.Is(err, ErrNotHeld): // by an earlier call
				case errors.Is(err, ErrLost):
					lost = append(lost, err)
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
			inBackground(p.Part.Held, func() { results <- p.Part.Unlock(ctx) })
		}
	}
	for _, w := range retakes {
		waiting++
		inBackground(w.lost.Part.Held, func() {
			<-w.ended
			results <- w.err
		})
	}
	if x.inOrder {
		// Others of this process stand in line at the first member: it is
		// handed on when the others are free.
		send(parts[1:])
		await(0, time.After(releaseGrace))
		send(parts[:1])
	} else {
		send(parts)
	}
	await(x.spare, nil)
	await(0, time.After(x.patience))
	return lost, open
}

// releaseGrace is how long a caller that gives up waits until what it took is
// released. The rest is released in the background.
const releaseGrace = 100 * time.Millisecond

// giveUp unlocks what was taken for a whole that is not to be had. It waits for
// that a little, so that as a rule nothing is held when it returns.
func giveUp(ctx context.Context, taken []*hold.Held) {
	if len(taken) == 0 {
		return
	}
	done := make(chan struct{}, len(taken))
	for _, x := range taken {
		inBackground(x, func() {
			_ = x.Unlock(ctx) // after an unknown outcome the client goes on
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

// inBackground runs f, which must be short once x's client is closed, on a goroutine
// that its Close waits for.
func inBackground(x *hold.Held, f func()) { x.InBackground("unlock a member", f) }
