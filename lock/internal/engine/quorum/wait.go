package quorum

import (
	"context"
	"reflect"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// Call is one call for a majority.
type Call struct {
	Owner       owner.Owner
	SharesOwner bool // other calls may have the same owner and get the lock first
	NoWait      bool // it does not wait
	// MustNotPass says that the call does not pass calls that wait, but returns the last result of the
	// first of them. If that call has no result yet, this call asks.
	MustNotPass bool
	// Attempt asks all members once. An error says that there is no majority, and the
	// AttemptResult says why. Attempt has then released all members that it got.
	Attempt func(ctx context.Context) (AttemptResult, error)
	// ErrorOfEnd returns the error of a call whose ctx has ended. last is the error of its last
	// attempt, or nil.
	ErrorOfEnd func(ctx context.Context, last error) error
}

// AttemptResult is the result of an attempt without a majority.
type AttemptResult struct {
	Unanswered bool             // members did not answer
	NotCounted bool             // else: no member is held, but some have no vote yet
	Answer     waitqueue.Answer // else; Spread is not set

	HeldByOthers []bool // for each member whether another owner has it; nil if that is not known
	Taken        int    // how many members it got
	Refused      bool   // members refused, because others have them
	IsFinal      bool   // another attempt would be in vain
}

// waiter is a Call that runs.
type waiter struct {
	Call
	l    *Line
	wake chan struct{} // of capacity 1: look again

	// guarded by Line.mu
	isUnlocked bool    // it is the first, and the lock was unlocked in this process
	lastAsker  *waiter // of a Try: the call of its owner that asked last since it came
	refusal    error   // of a Try: what that call was told, and this one returns
	said       error   // what it was told last; nil before the end of its first attempt

	lastErr   error  // of the last attempt; nil before the first
	refusedBy []bool // for each member whether it refused the last attempt because another has it
	owned     []bool // for each member whether the owner had it when the last attempt began

	probe           waitqueue.Probe
	listeners       []Listener      // of the members; nil before the first refusal
	lastNews        []News          // of each listener, when it was last read
	heardOfRefusers waitqueue.Heard // the part of lastNews that came from members that refused
	closing         []bool          // for each member whether its client is known to close, which the next attempt finds; nil at first
	splitVotes      int             // attempts in a row that got some members but no majority; each except the first came after a release
}

// hasOwnerOf reports whether x has the owner of w.
func (w *waiter) hasOwnerOf(x *waiter) bool { return w.Owner == x.Owner }

// Run makes attempts until one gets a majority or the call leaves. It makes an attempt when the
// call may ask and has a reason to ask. It always waits for the end of an attempt.
func (l *Line) Run(ctx context.Context, c Call) error {
	w := &waiter{Call: c, l: l, wake: make(chan struct{}, 1), probe: waitqueue.NewProbe(&l.pacing)}
	if w.SharesOwner {
		for _, p := range l.members {
			defer p.Watch(w.Owner, w.wake)()
		}
	}
	if busy := l.join(w); busy != nil {
		return busy
	}
	defer l.leave(w)
	defer w.stopListening()
	return w.run(ctx)
}

func (w *waiter) run(ctx context.Context) error {
	for slept := false; ; {
		switch may, owned, refused := w.l.checkTurn(w); {
		case wait.Ended(ctx) != nil:
			return w.ErrorOfEnd(ctx, w.lastErr)
		case refused != nil:
			return refused
		case !may:
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
			continue
		default:
			if due := w.untilDue(owned); due > 0 {
				if w.listen() {
					w.sleep(ctx, due)
					slept = true
				}
				continue
			}
		}
		if slept {
			slept = false
			if _, _, news := w.probe.News(w.l.now()); !news {
				w.splitVotes = 0 // no member was released since the last attempt, so nobody was in its way then
			}
			_ = wait.Pause(ctx, nil, w.splitVotePause()) // a release comes member by member
			continue
		}
		if !w.l.beginAttempt(w) {
			continue
		}
		w.noteClosing()
		mark := w.probe.Began(w.l.now())
		said, err := w.Attempt(ctx)
		if err == nil {
			return nil
		}
		if wait.Ended(ctx) == nil || w.lastErr == nil {
			w.recordResult(mark, said, err) // if ctx has ended, the attempt was stopped and not answered
		}
		w.l.endAttempt(w, wait.Ended(ctx) == nil && said.Refused, err)
		if wait.Ended(ctx) == nil && (w.NoWait || said.IsFinal) {
			return err
		}
	}
}

// untilDue returns how long it is until another attempt makes sense. That is when a member that
// refused was released, or may have been released, when enough leases are over, or when the
// owner has got a member. owned says which members the owner has now.
func (w *waiter) untilDue(owned []bool) time.Duration {
	for i := range w.listeners {
		news := w.listeners[i].News()
		if w.refusedBy != nil && w.refusedBy[i] {
			if news.Confirmed != w.lastNews[i].Confirmed {
				w.heardOfRefusers.Confirmed++
			}
			if news.Messages != w.lastNews[i].Messages {
				w.heardOfRefusers.Messages++
			}
		}
		w.lastNews[i] = news
	}
	now := w.l.now()
	w.probe.Hear(now, w.heardOfRefusers)
	for i, has := range owned {
		if has && w.lastErr != nil && !w.owned[i] {
			return 0
		}
	}
	return time.Duration(w.probe.Due(1) - now)
}

// recordResult records the result of an attempt.
func (w *waiter) recordResult(m waitqueue.Mark, said AttemptResult, err error) {
	w.lastErr, w.refusedBy = err, said.HeldByOthers
	if said.Taken == 0 {
		w.splitVotes = 0
	} else {
		w.splitVotes++ // calls that each got some members must not retry at the same time
	}
	said.Answer.Spread = w.l.random.Float64()
	switch {
	case said.Unanswered:
		w.probe.Unanswered(w.l.now(), m, said.Answer.Spread)
	case said.NotCounted:
		w.probe.NotCounted(w.l.now(), m, said.Answer.Spread)
	default:
		w.probe.Refused(w.l.now(), m, said.Answer)
	}
}

func (w *waiter) splitVotePause() time.Duration {
	return wait.Upto(w.l.random, time.Millisecond<<min(w.splitVotes, 7)) + time.Millisecond
}

// sleep waits for d at most. It ends earlier if w is woken, if ctx ends, or if one more client
// begins to close.
func (w *waiter) sleep(ctx context.Context, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	if w.closing == nil {
		w.closing = make([]bool, len(w.l.members))
	}
	cases := []reflect.SelectCase{receiveCase(w.wake), receiveCase(end.C), receiveCase(ctx.Done())}
	var open []int // the members whose clients are not known to close
	for i, p := range w.l.members {
		if !w.closing[i] {
			cases, open = append(cases, receiveCase(p.Closing())), append(open, i)
		}
	}
	if i, _, _ := reflect.Select(cases); i > 2 {
		w.closing[open[i-3]] = true // otherwise it would also end the next sleep
		w.probe.Freed()             // the next attempt shows which members are left
	}
}

func receiveCase(from any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

// listen listens to all members. It returns false if it has just begun, because the caller has
// then seen no earlier release.
func (w *waiter) listen() bool {
	if w.listeners == nil {
		w.lastNews = make([]News, len(w.l.members))
		for _, p := range w.l.members {
			w.listeners = append(w.listeners, p.Listener(w.wake))
		}
	}
	did := true
	for _, l := range w.listeners {
		did = !l.Listen() && did
	}
	return did
}

// noteClosing records, before an attempt, which clients are closing.
func (w *waiter) noteClosing() {
	w.closing = w.closing[:0]
	for _, p := range w.l.members {
		w.closing = append(w.closing, wait.Closed(p.Closing()))
	}
}

func (w *waiter) stopListening() {
	for _, l := range w.listeners {
		l.Leave()
	}
}
