package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/wheel"
)

// pumpLocked starts as many goroutines as there are tries that may begin now.
func (k *Keeper) pumpLocked() {
	for {
		e := k.nextLocked()
		if e == nil {
			return
		}
		k.goroutines.Go(func() { k.work(e) })
	}
}

// nextLocked returns the name to ask for now, or nil. If there will be one later, it sets pacer for that
// time or earlier.
func (k *Keeper) nextLocked() *entry {
	e, wait := k.core.next(time.Now())
	if wait > 0 {
		if time.Until(k.pacer.Deadline()) > wait { // set for the next probe, but another name may be asked for sooner
			k.pacer.Touch(wait)
		}
		// The errors say that it is set already, or that the Keeper is closed.
		_ = k.wheel.Schedule(&k.pacer, wait, wheel.TaskFunc(func(*wheel.Timer) { k.pump() }))
	}
	return e
}

func (k *Keeper) pump() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pumpLocked()
}

// work asks for e, and then for others as long as there are any.
func (k *Keeper) work(e *entry) {
	for e != nil {
		held, err := k.client.Mutex(e.name).TryLock(k.tries)
		e = k.answered(e, held, err)
	}
}

// answered continues with e after its try, and returns what the worker asks for next.
func (k *Keeper) answered(e *entry, held *lock.Held, err error) (next *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var other *lock.HeldError
	switch {
	case err == nil:
		k.grantedLocked(e, held)
	case errors.As(err, &other):
		k.stats.Refused++
		if other.OthersWait { // which says nothing about the server
			k.settleLocked(e, k.core.skip(e, other.TTL))
		} else {
			e.isForeign = other.Foreign
			k.settleLocked(e, k.core.refuse(e, other.TTL))
		}
	case errors.Is(err, lock.ErrNotALock): // this name is to blame, not its server
		k.stats.Failed++
		k.stats.LastError = err
		e.isForeign = true // the end of such a key is not told
		k.settleLocked(e, k.core.refuse(e, -1))
	default:
		if k.tries.Err() == nil {
			k.stats.Failed++
			k.stats.LastError = err
		}
		k.settleLocked(e, k.core.fail(e, time.Now()))
	}
	k.stats.Tries++
	if next = k.nextLocked(); next == nil {
		k.endIfIdleLocked()
	} else {
		k.pumpLocked() // an outage may have ended
	}
	return next
}

// settleLocked does what follows from the state that the core has given to e, which is not kept: e rests
// for the time rest, or is looked at. While another owner may have it, its releases are heard.
func (k *Keeper) settleLocked(e *entry, rest time.Duration) {
	k.restLocked(e, rest)
	k.followLocked(e)
	k.lookLocked()
}

// followLocked hears of releases of e as long as another owner has it, or may have it.
func (k *Keeper) followLocked(e *entry) {
	switch e.state {
	case resting, due, looking:
		_ = k.releases.Follow(e.name) // Want has refused bad names
	case kept, ending:
		k.releases.Leave(e.name)
	case gone:
		if k.core.entries[e.name] == nil { // else it is wanted again, as another entry
			k.releases.Leave(e.name)
		}
	}
}

// heard is the function of k.releases.
func (k *Keeper) heard(name string, mayBeMissed bool) {
	what, deaf := released, false
	if mayBeMissed {
		what, deaf = missed, !k.releases.Listens(name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !mayBeMissed {
		k.stats.Heard++
	}
	e := k.core.entries[name]
	switch {
	case e == nil:
		return
	case deaf:
		if most := k.core.stopHearing(e); most > 0 && time.Until(e.timer.Deadline()) > most {
			e.timer.Stop()
			k.restLocked(e, most)
		}
		return
	case k.core.hear(e, what):
		e.timer.Stop()
	}
	k.lookLocked()
	k.pumpLocked()
}

// lookLocked has a goroutine look at the names that are due.
func (k *Keeper) lookLocked() {
	if !k.looking && len(k.core.looks) > 0 {
		k.looking = true
		k.goroutines.Go(k.look)
	}
}

// look asks Redis about names that are due until there are none.
func (k *Keeper) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.core.looks) > 0 {
		batch := k.core.nextLooks()
		k.pumpLocked()
		if len(batch) == 0 {
			continue
		}
		names := make([]string, len(batch))
		for i, e := range batch {
			names[i] = e.name
		}
		k.mu.Unlock()
		ttls, errs := k.client.TTLMany(k.tries, names)
		k.mu.Lock()
		k.stats.Looks += uint64(len(batch))
		for i, e := range batch {
			k.settleLocked(e, k.core.looked(e, ttls[i], errs[i] != nil))
		}
		k.pumpLocked()
	}
	k.looking = false
}

