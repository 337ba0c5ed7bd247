package simulation_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/wheellock/wheellock/integration/simulation/points"
	"github.com/wheellock/wheellock/lock"
)

// actor is a goroutine that uses a client.
type actor struct {
	world  *world
	client *client
	rng    *rand.Rand
}

// chance is true once in n times.
func (a *actor) chance(n int) bool { return a.rng.IntN(n) == 0 }

// act is what it does.
func (a *actor) act() {
	for range 3 + a.rng.IntN(5) {
		a.pause()
		o := a.world.objects[a.rng.IntN(len(a.world.objects))]
		n := a.rng.IntN(40)
		if a.world.handOvers && n >= 28 { // a hold that is renewed is lost when its key is deleted
			n = 34
		}
		switch {
		case n < 33:
			a.lock(o)
		case n < 35:
			a.disturb(o)
		case n < 38:
			a.breakNetwork()
		case n == 38:
			a.close()
			return
		}
	}
}

// pause lets a while pass, most often none.
func (a *actor) pause() {
	points.Here("pause")
	switch n := a.rng.IntN(16); {
	case n < 8:
	case n < 13:
		time.Sleep(time.Duration(a.rng.Int64N(int64(5 * time.Millisecond))))
	case n < 15:
		time.Sleep(time.Duration(a.rng.Int64N(int64(2 * inMemory))))
	default:
		time.Sleep(time.Duration(a.rng.Int64N(int64(lease))))
	}
}

// context is one that may end.
func (a *actor) context() (context.Context, context.CancelFunc) {
	if a.chance(4) {
		return context.WithTimeout(context.Background(), time.Duration(a.rng.Int64N(int64(lease))))
	}
	return context.WithCancel(context.Background())
}

// lock takes an object, works, and unlocks.
func (a *actor) lock(o *object) {
	ctx, cancel := a.context()
	defer cancel()
	if g := a.take(ctx, o, nil); g != nil {
		a.work(g, 0)
		a.unlock(g)
	}
}

// take takes an object, again if outer is not nil. It returns nil if it did not get it.
func (a *actor) take(ctx context.Context, o *object, outer *grant) *grant {
	w := a.world
	g := &grant{object: o, client: a.client, permits: 1, renewed: !a.chance(4) || a.world.handOvers}
	wait, how := !a.chance(5), "Lock"
	if !wait {
		how = "TryLock"
	}
	d := 4 * margin * time.Duration(1+a.rng.IntN(10)) // a shorter one has a smaller margin
	if a.chance(8) && !w.handOvers {
		d = 5 * lease
	}
	var m *lock.Mutex
	switch o.kind {
	case mutex:
		m = a.client.Mutex(o.name)
	case fair:
		m = a.client.FairMutex(o.name)
	case readWrite:
		rw := a.client.RWMutex(o.name)
		m = rw.Writer()
		if g.reads = a.chance(2); outer != nil {
			g.reads = outer.reads
		}
		if g.reads {
			m = rw.Reader()
		}
	}
	c := &call{object: o, client: a.client}
	if wait {
		w.mu.Lock()
		w.calls[c] = true
		w.mu.Unlock()
	}
	w.tell("client %d: %s of %s, renewed %v, reads %v", a.client.id, how, o.name, g.renewed, g.reads)
	var err error
	p := a.client.PermitSemaphore(o.name)
	g.permits = 1 + a.rng.IntN(2)
	n := int64(g.permits)
	switch {
	case m == nil && wait && g.renewed:
		g.held, err = p.Acquire(ctx, n)
	case m == nil && wait:
		g.held, err = p.AcquireFor(ctx, n, d)
	case m == nil && g.renewed:
		g.held, err = p.TryAcquire(ctx, n)
	case m == nil:
		g.held, err = p.TryAcquireFor(ctx, n, d)
	case wait && g.renewed:
		g.held, err = m.Lock(ctx)
	case wait:
		g.held, err = m.LockFor(ctx, d)
	case g.renewed:
		g.held, err = m.TryLock(ctx)
	default:
		g.held, err = m.TryLockFor(ctx, d)
	}
	w.mu.Lock()
	delete(w.calls, c)
	w.mu.Unlock()
	if err != nil {
		w.tell("client %d: %s of %s: %v", a.client.id, how, o.name, err)
		return nil
	}
	w.granted(g, outer)
	return g
}

