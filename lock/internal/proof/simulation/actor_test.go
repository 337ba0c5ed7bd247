package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// player performs the acts of one actor of the scenario.
type player struct {
	world  *world
	client *client
	cancel context.CancelFunc // ends the latest call that takes something; guarded by world.mu
}

// play performs acts. If g is not nil, the actor holds g meanwhile. play returns false after Close, when
// the actor does nothing more.
func (p *player) play(acts []act, g *grant) bool {
	for _, a := range acts {
		if a.Do == cancels {
			p.world.cancelOf(a.Object)
			continue
		}
		o := p.world.objects[a.Object]
		switch a.Do {
		case pauses:
			points.Here("pause")
			time.Sleep(a.For)
		case locks:
			p.lock(a, o, g)
		case extends:
			ctx, cancel := contextWithin(a.Within)
			p.world.mu.Lock()
			p.world.asked[g.owner] = max(p.world.asked[g.owner], a.For)
			p.world.mu.Unlock()
			err := g.one.Extend(ctx, a.For)
			cancel()
			p.world.tell("owner %d: Extend: %v", g.owner, err)
			p.world.mustSucceed(g, a.Within, "Extend", err)
		case guards:
			ctx, cancel := contextWithin(a.Within)
			_, err := g.one.Guard(ctx, "RPUSH", []string{guarded}, strconv.Itoa(g.owner))
			cancel()
			p.world.tell("owner %d: Guard: %v", g.owner, err)
			p.world.mustSucceed(g, a.Within, "Guard", err)
		case counts:
			p.countDown(o)
		case awaits:
			p.await(a, o)
		case forces, deletes:
			p.disturb(a, o)
		case loses:
			points.Here("lose")
			p.world.tell("the counter of tokens of %s is lost", o.name)
			p.world.ask("DEL", p.world.counterOf(o))
		case silence, cuts:
			p.trouble(a)
		case restarts:
			p.restart(a)
		case succeeds:
			points.Here("succeed")
			p.world.mu.Lock()
			p.world.faults = true
			for _, o := range p.world.objects {
				o.alone = nil // a release that is under way goes unanswered, and is sent again
			}
			p.world.mu.Unlock()
			p.world.tell("an heir is the master behind the name")
			p.world.server.(*named).failOver()
		case java, setNX:
			p.other(a, o)
		case moves:
			points.Here("move")
			p.world.tell("the slot of %s is moved to server %d", o.name, a.Server)
			p.world.slots().move(o.name, a.Server)
			if !p.world.scenario.Small {
				p.world.mu.Lock()
				o.muteTo = max(o.muteTo, p.world.runningTime()+maxPoll/2)
				p.world.mu.Unlock()
			}
		case shifts:
			p.shift(a, o)
		case jumps:
			p.jump(a)
		case forbids:
			p.world.mu.Lock()
			p.world.faults = true
			for _, o := range p.world.objects {
				o.fewer = true
			}
			p.world.mu.Unlock()
			p.world.tell("client %d is forbidden most scripts of server %d for %v", p.client.id, a.Server, a.For)
			p.client.networks[a.Server].(*link).forbid(a.For)
		case wants, drops, bounds, leaves:
			if p.client.keeper != nil {
				p.client.keeper.keep(a)
			}
		case closes:
			p.close(a)
			return false
		}
	}
	return true
}

// cancelOf ends the context of an actor's latest call.
func (w *world) cancelOf(actor int) {
	points.Here("cancel")
	w.mu.Lock()
	cancel := w.players[actor].cancel
	w.mu.Unlock()
	if cancel != nil {
		w.tell("the context of actor %d is cancelled", actor)
		cancel()
	}
}

// contextWithin returns a context that ends after d, or one without a deadline if d is 0.
func contextWithin(d time.Duration) (context.Context, context.CancelFunc) {
	if d > 0 {
		return context.WithTimeout(context.Background(), d)
	}
	return context.WithCancel(context.Background())
}

