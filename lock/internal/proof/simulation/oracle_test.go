package simulation_test

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// inMemory is the time for which a client hands a lock over in memory after Redis has answered.
const inMemory = 100 * time.Millisecond

// keys returns the keys of an object without permits.
func (o *object) keys() []string {
	if o.kind == multi {
		return []string{o.name, o.name + " too"}
	}
	return []string{o.name}
}

// isExcused reports whether Redis need not have g: the object was deleted from outside while g had it, or
// while the answer to g was under way. w.mu is held.
func (w *world) isExcused(g *grant) bool {
	for _, d := range g.object.taken {
		// The answer may have been delayed as usual, or by a silent network.
		grace := max(inMemory, w.scenario.Slowest)
		if w.faults || w.late || w.hasSlowCables() { // over a slow connection an answer waits for those before it
			grace += ioTimeout + ioTimeout/8
		}
		since := g.granted
		if g.object.kind.hasMembers() {
			since = g.asked // a member may have been taken long before the last one
		}
		if d.lacks { // a re-entry relies on extensions before it
			for _, x := range w.grants {
				if x.object == g.object && x.owner == g.owner {
					since = min(since, x.granted)
				}
			}
		}
		if since <= d.ended+grace+time.Millisecond {
			return true
		}
	}
	return false
}

// check checks all grants. All goroutines stand still.
func (w *world) check() {
	w.mu.Lock()
	w.checks++
	grants := append([]*grant(nil), w.grants...)
	w.mu.Unlock()
	w.checkExclusive(grants)
	w.checkRuns(grants)
	now := time.Now()
	_, lastStanding := w.scheduler.Standing()
	for _, g := range grants {
		select {
		case <-g.done:
			if w.peaceful && g.safe && !g.unlocking.Load() {
				w.fail("%s: owner %d of client %d was told of a loss, and nothing has made it lose anything", g.object.name, g.owner, g.client.id)
			}
		default:
		}
		if _, other := g.held.(*foreign); other {
			continue
		}
		w.checkTold(g, now, lastStanding)
		if g.held.Valid() {
			w.checkTrusted(g, now)
		}
	}
	w.checkGuards()
	w.checkLatches()
}

// checkExclusive checks that no object has more holders than it may have.
func (w *world) checkExclusive(grants []*grant) {
	w.mu.Lock()
	var bad [2]*grant
	used := map[*object]int{}
	for i, a := range grants {
		if !a.held.Valid() || w.isExcused(a) {
			continue
		}
		used[a.object] += a.permits
		if a.object.kind.hasPermits() && !a.object.gone && used[a.object] > total {
			bad = [2]*grant{a, a}
		}
		for _, b := range grants[:i] {
			if a.object == b.object && !a.object.kind.hasPermits() && a.owner != b.owner && (!a.reads || !b.reads) && !w.isExcused(b) && b.held.Valid() {
				bad = [2]*grant{a, b}
			}
		}
	}
	w.mu.Unlock()
	if a, b := bad[0], bad[1]; a != nil {
		w.fail("%s has two holders: owner %d of client %d and owner %d of client %d", a.object.name, a.owner, a.client.id, b.owner, b.client.id)
	}
}

// checkTold checks that the holder was told when trust in its hold has ended. That may take a tick or two
// of the wheel.
func (w *world) checkTold(g *grant, now, lastStanding time.Time) {
	end := g.held.Deadline()
	if end.Before(g.ends) { // a member of a RedLock is lost, so the ends of others count
		g.earlier = now
	}
	if g.ends = end; end.Before(g.earlier) {
		end = g.earlier
	}
	if late := now.Sub(end); late < 25*time.Millisecond || !lastStanding.Before(end) {
		return
	}
	select {
	case <-g.done:
	default:
		w.fail("%s: owner %d of client %d was not told that its trust has ended %v ago", g.object.name, g.owner, g.client.id, now.Sub(end))
	}
}

// checkTrusted checks that Redis keeps g's key for longer than the client trusts g.
func (w *world) checkTrusted(g *grant, now time.Time) {
	w.mu.Lock()
	excused := w.isExcused(g)
	w.mu.Unlock()
	if excused || g.object.kind.hasPermits() || g.object.kind.hasMembers() {
		return
	}
	deadline := g.held.Deadline()
	if !g.held.Valid() {
		return
	}
	ttl, _ := redis.Int64(w.ask("PTTL", g.object.name), nil)
	// Scripts read and write whole milliseconds.
	trusted, kept := deadline.Add(margin).Sub(now), time.Duration(ttl+2)*time.Millisecond
	if ttl < 0 || trusted > kept {
		w.fail("%s: owner %d of client %d relies on it for %v (with its margin), and Redis keeps it for %d ms", g.object.name, g.owner, g.client.id, trusted, ttl)
	}
	w.checkLeaseLength(g, kept)
	fields, _ := redis.Strings(w.ask("HKEYS", g.object.name), nil)
	for _, f := range fields {
		if strings.HasPrefix(f, g.client.ID()) {
			return
		}
	}
	w.fail("%s: owner %d of client %d relies on it, and Redis has it for %q", g.object.name, g.owner, g.client.id, fields)
}