// granted notes what was taken.
func (w *world) granted(g, outer *grant) {
	now := w.running()
	done := g.held.Done()
	w.mu.Lock()
	g.granted, g.done = now, done
	if outer != nil {
		g.owner = outer.owner
	} else {
		w.owners++
		g.owner = w.owners
	}
	o := g.object
	o.free = 0
	token := g.held.Token()
	last := o.lastly
	bad := last != nil && token != 0 && outer == nil && token <= last.held.Token() && g.held.Valid() && !w.excused(g) && !w.excused(last)
	if outer == nil && token != 0 && g.held.Valid() {
		o.lastly = g
	}
	w.grants = append(w.grants, g)
	w.tellLocked("client %d has %s as owner %d, token %d, for %v", g.client.id, o.name, g.owner, token, time.Until(g.held.Deadline()))
	w.mu.Unlock()
	if bad {
		w.fail("%s: token %d of owner %d comes after token %d of owner %d", o.name, token, g.owner, last.held.Token(), last.owner)
	}
}

// work is what the holder of g does.
func (a *actor) work(g *grant, depth int) {
	w := a.world
	for range a.rng.IntN(4) {
		ctx, cancel := a.context()
		switch n := a.rng.IntN(12); {
		case n < 5:
			a.pause()
		case n < 7 && depth < 2 && g.object.kind != permits:
			if again := a.take(g.held.Context(ctx), g.object, g); again != nil {
				a.work(again, depth+1)
				a.unlock(again)
			}
		case n < 9:
			err := g.held.Extend(ctx, lease+time.Duration(a.rng.IntN(3))*lease/2)
			w.tell("owner %d: Extend: %v", g.owner, err)
		case n < 11 && g.object.kind != permits:
			_, err := g.held.Guard(ctx, "RPUSH", []string{guards}, strconv.Itoa(g.owner))
			w.tell("owner %d: Guard: %v", g.owner, err)
		case n == 11 && a.chance(3):
			a.disturb(g.object)
		}
		cancel()
	}
}

// unlock gives g back.
func (a *actor) unlock(g *grant) {
	w := a.world
	w.tell("owner %d of client %d unlocks %s", g.owner, a.client.id, g.object.name)
	err := g.held.Unlock(context.Background())
	w.tell("owner %d: Unlock: %v", g.owner, err)
	for errors.Is(err, lock.ErrUnknown) && a.chance(2) {
		err = g.held.Unlock(context.Background())
		w.tell("owner %d: Unlock again: %v", g.owner, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants = slices.DeleteFunc(w.grants, func(x *grant) bool { return x == g })
	// After an unknown outcome Redis may have the hold for some time, and a Guard that was on its way runs.
	if !errors.Is(err, lock.ErrUnknown) && !slices.ContainsFunc(w.grants, func(x *grant) bool { return x.owner == g.owner }) {
		w.over[g.owner] = w.checks
	}
}

// disturb takes an object away from whoever has it.
func (a *actor) disturb(o *object) {
	w := a.world
	if o.kind == permits {
		return
	}
	w.mu.Lock()
	i := len(o.taken)
	far := time.Hour // it ends when it is known to have ended
	o.taken = append(o.taken, disturbance{w.running(), w.running() + far})
	w.mu.Unlock()
	var err error
	if a.chance(2) {
		w.tell("client %d: ForceUnlock of %s", a.client.id, o.name)
		ctx, cancel := context.WithTimeout(context.Background(), lease)
		m := a.client.Mutex(o.name)
		switch o.kind {
		case fair:
			m = a.client.FairMutex(o.name)
		case readWrite:
			m = a.client.RWMutex(o.name).Writer()
		}
		_, err = m.ForceUnlock(ctx)
		cancel()
		w.tell("client %d: ForceUnlock of %s: %v", a.client.id, o.name, err)
	} else {
		w.tell("somebody deletes %s", o.name)
		w.ask("DEL", o.name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		o.taken[i].ended = w.running()
	}
}

// breakNetwork makes the network of the client fail in one of the ways there are.
func (a *actor) breakNetwork() {
	w := a.world
	w.mu.Lock()
	w.faults = true
	w.mu.Unlock()
	d := time.Duration(a.rng.Int64N(int64(2 * ioTimeout)))
	if a.chance(4) {
		d = time.Duration(a.rng.Int64N(int64(lease + lease/2)))
	}
	if a.chance(2) {
		w.tell("the network of client %d is silent for %v", a.client.id, d)
		a.client.network.fall(d)
		return
	}
	late := time.Duration(-1)
	if a.chance(2) {
		late = time.Duration(a.rng.Int64N(int64(2 * ioTimeout)))
	}
	if a.chance(2) {
		d = 0
	}
	w.tell("the network of client %d is cut for %v, what is under way comes %v later (never if negative)", a.client.id, d, late)
	a.client.network.cut(d, late)
}

// close closes the client. Its other callers get errors, and unlock what they have.
func (a *actor) close() {
	w := a.world
	w.mu.Lock()
	w.faults = true
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.rng.Int64N(int64(lease))))
	defer cancel()
	w.tell("client %d closes", a.client.id)
	err := a.client.Close(ctx)
	w.tell("client %d: Close: %v", a.client.id, err)
}