// lock takes an object, performs the Acts of a, and unlocks. If outer is not nil, the owner of outer
// re-enters.
func (p *player) lock(a act, o *object, outer *grant) {
	if o.kind == semaphore && a.Within == 0 && !p.world.peaceful {
		a.Within = 20 * lease // a closed client may have kept permits for ever
	}
	ctx, cancel := contextWithin(a.Within)
	defer cancel()
	p.world.mu.Lock()
	p.cancel = cancel
	p.world.mu.Unlock()
	if outer != nil {
		ctx = outer.held.Context(ctx)
	}
	if g := p.take(ctx, a, o, outer); g != nil {
		p.play(a.Acts, g)
		if a.Forget && p.forget(g) {
			return
		}
		p.unlock(g, a.Again)
	}
}

// forget drops g's Held without an Unlock, and the garbage collector finds that. It returns false if the
// hold was lost before. Until the lease ends, no other client may have the lock.
func (p *player) forget(g *grant) bool {
	w := p.world
	ends, held := g.held.Deadline(), g.one
	if !g.held.Valid() {
		return false
	}
	w.mu.Lock()
	g.held, g.one, g.done = &foreign{world: w, grant: g, ends: ends, ours: true}, nil, nil
	g.object.mute = true // no message comes when its lease ends
	w.tellLocked("owner %d of client %d forgets %s", g.owner, g.client.id, g.object.name)
	asked := w.asked[g.owner]
	w.mu.Unlock()
	points.Forget(held)
	time.Sleep(max(lease, asked) + 2*ioTimeout) // a renewal may be under way
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants = slices.DeleteFunc(w.grants, func(x *grant) bool { return x == g })
	return true
}

// countDown counts a latch down.
func (p *player) countDown(o *object) {
	w := p.world
	w.mu.Lock()
	o.maybe++
	w.mu.Unlock()
	w.tell("client %d: CountDown of %s", p.client.id, o.name)
	err := p.client.CountDownLatch(o.name).CountDown(context.Background())
	w.tell("client %d: CountDown of %s: %v", p.client.id, o.name, err)
	w.mu.Lock()
	if err == nil {
		o.maybe--
		o.downs++
	}
	w.mu.Unlock()
	if err != nil && w.peaceful && !w.mayBeSlow() {
		w.fail("client %d: CountDown of %s failed, and nothing was in its way: %v", p.client.id, o.name, err)
	}
}

// await waits for a latch.
func (p *player) await(a act, o *object) {
	w := p.world
	ctx, cancel := contextWithin(a.Within)
	defer cancel()
	c := &call{object: o, client: p.client, waits: true}
	w.mu.Lock()
	p.cancel, w.calls[c] = cancel, true
	w.mu.Unlock()
	w.tell("client %d: Wait for %s", p.client.id, o.name)
	err := p.client.CountDownLatch(o.name).Wait(ctx)
	w.mu.Lock()
	delete(w.calls, c)
	o.passed = o.passed || err == nil
	w.mu.Unlock()
	w.tell("client %d: Wait for %s: %v", p.client.id, o.name, err)
}