// guarded is the key of a list. Every command of Guard appends its owner.
const guarded = "guards"

// checkLeaseLength checks that Redis does not keep g's key for longer than its owner has asked. Others
// would have to wait that long if the process died.
func (w *world) checkLeaseLength(g *grant, ttl time.Duration) {
	if g.object.kind != mutex && g.object.kind != fair {
		return
	}
	w.mu.Lock()
	asked := w.asked[g.owner]
	w.mu.Unlock()
	if ttl > asked+3*time.Millisecond {
		w.fail("%s: Redis keeps it for %v, and owner %d of client %d has asked for %v", g.object.name, ttl, g.owner, g.client.id, asked)
	}
}

// checkGuards checks that no command of Guard was carried out after the Unlock of its holder.
func (w *world) checkGuards() {
	ran, _ := redis.Strings(w.ask("LRANGE", guarded, 0, -1), nil)
	if len(ran) == 0 {
		return
	}
	w.ask("DEL", guarded)
	w.mu.Lock()
	owner := -1
	for _, text := range ran {
		n, _ := strconv.Atoi(text)
		if at, over := w.over[n]; over && at < w.checks-1 {
			owner = n
		}
	}
	w.mu.Unlock()
	if owner >= 0 {
		w.fail("a command of Guard of owner %d was carried out after its Unlock", owner)
	}
}

// checkLatches checks that every CountDown took effect once, and that no waiter has passed a closed
// latch.
func (w *world) checkLatches() {
	for _, o := range w.objects {
		if o.kind != latch {
			continue
		}
		text, _ := redis.String(w.ask("GET", o.name), nil)
		left, _ := strconv.Atoi(text)
		w.mu.Lock()
		downs, maybe, passed, gone := o.downs, o.maybe, o.passed, o.gone
		w.mu.Unlock()
		switch {
		case gone:
		case left > max(total-downs, 0) || left < total-downs-maybe:
			w.fail("%s: %d of %d are left after %d count-downs, and %d that are not answered", o.name, left, total, downs, maybe)
		case passed && left > 0:
			w.fail("%s: somebody who waits for it has gone on, and %d count-downs are missing", o.name, left)
		}
	}
}

// checkIdle is called when no goroutine is ready, so that time goes on. It checks that no
// caller waits for a free object, and that every caller was told of a Close.
func (w *world) checkIdle() {
	w.checkKeepers()
	now := w.runningTime()
	w.mu.Lock()
	grants := append([]*grant(nil), w.grants...)
	w.mu.Unlock()
	for _, g := range grants {
		select {
		case <-g.done:
		default:
			// A RedLock continues without a member. A hold that Redis has forgotten, beside a newer hold of the same client, is lost a
			// moment later, when the client asks about it.
			w.mu.Lock()
			gone := w.isExcused(g) || len(g.object.taken) > 0 || g.object.kind == red || g.done == nil
			w.mu.Unlock()
			if g.client.closing.Load() && w.scheduler.HeldUp() == 0 && !gone {
				w.fail("%s: owner %d was not told that client %d closes", g.object.name, g.owner, g.client.id)
			}
		}
	}
	for _, o := range w.objects {
		if o.kind == mutex || o.kind == fair {
			w.checkOrphans(o, now)
		}
		if o.kind == readWrite {
			w.checkReaders(o, now)
		}
		n := 0 // 1 if the object has a holder
		if o.kind.hasPermits() {
			if free, _ := redis.Int(w.ask("GET", o.name), nil); free < total {
				n = 1
			}
		} else {
			for _, key := range o.keys() {
				for server := range max(w.scenario.Servers, 1) {
					there, _ := redis.Int(w.askAt(server, "EXISTS", key), nil)
					n |= there
				}
			}
		}
		w.mu.Lock()
		waits := false
		for c := range w.calls {
			troubled := false
			for _, n := range c.client.networks {
				troubled = troubled || n.isTroubled()
			}
			waits = waits || c.waits && c.object == o && !troubled
		}
		if o.gone || o.kind != mutex && w.faults || w.isSplit(o) {
			waits = false // a dead waiter may be before it, or some of its keys are still at the old node
		}
		if o.isFree && waits && n == 0 {
			o.free += now - o.looked
		} else {
			o.free = 0
		}
		o.isFree, o.looked = n == 0 && waits, now
		free := o.free
		// A Mutex that goes without a message is found free within six MaxPolls. With a
		// network that loses nothing a message, or a caller of the same client, wakes the
		// next one.
		bound := 6*maxPoll + 3*ioTimeout
		if !w.faults && !w.late && w.scenario.Slowest < 10*time.Millisecond && len(o.taken) == 0 && o.kind != fair && !o.mute && now-free > o.muteTo {
			bound = maxPoll / 3
		}
		w.mu.Unlock()
		if free > bound {
			w.fail("somebody has waited for %v for %s, which nobody has", free, o.name)
		}
	}
}

