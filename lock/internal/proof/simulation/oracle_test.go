package simulation_test

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// inMemory is for how long a client hands a lock over without asking Redis.
const inMemory = 100 * time.Millisecond

// keys returns the keys of an object without permits.
func (o *object) keys() []string {
	if o.kind == multi {
		return []string{o.name, o.name + " too"}
	}
	return []string{o.name}
}

// excused says that g need not have its object in Redis: somebody deleted that when g
// had it, or when it was on its way to g. w.mu is held.
func (w *world) excused(g *grant) bool {
	for _, d := range g.object.taken {
		// An answer may have been under way for an ordinary way, or be of a silent network.
		grace := max(inMemory, w.scenario.Slowest)
		if w.faults || w.late {
			grace += ioTimeout + ioTimeout/8
		}
		since := g.granted
		if g.object.kind.several() {
			since = g.asked // a member may have been taken long before the last one
		}
		if d.lacks { // who enters a hold again relies on what it was extended by before
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

// check looks at all that was granted. All goroutines stand still.
func (w *world) check() {
	w.mu.Lock()
	w.checks++
	grants := append([]*grant(nil), w.grants...)
	w.mu.Unlock()
	w.exclusive(grants)
	w.runs(grants)
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
		w.told(g, now, lastStanding)
		if g.held.Valid() {
			w.trusted(g, now)
		}
	}
	w.afterwards()
	w.latches()
}

// exclusive looks for two that have an object which one may have.
func (w *world) exclusive(grants []*grant) {
	w.mu.Lock()
	var bad [2]*grant
	used := map[*object]int{}
	for i, a := range grants {
		if !a.held.Valid() || w.excused(a) {
			continue
		}
		used[a.object] += a.permits
		if a.object.kind.counts() && !a.object.gone && used[a.object] > total {
			bad = [2]*grant{a, a}
		}
		for _, b := range grants[:i] {
			if a.object == b.object && !a.object.kind.counts() && a.owner != b.owner && (!a.reads || !b.reads) && !w.excused(b) && b.held.Valid() {
				bad = [2]*grant{a, b}
			}
		}
	}
	w.mu.Unlock()
	if a, b := bad[0], bad[1]; a != nil {
		w.fail("%s has two holders: owner %d of client %d and owner %d of client %d", a.object.name, a.owner, a.client.id, b.owner, b.client.id)
	}
}

// told checks that the holder was told when its hold is not trusted any more. That takes
// a tick or two of the wheel.
func (w *world) told(g *grant, now, lastStanding time.Time) {
	end := g.held.Deadline()
	if end.Before(g.ends) { // a member of a RedLock is lost, so others count
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

// trusted looks whether Redis keeps what g relies on for longer than g does.
func (w *world) trusted(g *grant, now time.Time) {
	w.mu.Lock()
	excused := w.excused(g)
	w.mu.Unlock()
	if excused || g.object.kind.counts() || g.object.kind.several() {
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
	w.kept(g, kept)
	fields, _ := redis.Strings(w.ask("HKEYS", g.object.name), nil)
	for _, f := range fields {
		if strings.HasPrefix(f, g.client.ID()) {
			return
		}
	}
	w.fail("%s: owner %d of client %d relies on it, and Redis has it for %q", g.object.name, g.owner, g.client.id, fields)
}

// guarded is where the commands of Guard leave their owners.
const guarded = "guards"

// kept looks whether Redis keeps what g's owner has for no longer than anybody has asked for: if
// its process died, others would wait for so long.
func (w *world) kept(g *grant, ttl time.Duration) {
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

// afterwards looks whether a command of Guard was carried out when its holder had unlocked.
func (w *world) afterwards() {
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

// latches checks that every CountDown took effect once, and that no waiter has passed a closed
// latch.
func (w *world) latches() {
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

// idle is called when no goroutine continues before some time has passed. It checks that no
// caller waits for a free object, and that every caller was told of a Close.
func (w *world) idle() {
	w.keepers()
	now := w.running()
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
			gone := w.excused(g) || len(g.object.taken) > 0 || g.object.kind == red || g.done == nil
			w.mu.Unlock()
			if g.client.closing.Load() && w.scheduler.HeldUp() == 0 && !gone {
				w.fail("%s: owner %d was not told that client %d closes", g.object.name, g.owner, g.client.id)
			}
		}
	}
	for _, o := range w.objects {
		if o.kind == mutex || o.kind == fair {
			w.orphaned(o, now)
		}
		if o.kind == readWrite {
			w.readersKept(o, now)
		}
		n := 0 // it is had by somebody
		if o.kind.counts() {
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
				troubled = troubled || n.troubled()
			}
			waits = waits || c.waits && c.object == o && !troubled
		}
		if o.gone || o.kind != mutex && w.faults || w.comes(o) {
			waits = false // one that is gone may be in front of it; what has several keys is taken when all have come
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

// readersKept looks whether a reader is kept out though only readers have the lock and no writer
// wants it, for longer than the message takes that a waiting writer has left.
func (w *world) readersKept(o *object, now time.Duration) {
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

// comes reports whether an object has several keys and its slot is being moved key by key.
func (w *world) comes(o *object) bool {
	if w.scenario.Cluster == 0 || o.kind == mutex {
		return false
	}
	_, _, moving := w.slots().moving(keys.Slot(o.name))
	return moving
}

// orphaned checks that Redis does not keep a lock for a client without a holder. A lock that was
// taken without an answer must be given back within orphans.
func (w *world) orphaned(o *object, now time.Duration) {
	fields, _ := redis.Strings(w.ask("HKEYS", o.name), nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	alone, bound := map[string]time.Duration{}, orphans
	if w.scenario.Cluster > 0 && !w.scenario.Small {
		bound += ioTimeout // while its slot moves, a lock's token is minted by a request of its own
		if w.roundabout() {
			bound += 2 * ioTimeout // a release that goes to both nodes may not be answered in time, and is sent again
		}
	}
	for i, c := range w.clients {
		late := o.gone && w.scenario.Clients[i].DropForgotten // a clock was set back, and a lease ends later
		if late || w.back || w.late || w.forgot || c.closing.Load() || slices.ContainsFunc(c.networks, trouble.troubled) ||
			slices.ContainsFunc(w.grants, func(g *grant) bool { return g.object == o && g.client == c }) {
			continue
		}
		for _, f := range fields {
			if !strings.HasPrefix(f, c.ID()) {
				continue
			}
			since, was := o.alone[f]
			if !was || w.comes(o) {
				since = now // what has several keys is given back when all have come
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

// nothingHeld checks that clients hold nothing after their callers have unlocked all, and that
// Redis has nothing of theirs.
func (w *world) nothingHeld() {
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
		if !o.kind.counts() {
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
		past, _ := redis.Int(w.ask("ZCOUNT", taken, 0, time.Now().UnixMilli()), nil) // those of a client that was closed
		if now, _ := redis.Int(w.ask("ZCARD", taken), nil); now != past || free+past != total {
			w.fail("%s has %d of %d permits when all are given back, %d whose lease is over, and %d that are taken", o.name, free, total, past, now-past)
		}
	}
}

// nothingLeft looks whether something of closed clients is left.
func (w *world) nothingLeft() {
	for server := range max(w.scenario.Servers, 1) {
		if channels, _ := redis.Strings(w.askAt(server, "PUBSUB", "CHANNELS"), nil); len(channels) > 0 {
			w.fail("closed clients still listen to %q", channels)
		}
	}
}