// take takes an object. It returns nil if the object was not taken.
func (p *player) take(ctx context.Context, a act, o *object, outer *grant) *grant {
	w := p.world
	g := &grant{object: o, client: p.client, permits: a.Count, renewed: a.For == 0, reads: a.Reads && o.kind == readWrite, asked: w.runningTime()}
	how := "Lock"
	if a.Try {
		how = "TryLock"
	}
	var m *lock.Mutex
	several := p.client.several[o]
	switch o.kind {
	case mutex:
		m = p.client.Mutex(o.name)
	case fair:
		m = p.client.FairMutex(o.name)
	case readWrite:
		if rw := p.client.RWMutex(o.name); a.Reads {
			m = rw.Reader()
		} else {
			m = rw.Writer()
		}
	}
	c := &call{object: o, client: p.client, waits: !a.Try, reads: g.reads}
	ctx = context.WithValue(ctx, callKey{}, c)
	asked := a.For
	if g.renewed {
		asked = lease
	}
	w.mu.Lock()
	w.calls[c] = true
	if outer != nil {
		w.asked[outer.owner] = max(w.asked[outer.owner], asked)
	}
	w.mu.Unlock()
	w.tell("client %d: %s of %s, renewed %v, reads %v", p.client.id, how, o.name, g.renewed, g.reads)
	var err error
	var both *lock.MultiHeld
	sem := p.client.PermitSemaphore(o.name)
	n := int64(g.permits)
	switch {
	case several != nil && !a.Try && g.renewed:
		both, err = several.Lock(ctx)
	case several != nil && !a.Try:
		both, err = several.LockFor(ctx, a.For)
	case several != nil && g.renewed:
		both, err = several.TryLock(ctx)
	case several != nil:
		both, err = several.TryLockFor(ctx, a.For)
	case o.kind == semaphore:
		of := p.client.Semaphore(o.name)
		if g.held = (&counted{of, g}); a.Try {
			err = of.TryAcquire(ctx, n)
		} else {
			err = of.Acquire(ctx, n)
		}
	case m == nil && !a.Try && g.renewed:
		g.one, err = sem.Acquire(ctx, n)
	case m == nil && !a.Try:
		g.one, err = sem.AcquireFor(ctx, n, a.For)
	case m == nil && g.renewed:
		g.one, err = sem.TryAcquire(ctx, n)
	case m == nil:
		g.one, err = sem.TryAcquireFor(ctx, n, a.For)
	case !a.Try && g.renewed:
		g.one, err = m.Lock(ctx)
	case !a.Try:
		g.one, err = m.LockFor(ctx, a.For)
	case g.renewed:
		g.one, err = m.TryLock(ctx)
	default:
		g.one, err = m.TryLockFor(ctx, a.For)
	}
	w.mu.Lock()
	delete(w.calls, c)
	w.mu.Unlock()
	w.checkUnsent(c, err)
	g.safe = g.renewed && (outer == nil || outer.safe)
	if err != nil {
		w.tell("client %d: %s of %s: %v", p.client.id, how, o.name, err)
		refused := a.Try && errors.Is(err, lock.ErrNotAcquired)
		slow := o.kind.hasMembers() && w.scenario.Slowest > ioTimeout/10 // a member may answer too late
		if w.peaceful && g.safe && a.Within == 0 && !refused && !slow && !w.mayBeSlow() {
			w.fail("client %d: %s of %s failed, and nothing was in its way: %v", p.client.id, how, o.name, err)
		}
		return nil
	}
	switch {
	case both != nil:
		g.held = both
	case g.one != nil:
		g.held = g.one
	}
	w.granted(g, outer, asked)
	return g
}

// granted notes a new grant.
func (w *world) granted(g, outer *grant, asked time.Duration) {
	now := w.runningTime()
	done, valid, end := g.held.Done(), g.held.Valid(), g.held.Deadline()
	if g.one != nil {
		g.token = g.one.Token()
	}
	w.mu.Lock()
	g.granted, g.done = now, done
	if outer != nil {
		g.owner = outer.owner
	} else {
		w.owners++
		g.owner = w.owners
		w.asked[g.owner] = asked
	}
	o := g.object
	o.free = 0
	last := o.lastly
	bad := last != nil && g.token != 0 && outer == nil && g.token <= last.token && valid && !w.isExcused(g) && !w.isExcused(last)
	if outer == nil && g.token != 0 && valid {
		o.lastly = g
	}
	w.grants = append(w.grants, g)
	o.runs.got(g)
	w.tellLocked("client %d has %s as owner %d, token %d, for %v", g.client.id, o.name, g.owner, g.token, time.Until(end))
	w.mu.Unlock()
	if bad {
		w.fail("%s: token %d of owner %d comes after token %d of owner %d", o.name, g.token, g.owner, last.token, last.owner)
	}
}