// grantedLocked calls Taken, or releases the lock if it is not to be kept, because its name was given up
// or the bound was lowered meanwhile.
func (k *Keeper) grantedLocked(e *entry, held *lock.Held) {
	e.held = held
	keep := k.core.grant(e, time.Now())
	k.followLocked(e)
	if !keep {
		k.giveLocked(e)
		return
	}
	k.stats.Taken++
	e.running = true
	var parent context.Context
	parent, e.cancel = context.WithCancelCause(context.Background())
	ctx := held.Context(parent)
	k.goroutines.Add(1) // for contextEnded, which is always called, because finish ends the parent
	context.AfterFunc(ctx, func() {
		defer k.goroutines.Done()
		k.contextEnded(e, held)
	})
	k.goroutines.Go(func() { k.run(e, ctx, held) })
}

// run calls Taken. If the name has begun to end meanwhile, run also calls finish.
func (k *Keeper) run(e *entry, ctx context.Context, held *lock.Held) {
	defer func() { // also after runtime.Goexit
		k.mu.Lock()
		e.running = false
		over := e.state == ending
		k.mu.Unlock()
		if over {
			k.finish(e)
		}
	}()
	k.cfg.Taken(ctx, e.name, held)
}

// contextEnded is called when the context of a name has ended: the lock was lost, or is given up.
func (k *Keeper) contextEnded(e *entry, held *lock.Held) {
	k.mu.Lock()
	mine := e.held == held && k.core.lose(e)
	if mine {
		k.stats.Lost++
		mine = !e.running
	}
	k.mu.Unlock()
	if mine {
		k.finish(e)
	}
}

// end ends names whose Taken has returned.
func (k *Keeper) end(entries []*entry) {
	if k.cfg.Ended != nil {
		for _, e := range entries {
			k.goroutines.Go(func() { k.finish(e) })
		}
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range entries {
		k.giveLocked(e)
	}
}

// finish calls Ended, and has the lock released.
func (k *Keeper) finish(e *entry) {
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.giveLocked(e)
	}()
	e.cancel(ErrGivenUp) // Drop may be about to call it too
	if k.cfg.Ended == nil {
		return
	}
	k.mu.Lock()
	lost, held := e.lost, e.held
	k.mu.Unlock()
	var err error
	if lost || !held.Valid() { // it may have been lost after it was given up, while Taken ran
		err = held.Err()
	}
	k.cfg.Ended(e.name, err)
}

// giveLocked has the lock of e released. All locks that wait for their release share the requests of
// UnlockMany, so a server that is silent costs the same however many locks there are.
func (k *Keeper) giveLocked(e *entry) {
	k.toGive = append(k.toGive, e)
	if !k.giving {
		k.giving = true
		k.goroutines.Go(k.give)
	}
}

// give releases locks until there are none to release.
func (k *Keeper) give() {
	for {
		k.mu.Lock()
		entries := k.toGive
		k.toGive = nil
		if len(entries) == 0 {
			k.giving = false
			k.endIfIdleLocked()
			k.mu.Unlock()
			return
		}
		helds := make([]*lock.Held, len(entries))
		for i, e := range entries {
			helds[i] = e.held
		}
		k.mu.Unlock()
		errs := lock.UnlockMany(context.Background(), helds)
		k.mu.Lock()
		for i, e := range entries {
			if errors.Is(errs[i], lock.ErrUnknown) {
				k.stats.Unreleased++
			}
			// The name is not followed yet, because the first message would end its rest.
			k.restLocked(e, k.core.finish(e, time.Now()))
		}
		k.lookLocked()
		k.pumpLocked()
		k.mu.Unlock()
	}
}

// restLocked sets the timer of a name that rests.
func (k *Keeper) restLocked(e *entry, rest time.Duration) {
	if rest > 0 {
		e.timer.Stop() // it may still be set from an earlier rest
		// The error says that the Keeper is closed.
		_ = k.wheel.ScheduleWithin(&e.timer, rest, slackOf(rest), e)
	}
}

// Fire has a name looked at whose time has come.
func (e *entry) Fire(*wheel.Timer) {
	e.keeper.mu.Lock()
	defer e.keeper.mu.Unlock()
	e.keeper.core.wake(e)
	e.keeper.lookLocked()
}

// endIfIdleLocked closes idle if the Keeper is closed and has nothing left.
func (k *Keeper) endIfIdleLocked() {
	if k.core.closed && !k.isIdle && len(k.core.entries) == 0 {
		k.isIdle = true
		close(k.idle)
	}
}
