package several

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// ErrBusy says that a call that passes nobody would have had to.
var ErrBusy = errors.New("several: others wait")

// Call is one call for a majority.
type Call struct {
	Owner  owner.Owner
	Shared bool // others may have the owner too, and get the lock first
	Try    bool // it does not wait
	Polite bool // it passes nobody who waits
	// Attempt asks all members once. An error says that no majority was got, and Said what
	// that means; all that was got is given back then.
	Attempt func(ctx context.Context) (Said, error)
	// Left is the error of a call whose ctx has ended. last is that of its last attempt, or nil.
	Left func(ctx context.Context, last error) error
}

// Said is what an attempt without a majority said.
type Said struct {
	Answer  waitqueue.Answer // but for Spread
	Held    []bool           // of each member: another owner has it; nil if that is not known
	Got     int              // members that it got
	Refused bool             // by the members, for as long as others have them
	Final   bool             // another attempt is in vain
}

// waiter is a Call on its way.
type waiter struct {
	Call
	l    *Line
	wake chan struct{} // of capacity 1: look again

	// guarded by Line.mu
	caller caller
	freed  bool // it is the first, and the lock was unlocked in this process

	last  error  // of the last attempt; nil before the first
	held  []bool // of each member: it refused the last attempt because another has it
	owned []bool // of each member: the owner had it when the last attempt began

	probe     waitqueue.Probe
	listeners []Listener      // of the members; nil before the first refusal
	seen      []News          // of each of them, when last looked at
	heard     waitqueue.Heard // how much of that came from members that refused
	closing   []bool          // of each member: it is known that its client closes, and the next attempt finds that; nil at first
	clashes   int             // attempts in a row that got some members and no majority
}

// Run makes attempts, when it is the call's turn and there is a reason to, until one gets a
// majority, or the call leaves. It waits for the end of an attempt that is under way.
func (l *Line) Run(ctx context.Context, c Call) error {
	w := &waiter{Call: c, l: l, wake: make(chan struct{}, 1), probe: waitqueue.NewProbe(&l.pacing)}
	w.caller = caller{Owner: c.Owner, Try: c.Try, User: w}
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
		switch do, owned := w.l.look(w); {
		case ctx.Err() != nil:
			return w.Left(ctx, w.last)
		case do == waitqueue.DoRefuse:
			return w.l.refusal()
		case do != waitqueue.DoProbe:
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
		if ctx.Err() == nil || w.last == nil {
			w.answered(mark, said, err) // else it was left, not answered
		}
		w.l.ended(w, ctx.Err() == nil && said.Refused, err)
		if ctx.Err() == nil && (w.Try || said.Final) {
			return err
		}
	}
}

// due is how long it is until another attempt makes sense: a member that refused was
// released, or may have been, or enough leases are over, or the owner has got a member.
// owned is what it has now.
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

// answered notes what an attempt said.
func (w *waiter) answered(m waitqueue.Mark, said Said, err error) {
	w.last, w.held = err, said.Held
	if said.Got == 0 {
		w.clashes = 0
	} else {
		w.clashes++ // those who got some members each, and gave them back, must part
	}
	said.Answer.Spread = w.l.random.Float64()
	w.probe.Answered(w.l.now(), m, said.Answer)
}

func (w *waiter) clash() time.Duration {
	return wait.Upto(w.l.random, time.Millisecond<<min(w.clashes, 7)) + time.Millisecond
}

// sleep waits until it is woken, at most d, or until ctx ends or a client begins to
// close that did not before.
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
		w.closing[peers[i-3]] = true // or it ends the next sleep too, if the attempt is not due yet
		w.probe.Freed()              // the attempt tells what is left
	}
}

func receive(from any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

// listen listens to all members. It returns false if it did not before: what there
// is to hear is news then.
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

// noteClosing notes before an attempt whose clients are closing.
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
