package lock

import (
	"context"
	"errors"

	"github.com/wheellock/wheellock/lock/internal/owner"
)

// callers are the calls of one owner for one FairMutex that wait for it, or ask Redis
// for it, and those for a RedLock that wait for its member: another call of that owner
// may get the lock first, and then they re-enter it. An owner that Lock has just made
// is nobody else's, so its call is not among them. Other kinds have a queue for that.
type callers struct {
	wakes  map[chan struct{}]struct{} // of capacity 1: look at your state again
	asking bool                       // one of them asks Redis
	probe  *probe                     // what it asks; nil while nobody waits for the answer
}

// probe is a question whose answer other calls of the same owner wait for: two
// that ask at once would refuse each other.
type probe struct {
	done chan struct{} // closed when it is over
	err  error         // immutable then: a refusal or an unknown outcome; nil if it was anything else
}

// saidBy is what a call with ctx was answered, as far as it is of use to others; nil if the
// call was left.
func saidBy(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrUnknown)) {
		return err
	}
	return nil
}

// finish ends the probe; said is what saidBy returns. No context is asked under a mutex,
// because one that a Held has given out may then end a hold.
func (p *probe) finish(said error) {
	p.err = said
	close(p.done)
}

// await waits for the end of p, of another call, or of ctx. known is what it
// said, if it began after this call, which awaited another one before.
func (p *probe) await(ctx context.Context, awaited *bool) (known error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil
	}
	if *awaited {
		known = p.err
	}
	*awaited = true
	return known
}

// callerKey finds them.
type callerKey struct {
	name  string
	owner owner.Owner
}

// watchLocked makes a hold of that name and owner wake the caller, until
// unwatchLocked.
func (s *shard) watchLocked(k callerKey, wake chan struct{}) {
	v := s.callers[k]
	if v.wakes == nil {
		v.wakes = make(map[chan struct{}]struct{})
	}
	v.wakes[wake] = struct{}{}
	if s.callers == nil {
		s.callers = make(map[callerKey]callers)
	}
	s.callers[k] = v
}

// unwatchLocked undoes watchLocked.
func (s *shard) unwatchLocked(k callerKey, wake chan struct{}) {
	v := s.callers[k]
	delete(v.wakes, wake)
	if len(v.wakes) == 0 && !v.asking {
		delete(s.callers, k)
	}
}

// wakeCallersLocked makes those look whose owner has got h.
func (s *shard) wakeCallersLocked(h *hold) {
	for wake := range s.callers[callerKey{h.name, h.owner}].wakes {
		signal(wake)
	}
}

// watchOwner is watchLocked; the function that it returns undoes it.
func (t *tables) watchOwner(name string, o owner.Owner, wake chan struct{}) func() {
	s, k := t.shard(name), callerKey{name, o}
	s.mu.Lock()
	s.watchLocked(k, wake)
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unwatchLocked(k, wake)
	}
}

// errAgain: the owner has the lock, or another of its calls has just asked: the
// caller looks again.
var errAgain = errors.New("lock: bug: look again")

// ask asks Redis by send, unless the owner has the lock or another of its calls
// asks: two that ask at once would refuse each other. It waits for that one's
// answer, and returns errAgain.
func (a *attempt) ask(ctx context.Context, send func(context.Context) (*Held, error)) (*Held, error) {
	if !a.shared {
		return send(ctx)
	}
	p, owned := a.beginAsking()
	switch {
	case owned:
		return nil, errAgain
	case p == nil:
		held, err := send(ctx)
		a.endAsking(ctx, err)
		return held, err
	case a.beside:
		return send(ctx)
	}
	known := p.await(ctx, &a.awaited)
	switch {
	case ctx.Err() != nil:
		return nil, newWaitError(ctx, a.name, nil)
	case known != nil && !a.wait: // who waits listens before it asks
		return nil, known
	}
	return nil, errAgain
}

// beginAsking notes that a asks. If another call of its owner does so already it
// returns that one's probe, and owned is true if the owner has the lock.
func (a *attempt) beginAsking() (p *probe, owned bool) {
	s, k := a.c.tables.shard(a.name), callerKey{a.name, a.owner}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ownLocked(a.name, a.owner) != nil {
		return nil, true
	}
	v := s.callers[k]
	switch {
	case !v.asking:
		v.asking = true
	case v.probe == nil:
		v.probe = &probe{done: make(chan struct{})}
	}
	if s.callers == nil {
		s.callers = make(map[callerKey]callers)
	}
	s.callers[k] = v
	return v.probe, false
}

// endAsking undoes beginAsking.
func (a *attempt) endAsking(ctx context.Context, err error) {
	said := saidBy(ctx, err)
	s, k := a.c.tables.shard(a.name), callerKey{a.name, a.owner}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.callers[k]
	if v.probe != nil {
		v.probe.finish(said)
	}
	v.asking, v.probe = false, nil
	if len(v.wakes) == 0 {
		delete(s.callers, k)
	} else {
		s.callers[k] = v
	}
}
