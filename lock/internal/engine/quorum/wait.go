package quorum

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// ErrBusy is returned when others wait and the call must not pass them.
var ErrBusy = errors.New("several: others wait")

// Call is one call for a majority.
type Call struct {
	Owner  owner.Owner
	Shared bool // other calls may have the same owner and get the lock first
	Try    bool // it does not wait
	Polite bool // it does not pass calls that wait
	// Attempt asks all members once. An error says that there is no majority, and Said says
	// why. Attempt has then released all members that it got.
	Attempt func(ctx context.Context) (Said, error)
	// Left returns the error of a call whose ctx has ended. last is the error of its last
	// attempt, or nil.
	Left func(ctx context.Context, last error) error
}

// Said is the result of an attempt without a majority.
type Said struct {
	Unanswered bool             // members did not answer
	NotCounted bool             // else: no member is held, but some have no vote yet
	Answer     waitqueue.Answer // else; Spread is not set

	Held    []bool // for each member whether another owner has it; nil if that is not known
	Got     int    // how many members it got
	Refused bool   // members refused, because others have them
	Final   bool   // another attempt would be in vain
}

// waiter is a Call that runs.
type waiter struct {
	Call
	l    *Line
	wake chan struct{} // of capacity 1: look again

	// guarded by Line.mu
	freed   bool    // it is the first, and the lock was unlocked in this process
	asker   *waiter // of a Try: the call of its owner that asked last since it came
	refused error   // of a Try: what that call was told, and this one returns

	last  error  // of the last attempt; nil before the first
	held  []bool // for each member whether it refused the last attempt because another has it
	owned []bool // for each member whether the owner had it when the last attempt began

	probe     waitqueue.Probe
	listeners []Listener      // of the members; nil before the first refusal
	seen      []News          // of each listener, when it was last read
	heard     waitqueue.Heard // the part of seen that came from members that refused
	closing   []bool          // for each member whether its client is known to close, which the next attempt finds; nil at first
	clashes   int             // attempts in a row that got some members and no majority, all but the first after a release
}

// hasOwnerOf reports whether x has the owner of w.
func (w *waiter) hasOwnerOf(x *waiter) bool { return w.Owner == x.Owner }

// Run makes attempts until one gets a majority or the call leaves. It makes an attempt when the
// call may ask and has a reason to ask. It always waits for the end of an attempt.
func (l *Line) Run(ctx context.Context, c Call) error {
	w := &waiter{Call: c, l: l, wake: make(chan struct{}, 1), probe: waitqueue.NewProbe(&l.pacing)}
	if w.Shared {
		for _, p := range l.peers {
			defer p.Watch(w.Owner, w.wake)()
		}
	}
	if !l.join(w) {
		return ErrBusy
	}
	defer l.leave(w)
	defer w.deafen()
	return w.run(ctx)
}

func (w *waiter) run(ctx context.Context) error {
	for slept := false; ; {
		switch may, owned, refused := w.l.look(w); {
		case wait.Ended(ctx) != nil:
			return w.Left(ctx, w.last)
		case refused != nil:
			return refused
		case !may:
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
			continue
		default:
			if due := w.due(owned); due > 0 {
				if w.listen() {
					w.sleep(ctx, due)
					slept = true
				}
				continue
			}
		}
		if slept {
			slept = false
			if _, _, news := w.probe.Since(w.l.now()); !news {
				w.clashes = 0 // no member was released since the last attempt, so nobody was in its way then
			}
			_ = wait.Pause(ctx, nil, w.clash()) // a release comes member by member
			continue
		}
		if !w.l.begin(w) {
			continue
		}
		w.noteClosing()
		mark := w.probe.Began(w.l.now())
		said, err := w.Attempt(ctx)
		if err == nil {
			return nil
		}
		if wait.Ended(ctx) == nil || w.last == nil {
			w.answered(mark, said, err) // if ctx has ended, the attempt was stopped and not answered
		}
		w.l.ended(w, wait.Ended(ctx) == nil && said.Refused, err)
		if wait.Ended(ctx) == nil && (w.Try || said.Final) {
			return err
		}
	}
}

// due returns how long it is until another attempt makes sense. That is when a member that
// refused was released, or may have been released, when enough leases are over, or when the
// owner has got a member. owned says which members the owner has now.
func (w *waiter) due(owned []bool) time.Duration {
	for i := range w.listeners {
		news := w.listeners[i].News()
		if w.held != nil && w.held[i] {
			if news.Confirmed != w.seen[i].Confirmed {
				w.heard.Confirmed++
			}
			if news.Messages != w.seen[i].Messages {
				w.heard.Messages++
			}
		}
		w.seen[i] = news
	}
	now := w.l.now()
	w.probe.Hear(now, w.heard)
	for i, has := range owned {
		if has && w.last != nil && !w.owned[i] {
			return 0
		}
	}
	return time.Duration(w.probe.Due(1) - now)
}

// answered records the result of an attempt.
func (w *waiter) answered(m waitqueue.Mark, said Said, err error) {
	w.last, w.held = err, said.Held
	if said.Got == 0 {
		w.clashes = 0
	} else {
		w.clashes++ // calls that each got some members must not retry at the same time
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

func (w *waiter) clash() time.Duration {
	return wait.Upto(w.l.random, time.Millisecond<<min(w.clashes, 7)) + time.Millisecond
}

// sleep waits for d at most. It ends earlier if w is woken, if ctx ends, or if one more client
// begins to close.
func (w *waiter) sleep(ctx context.Context, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	if w.closing == nil {
		w.closing = make([]bool, len(w.l.peers))
	}
	cases := []reflect.SelectCase{receive(w.wake), receive(end.C), receive(ctx.Done())}
	var peers []int
	for i, p := range w.l.peers {
		if !w.closing[i] {
			cases, peers = append(cases, receive(p.Closing())), append(peers, i)
		}
	}
	if i, _, _ := reflect.Select(cases); i > 2 {
		w.closing[peers[i-3]] = true // otherwise it would also end the next sleep
		w.probe.Freed()              // the next attempt shows which members are left
	}
}

func receive(from any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

// listen listens to all members. It returns false if it has just begun, because the caller has
// then seen no earlier release.
func (w *waiter) listen() bool {
	if w.listeners == nil {
		w.seen = make([]News, len(w.l.peers))
		for _, p := range w.l.peers {
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
	for _, p := range w.l.peers {
		w.closing = append(w.closing, wait.Closed(p.Closing()))
	}
}

func (w *waiter) deafen() {
	for _, l := range w.listeners {
		l.Leave()
	}
}