// unlock unlocks g. After an unknown outcome it tries again, that many times.
func (p *player) unlock(g *grant, again int) {
	w := p.world
	w.tell("owner %d of client %d unlocks %s", g.owner, p.client.id, g.object.name)
	g.unlocking.Store(true)
	began, at := w.runningTime(), time.Now()
	err := g.held.Unlock(context.Background())
	w.tell("owner %d: Unlock: %v", g.owner, err)
	if err == nil {
		w.mu.Lock()
		g.object.runs.gaveBack(g, at)
		w.mu.Unlock()
	}
	w.mustSucceed(g, 0, "Unlock", err)
	if err == nil && w.mustBeLost(g, began) {
		w.fail("%s: owner %d has unlocked what was deleted long before, and Unlock says nothing of it", g.object.name, g.owner)
	}
	for ; errors.Is(err, lock.ErrUnknown) && again > 0 && g.object.kind != semaphore; again-- {
		err = g.held.Unlock(context.Background())
		w.tell("owner %d: Unlock again: %v", g.owner, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants = slices.DeleteFunc(w.grants, func(x *grant) bool { return x == g })
	// After an unknown outcome or a loss, Redis may keep the hold for some time, and a Guard that is under
	// way is carried out.
	if !errors.Is(err, lock.ErrUnknown) && !errors.Is(err, lock.ErrLost) && !slices.ContainsFunc(w.grants, func(x *grant) bool { return x.owner == g.owner }) {
		w.over[g.owner] = w.checks
	}
}

// mustBeLost reports whether g's last Unlock, at the time unlocked, must have found that Redis does not
// have the hold any more. The key was deleted while the client had it, and too long ago for a hand-over
// in memory.
func (w *world) mustBeLost(g *grant, unlocked time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults || w.late || g.object.kind != mutex && g.object.kind != fair {
		return false
	}
	if slices.ContainsFunc(w.grants, func(x *grant) bool { return x != g && x.owner == g.owner }) {
		return false // the Unlock of a re-entry need not ask Redis
	}
	return slices.ContainsFunc(g.object.taken, func(d disturbance) bool {
		return g.granted+inMemory < d.begun && d.ended+inMemory < unlocked
	})
}

// mayBeSlow reports whether a request may take longer than its timeout, because it needs several round
// trips. A key may have moved to another server, or a connection must be dialled and its server does not
// know the script.
func (w *world) mayBeSlow() bool {
	return (w.scenario.Cluster > 0 || !w.scenario.Small) && w.scenario.Slowest > ioTimeout/10
}

// hasSlowCables is mayBeSlow of worlds whose clients have connections, which carry answers one after the other.
func (w *world) hasSlowCables() bool { return !w.scenario.Small && w.mayBeSlow() }

// mustSucceed reports a broken promise if a call failed although no fault has happened.
func (w *world) mustSucceed(g *grant, within time.Duration, what string, err error) {
	if w.peaceful && g.safe && within == 0 && err != nil && !w.mayBeSlow() {
		w.fail("%s: %s of owner %d failed, and nothing was in its way: %v", g.object.name, what, g.owner, err)
	}
}

// disturb deletes an object, whoever holds it.
func (p *player) disturb(a act, o *object) {
	w := p.world
	points.Here("disturb")
	w.mu.Lock()
	i := len(o.taken) // its end is noted below
	o.taken = append(o.taken, disturbance{begun: w.runningTime(), ended: w.runningTime() + far, from: time.Now()})
	w.mu.Unlock()
	var err error
	if a.Do == forces {
		w.tell("client %d: ForceUnlock of %s", p.client.id, o.name)
		ctx, cancel := context.WithTimeout(context.Background(), lease)
		m := p.client.Mutex(o.name)
		switch o.kind {
		case fair:
			m = p.client.FairMutex(o.name)
		case readWrite:
			m = p.client.RWMutex(o.name).Writer()
		}
		_, err = m.ForceUnlock(ctx)
		cancel()
		w.tell("client %d: ForceUnlock of %s: %v", p.client.id, o.name, err)
	} else {
		w.tell("somebody deletes %s on server %d", o.name, a.Server)
		w.askAt(a.Server, "DEL", o.name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		o.taken[i].ended, o.taken[i].gone = w.runningTime(), time.Now()
	}
}

// trouble makes the network of the client fail.
func (p *player) trouble(a act) {
	w := p.world
	w.mu.Lock()
	w.faults = true
	w.mu.Unlock()
	if a.Do == silence {
		w.tell("the network of client %d to server %d is silent for %v", p.client.id, a.Server, a.For)
		p.client.networks[a.Server].fall(a.For)
		return
	}
	w.tell("the network of client %d to server %d is cut for %v, what is under way comes %v later (never if negative)", p.client.id, a.Server, a.For, a.Late)
	p.client.networks[a.Server].cut(a.For, a.Late)
}

// restart restarts a server. Only a RedLock survives that.
func (p *player) restart(a act) {
	w := p.world
	points.Here("restart")
	w.mu.Lock()
	w.faults, w.forgot = true, true
	for _, o := range w.objects {
		if o.kind != red && a.Server == 0 {
			o.taken = append(o.taken, disturbance{begun: w.runningTime(), ended: w.runningTime(), lacks: true})
		}
	}
	w.mu.Unlock()
	w.tell("server %d is restarted; what it lacks: %v (all if 0)", a.Server, a.Late)
	w.server.(*small).stores[a.Server].restart(a.Late)
	w.mu.Lock()
	clear(w.over) // what an Unlock has deleted may be there again, and so may what a Guard has written
	w.mu.Unlock()
	for _, o := range w.objects {
		if o.kind == latch && a.Server == 0 {
			w.mu.Lock()
			o.gone = true
			w.mu.Unlock()
		}
		if o.kind.hasPermits() && a.Server == 0 {
			w.mu.Lock()
			o.gone = true
			w.mu.Unlock()
			w.ask("SET", o.name, total)
		}
	}
}

// shift moves a slot key by key, with a pause before every key and before the new place of the slot
// is announced, or with one pause only.
func (p *player) shift(a act, o *object) {
	w := p.world
	points.Here("shift")
	to := a.Server
	if !w.slots().begin(o.name, to) {
		return
	}
	began := time.Now()
	w.mu.Lock()
	o.muteTo = far // messages that are published at one node do not reach listeners at the other
	w.mu.Unlock()
	w.tell("the slot of %s, which is a %s, goes to server %d, a key each %v", o.name, o.kind, to, a.For)
	rng := rand.New(rand.NewPCG(w.scenario.Seed, uint64(began.UnixNano())))
	once, first := rng.IntN(2) == 0, rng.IntN(4) // once: the only pause is behind the first keys
	for n, more := 0, true; more; n++ {
		if !once || n == first {
			time.Sleep(a.For)
		}
		points.Here("shift")
		more = w.slots().carry(keys.Slot(o.name), rng)
	}
	w.mu.Lock()
	o.muteTo = w.runningTime() + maxPoll/2 // until the waiters listen at the new node
	// Releases of permits are sent again for 20 s.
	o.fewer = o.fewer || time.Since(began) > 15*time.Second
	w.mu.Unlock()
	w.tell("the slot of %s has gone to server %d", o.name, to)
}

// far is later than the end of every world.
const far = 100 * time.Hour

// slots returns the slots of the Cluster, nil without one.
func (w *world) slots() *slots {
	if s, ok := w.server.(*nodes); ok {
		return s.cluster
	}
	return w.server.(*small).cluster
}

// jump sets the clock of a server. Leases there may then end earlier or later than their holders expect.
func (p *player) jump(a act) {
	w := p.world
	points.Here("jump")
	w.mu.Lock()
	w.faults = true
	w.back = w.back || a.For < 0
	for _, o := range w.objects {
		o.taken = append(o.taken, disturbance{begun: w.runningTime(), ended: w.runningTime() + longest + lease})
		o.gone = true
	}
	w.mu.Unlock()
	w.tell("the clock of server %d is set by %v", a.Server, a.For)
	w.server.(*small).stores[a.Server].jump(a.For)
}

// foreign is a hold of another library or a forgotten hold. It ends with its lease, which is not
// renewed.
type foreign struct {
	world *world
	grant *grant
	ends  time.Time
	ours  bool // a forgotten hold of our client; Close may release it
}

var _ held = (*foreign)(nil)

func (f *foreign) Valid() bool {
	closed := f.ours && f.grant.client.closing.Load()
	return !f.grant.unlocking.Load() && time.Now().Before(f.ends) && !closed
}
func (*foreign) Done() <-chan struct{}                          { return nil }
func (f *foreign) Deadline() time.Time                          { return f.world.began.Add(10 * most) } // a foreign hold has no end of trust
func (*foreign) Context(parent context.Context) context.Context { return parent }
func (*foreign) Unlock(context.Context) error                   { return nil }

// other takes a mutex as a client of another library does, and releases it. It polls, has the lease of
// all clients, and its requests take no time.
func (p *player) other(a act, o *object) {
	w, s := p.world, func() *store { return p.world.server.(*small).of(o.name) }
	w.mu.Lock()
	w.owners++
	g := &grant{object: o, client: p.client, owner: w.owners, asked: w.runningTime()}
	w.asked[g.owner] = lease
	o.mute = o.mute || a.Do == setNX
	w.mu.Unlock()
	name := fmt.Sprintf("5fe1d2d4-0000-4000-8000-00000000000%d:%d", p.client.id, g.owner)
	for began := w.runningTime(); ; {
		points.Here("other")
		ttl := 10 * time.Millisecond
		if a.Do == java {
			ttl = min(s().enter(o.name, name, lease), 100*time.Millisecond)
		} else if s().setNew(o.name, name, lease) {
			ttl = 0
		}
		if ttl == 0 {
			break
		}
		if w.runningTime()-began > a.Within {
			w.tell("%s: %s as owner %d is given up", o.name, a.Do, g.owner)
			return
		}
		time.Sleep(ttl)
	}
	f := &foreign{world: w, grant: g, ends: time.Now().Add(lease - time.Millisecond)}
	g.held = f
	w.mu.Lock()
	g.granted = w.runningTime()
	o.free = 0
	w.grants = append(w.grants, g)
	w.tellLocked("%s has %s as owner %d", a.Do, o.name, g.owner)
	w.mu.Unlock()
	time.Sleep(a.For)
	points.Here("other")
	w.tell("owner %d gives %s back", g.owner, o.name)
	g.unlocking.Store(true)
	if a.Do == java {
		s().leave(o.name, name)
	} else {
		s().unset(o.name, name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants = slices.DeleteFunc(w.grants, func(x *grant) bool { return x == g })
}

// close closes the client. Its other callers get errors, and unlock their holds.
func (p *player) close(a act) {
	w := p.world
	w.mu.Lock()
	w.faults = true
	for _, o := range w.objects {
		o.fewer = true
	}
	w.mu.Unlock()
	if p.client.keeper != nil {
		p.client.keeper.leave(a.Within)
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Within)
	defer cancel()
	w.tell("client %d closes", p.client.id)
	p.client.closing.Store(true)
	for i, node := range p.client.nodes {
		err := node.Close(ctx)
		w.tell("client %d, server %d: Close: %v", p.client.id, i, err)
	}
}