// checkReaders checks that no reader is kept out while only readers have the lock and no writer wants it.
// It allows the time of the message that a waiting writer has left.
func (w *world) checkReaders(o *object, now time.Duration) {
	w.mu.Lock()
	troubled := w.faults || w.late || len(o.taken) > 0 || w.scenario.Slowest >= 10*time.Millisecond || w.scenario.Cluster > 0
	readers, writers, waits := false, false, false
	for _, g := range w.grants {
		if g.object == o {
			readers, writers = readers || g.reads, writers || !g.reads
		}
	}
	for c := range w.calls {
		if c.object == o {
			waits, writers = waits || c.reads && c.waits, writers || !c.reads
		}
	}
	if troubled || writers || !readers || !waits {
		o.kept = 0
	} else if o.kept == 0 {
		o.kept = now
	}
	since := o.kept
	w.mu.Unlock()
	if since > 0 && now-since > maxPoll/3 {
		w.fail("%s: a reader has waited for %v, only readers have it, and no writer wants it", o.name, now-since)
	}
}

// isSplit reports whether an object has several keys and its slot is being moved key by key.
func (w *world) isSplit(o *object) bool {
	if w.scenario.Cluster == 0 || o.kind == mutex {
		return false
	}
	_, _, moving := w.slots().moving(keys.Slot(o.name))
	return moving
}

// checkOrphans checks that Redis does not keep a lock for a client without a holder. A lock that was
// taken without an answer must be given back within orphans.
func (w *world) checkOrphans(o *object, now time.Duration) {
	fields, _ := redis.Strings(w.ask("HKEYS", o.name), nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	alone, bound := map[string]time.Duration{}, orphans
	if w.scenario.Cluster > 0 && !w.scenario.Small {
		bound += ioTimeout // while its slot moves, a lock's token is minted by a request of its own
	}
	if w.hasSlowCables() {
		// A request may not be answered in time, and is sent again: a release that goes to both nodes of a
		// Cluster, and the try of a waiter for a FairMutex, which keeps its field meanwhile.
		bound += 2 * ioTimeout
	}
	for i, c := range w.clients {
		late := o.gone && w.scenario.Clients[i].DropForgotten // a clock was set back, and a lease ends later
		if late || w.back || w.late || w.forgot || c.closing.Load() || slices.ContainsFunc(c.networks, trouble.isTroubled) ||
			slices.ContainsFunc(w.grants, func(g *grant) bool { return g.object == o && g.client == c }) {
			continue
		}
		for _, f := range fields {
			if !strings.HasPrefix(f, c.ID()) {
				continue
			}
			since, was := o.alone[f]
			if !was || w.isSplit(o) {
				since = now // the client can release it only when all its keys are at one node
			}
			if alone[f] = since; now-since > bound {
				w.mu.Unlock()
				w.fail("%s: Redis has it for client %d since %v: %q, and nobody there has it", o.name, c.id, now-since, f)
			}
		}
	}
	o.alone = alone
}

// orphans is the longest time until a lock that was taken without an answer is given back: the
// acquisition may be carried out late, and a release without an answer is sent again.
const orphans = 3 * ioTimeout

// checkNothingHeld checks that clients hold nothing after their callers have unlocked all, and that
// Redis has nothing of theirs.
func (w *world) checkNothingHeld() {
	for _, c := range w.clients {
		for _, node := range c.nodes {
			if st := node.Stats(); st.Held != 0 || st.Waiting != 0 {
				w.fail("client %d holds %d and has %d waiting when all have unlocked", c.id, st.Held, st.Waiting)
			}
		}
	}
	for _, o := range w.objects {
		if o.kind == latch {
			continue // nobody holds it
		}
		if !o.kind.hasPermits() {
			for _, key := range o.keys() {
				for server := range max(w.scenario.Servers, 1) {
					if n, _ := redis.Int(w.askAt(server, "EXISTS", key), nil); n != 0 {
						w.fail("%s is on server %d when all have unlocked: %q", key, server, w.askAt(server, "HGETALL", key))
					}
				}
			}
			continue
		}
		if o.gone {
			continue
		}
		free, _ := redis.Int(w.ask("GET", o.name), nil)
		if o.kind == semaphore {
			if free > total || free < total && !o.fewer {
				w.fail("%s has %d of %d permits when all are given back", o.name, free, total)
			}
			continue
		}
		taken := "{" + o.name + "}:timeout"
		past, _ := redis.Int(w.ask("ZCOUNT", taken, 0, time.Now().UnixMilli()), nil) // permits of a client that was closed
		if now, _ := redis.Int(w.ask("ZCARD", taken), nil); now != past || free+past != total {
			w.fail("%s has %d of %d permits when all are given back, %d whose lease is over, and %d that are taken", o.name, free, total, past, now-past)
		}
	}
}

// checkNothingLeft checks that closed clients have left no subscription.
func (w *world) checkNothingLeft() {
	for server := range max(w.scenario.Servers, 1) {
		if channels, _ := redis.Strings(w.askAt(server, "PUBSUB", "CHANNELS"), nil); len(channels) > 0 {
			w.fail("closed clients still listen to %q", channels)
		}
	}
}
