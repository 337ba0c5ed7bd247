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
	owner    owner
	wake     func() // called when Unlock has released it; or nil

	state atomic.Uint32
	watch watch // its hold and next are not used

	mu      sync.Mutex      // guards what follows; never held during I/O
	parts   []part          // never changed, but replaced whole
	ended   int             // of those: are lost, or their client is closing
	retakes map[int]*retake // of such parts, by their place among them
	cause   *LostError      // why the whole was lost; nil before
	at      time.Time       // when
	timer   *time.Timer     // ends the whole at its deadline; nil if its parts' own ends do
}

// part is a member's hold.
type part struct {
	*Held
	drift  time.Duration // its trust counts for so much less
	mutex  *Mutex        // of a RedLock, as what follows
	member int           // its place among the members
	server string        // its server's run id when it voted; "" if that is Durable
}

// until is when the part counts no more, as it stands now; false if it is lost.
func (p part) until() (time.Time, bool) {
	if _, lost := p.h.lease.Lost(); lost {
		return time.Time{}, false
	}
	return p.Deadline().Add(-p.drift), true
}

// isLeft is a MultiHeld's state after an Unlock that was not answered; to
// isUnlocking by the next one.
const isLeft = isUnlocked + 1

// start begins to watch the parts. The whole may be lost when it returns.
func (x *MultiHeld) start() {
	x.watch.done = make(chan struct{})
	for seat, p := range x.parts {
		x.follow(seat, p)
	}
	if x.from != nil {
		left := time.Until(x.Deadline())
		x.mu.Lock()
		x.timer = time.AfterFunc(left, x.look)
		x.mu.Unlock()
	}
}

// follow makes the whole be told when a part ends.
func (x *MultiHeld) follow(seat int, p part) {
	p.watched().cancelWith(context.Background(), func(err error) { x.partEnded(seat, err) })
}

// present returns the parts as they are now.
func (x *MultiHeld) present() []part {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.parts
}

// partEnded is told why a part ended. It is called by the watchdog and does not
// block.
func (x *MultiHeld) partEnded(seat int, err error) {
	var cause *LostError
	if !errors.As(err, &cause) {
		return // it was unlocked, as one of the whole
	}
	x.mu.Lock()
	x.ended++
	enough := len(x.parts)-x.ended >= x.need
	if enough {
		x.retakeLocked(seat, cause.Reason)
	}
	x.mu.Unlock()
	if !enough {
		x.lose(cause)
	}
}

// look is called at what was the deadline.
func (x *MultiHeld) look() {
	if x.state.Load() != isHeld {
		return
	}
	if left := time.Until(x.Deadline()); left > 0 {
		x.mu.Lock()
		x.timer.Reset(left)
		x.mu.Unlock()
		return
	}
	p := x.present()[0]
	cause := &LostError{Name: p.Name(), Reason: TrustEnded}
	p.h.mu.Lock()
	if !p.renewed {
		cause.Reason = Expired
	}
	p.h.mu.Unlock()
	x.lose(cause)
}

// lose ends the whole once.
func (x *MultiHeld) lose(cause *LostError) {
	x.mu.Lock()
	if x.cause != nil || x.state.Load() != isHeld {
		x.mu.Unlock()
		return
	}
	x.cause, x.at = cause, time.Now()
	parts := x.parts
	x.endRetakesLocked()
	x.mu.Unlock()
	x.watch.endOne(cause)
	if cause.Reason == Closed {
		return // closing keeps what is held until its Unlock, and so do the others
	}
	for _, p := range parts {
		p.rest() // who was told need not unlock, and then nobody would
	}
}

// Valid reports whether enough members are held now: not unlocked, not lost,
// and trusted by the clock, see Held.Valid.
func (x *MultiHeld) Valid() bool {
	if x.state.Load() != isHeld {
		return false
	}
	return x.Members() >= x.need
}

// Members returns how many members are held now, in the sense of Valid. A
// RedLock is lost when fewer than its quorum are left. A member whose server
// was restarted comes back, see NewRedLock. A member that did not vote for the
// hold is never added.
func (x *MultiHeld) Members() int { return countValid(x.present()) }

// countValid is how many of parts are held now.
func countValid(parts []part) int {
	now, n := time.Now(), 0
	for _, p := range parts {
		if p.Valid() && (p.drift == 0 || now.Before(p.Deadline().Add(-p.drift))) {
			n++
		}
	}
	return n
}

// Deadline returns the end of trust as it is now. Of a MultiLock it is the
// earliest of its members. Of a RedLock it is the time at which fewer than a
// quorum of its members would be trusted, less an allowance for clocks that run
// at different speeds. Renewals move it later. Once the lock is lost, it is a
// time not after the loss.
func (x *MultiHeld) Deadline() time.Time {
	parts := x.present()
	ends := make([]time.Time, 0, len(parts))
	for _, p := range parts {
		if end, ok := p.until(); ok {
			ends = append(ends, end)
		}
	}
	if len(ends) < x.need {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.at // zero if it is just about to be told
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[x.need-1]
}

// Done returns a channel that is closed when the whole is lost, when Unlock is
// called, or when a client that it needs begins to close. Err tells which.
func (x *MultiHeld) Done() <-chan struct{} { return x.watch.done }

// Err returns nil while the whole is held, a *LostError that names the member
// whose loss ended it, and ErrNotHeld after Unlock.
func (x *MultiHeld) Err() error {
	if x.state.Load() != isHeld {
		return notHeldError(x.parts[0].Name())
	}
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
// the *LostError that Err returns.
func (x *MultiHeld) Context(parent context.Context) context.Context {
	return x.watch.context(parent, x.owner)
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
	if !x.state.CompareAndSwap(isHeld, isUnlocking) && !x.state.CompareAndSwap(isLeft, isUnlocking) {
		return notHeldError(x.present()[0].Name())
	}
	x.mu.Lock()
	cause, parts := x.cause, x.parts
	retakes := x.endRetakesLocked()
	if x.timer != nil {
		x.timer.Stop()
	}
	x.mu.Unlock()
	x.watch.endOne(ErrNotHeld)
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
			inBackground(p.h, func() { results <- p.Unlock(ctx) })
		}
	}
	for _, w := range retakes {
		waiting++
		inBackground(w.lost.h, func() {
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
func giveUp(ctx context.Context, taken []*Held) {
	if len(taken) == 0 {
		return
	}
	done := make(chan struct{}, len(taken))
	for _, x := range taken {
		inBackground(x.h, func() {
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

// inBackground runs f, which must be short once c is closed, on a goroutine
// that c's Close waits for.
func inBackground(h *hold, f func()) {
	h.shard.begin(false)
	go func() {
		defer h.shard.end()
		f()
	}()
}
