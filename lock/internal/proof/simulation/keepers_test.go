package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/keeper"
)

// A client may have a Keeper, whose names are the objects of the world. Each call of Taken makes a
// grant, which ends with the call of Ended. So the oracles of locks apply to it too.

// keeping is how the Keeper of a client is configured.
type keeping struct {
	Most  int           `json:",omitempty"`
	Share bool          `json:",omitempty"` // with the other Keepers that share
	Slow  time.Duration `json:",omitempty"` // Taken and Ended take so long
	Loops bool          `json:",omitempty"` // Taken runs until its context ends
}

// What actors do with the Keeper of their client. Want and Drop are of Count objects, from Object on.
const (
	wants  what = "want"
	drops  what = "drop"
	bounds what = "bound"        // SetMost of Count
	leaves what = "close keeper" // within Within
)

// look is the longest time between two looks of all Keepers.
const look = 300 * time.Millisecond

// share is the name of the set that Keepers share, and sharers is what MaxSharers is here, see Weave.
const (
	share   = "shared"
	sharers = 4
)

// housekeeper is a Keeper of a world.
type housekeeper struct {
	*keeper.Keeper
	world  *world
	client *client
	how    keeping

	// guarded by world.mu
	wanted map[*object]*setting
	most   setting
	taken  map[*object]*grant // Taken was called, and Ended has not returned
	leaves bool               // Close was called
	left   bool               // Close has returned, and said that nothing is left

	// Only the oracle uses these.
	down    period // in which its server cannot be reached; what it has asked is counted
	failing period // in which it knows that; tries that failed are counted
}

// visit is a call of Taken, with what follows.
type visit struct {
	ctx context.Context

	// guarded by world.mu
	runs  bool      // Taken has not returned
	ends  bool      // Ended was called
	sleep bool      // Taken or Ended sleeps
	over  time.Time // when the oracle saw first that the hold has ended
}

// setting is a value that several goroutines set. It is known if no call is under way, and the last calls
// did not overlap.
type setting struct {
	value   int
	under   int // calls under way
	overlap bool
	known   bool
}

func (s *setting) begin() {
	s.overlap = s.overlap || s.under > 0
	s.under++
	s.known = false
}

func (s *setting) end(value int) {
	if s.under--; s.under == 0 {
		s.value, s.known, s.overlap = value, !s.overlap, false
	}
}

// is reports whether the setting is known to have this value.
func (s *setting) is(value int) bool { return s.known && s.value == value }

// newHousekeeper makes the Keeper of a client.
func (w *world) newHousekeeper(t require.TestingT, c *client, how keeping) {
	k := &housekeeper{world: w, client: c, how: how, wanted: map[*object]*setting{}, most: setting{value: how.Most, known: true}, taken: map[*object]*grant{}}
	for _, o := range w.objects {
		k.wanted[o] = &setting{known: true}
	}
	cfg := keeper.Config{Taken: k.onTaken, Ended: k.onEnded, Most: how.Most, Look: look}
	if how.Share {
		cfg.Share = share
	}
	var err error
	k.Keeper, err = keeper.New(c.Client, cfg)
	require.NoError(t, err)
	c.keeper = k
}

// object returns the object of a name.
func (k *housekeeper) object(name string) *object {
	objects := k.world.objects
	return objects[slices.IndexFunc(objects, func(o *object) bool { return o.name == name })]
}

// onTaken is Config.Taken.
func (k *housekeeper) onTaken(ctx context.Context, name string, held *lock.Held) {
	w, o := k.world, k.object(name)
	v := &visit{ctx: ctx, runs: true}
	g := &grant{object: o, client: k.client, held: held, one: held, renewed: true, safe: true, asked: w.runningTime(), visit: v}
	over := ctx.Err() != nil // a name that is given up at once is taken with a context that has ended
	w.mu.Lock()
	before, left := k.taken[o], k.left
	wanted := over || !k.wanted[o].is(0)
	k.taken[o] = g
	w.mu.Unlock()
	switch {
	case before != nil:
		w.fail("%s: Taken is called, and Ended of owner %d has not returned", name, before.owner)
	case left:
		w.fail("%s: Taken is called after Close of the Keeper of client %d", name, k.client.id)
	case !wanted:
		w.fail("%s: client %d has taken it again after Drop", name, k.client.id)
	}
	w.granted(g, nil, lease)
	if k.how.Loops {
		<-ctx.Done()
		points.Here("loops")
	}
	k.sleep(v)
	w.mu.Lock()
	v.runs = false
	w.mu.Unlock()
}

// sleep sleeps for Slow, as a slow callback of a program.
func (k *housekeeper) sleep(v *visit) {
	if k.how.Slow == 0 {
		return
	}
	k.world.mu.Lock()
	v.sleep = true
	k.world.mu.Unlock()
	time.Sleep(k.how.Slow)
	points.Here("slept")
	k.world.mu.Lock()
	v.sleep = false
	k.world.mu.Unlock()
}

// onEnded is Config.Ended.
func (k *housekeeper) onEnded(name string, err error) {
	w, o := k.world, k.object(name)
	w.mu.Lock()
	g, left := k.taken[o], k.left
	bad := g == nil || left || g.visit.runs || g.visit.ends
	if !bad {
		g.visit.ends = true
	}
	w.mu.Unlock()
	if bad {
		w.fail("%s: Ended is called for client %d, and Taken was not called before, or runs, or Ended was called", name, k.client.id)
	}
	lost := false
	select {
	case <-g.done:
		lost = true
	default:
	}
	w.tell("owner %d of client %d: Ended of %s: %v", g.owner, k.client.id, name, err)
	if g.visit.ctx.Err() == nil || err != nil && (!lost || !errors.Is(err, lock.ErrLost)) || err == nil && !errors.Is(context.Cause(g.visit.ctx), keeper.ErrGivenUp) && !lost {
		w.fail("%s: Ended of owner %d says %v, its context %v, and the hold is lost: %v", name, g.owner, err, context.Cause(g.visit.ctx), lost)
	}
	k.sleep(g.visit)
	g.unlocking.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(k.taken, o)
	w.grants = slices.DeleteFunc(w.grants, func(x *grant) bool { return x == g })
}

// keep does an act with the Keeper.
func (k *housekeeper) keep(a act) {
	w := k.world
	points.Here("keeper")
	switch a.Do {
	case wants, drops:
		var names []string
		objects := w.objects[a.Object:min(a.Object+a.Count, len(w.objects))]
		value := 0
		w.mu.Lock()
		for _, o := range objects {
			names = append(names, o.name)
			k.wanted[o].begin()
		}
		w.mu.Unlock()
		w.tell("the Keeper of client %d: %s %q", k.client.id, a.Do, names)
		if a.Do == drops {
			k.Drop(names...)
		} else if err := k.Want(names...); err != nil {
			w.fail("Want: %v", err)
		} else {
			value = 1
		}
		var dropped []*grant
		w.mu.Lock()
		for _, o := range objects {
			k.wanted[o].end(value)
			if g := k.taken[o]; g != nil && k.wanted[o].is(0) {
				dropped = append(dropped, g)
			}
		}
		w.mu.Unlock()
		for _, g := range dropped {
			if g.visit.ctx.Err() == nil {
				w.fail("%s: Drop has returned, and owner %d of client %d is not told", g.object.name, g.owner, k.client.id)
			}
		}
	case bounds:
		w.mu.Lock()
		k.most.begin()
		w.mu.Unlock()
		w.tell("the Keeper of client %d: SetMost %d", k.client.id, a.Count)
		k.SetMost(a.Count)
		w.mu.Lock()
		k.most.end(a.Count)
		w.mu.Unlock()
	case leaves:
		k.leave(a.Within)
	}
}

// leave closes the Keeper.
func (k *housekeeper) leave(within time.Duration) {
	w := k.world
	w.mu.Lock()
	k.leaves = true
	w.mu.Unlock()
	w.tell("the Keeper of client %d closes", k.client.id)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	err := k.Close(ctx)
	cancel()
	w.tell("the Keeper of client %d: Close: %v", k.client.id, err)
	w.mu.Lock()
	k.left = k.left || err == nil
	taken := len(k.taken)
	w.mu.Unlock()
	if err == nil && taken > 0 {
		w.fail("the Keeper of client %d is closed, and Ended of %d names has not returned", k.client.id, taken)
	}
}

// checkKeepers is called when no goroutine continues before some time has passed. It checks that Ended was
// called for each hold that has ended, that dropped names are not kept, and that Most is kept. It also
// calls few for each Keeper.
func (w *world) checkKeepers() {
	for _, c := range w.clients {
		k := c.keeper
		if k == nil {
			continue
		}
		k.checkFewRequests()
		if w.scheduler.HeldUp() > 0 {
			continue
		}
		w.mu.Lock()
		var late, dropped *grant
		kept := 0
		for _, o := range w.objects {
			g := k.taken[o]
			if g == nil || g.visit.sleep {
				continue
			}
			over := false
			select {
			case <-g.done:
				over = true
			case <-g.visit.ctx.Done():
				over = true
			default:
			}
			if over && g.visit.over.IsZero() {
				g.visit.over = time.Now() // the hold may have ended in this moment, so Ended may still come
			}
			switch {
			case over && g.visit.over.Equal(time.Now()):
			case over: // the function does not sleep, and Ended has not returned
				late = g
			case k.wanted[o].is(0) || k.leaves:
				dropped = g
			default:
				kept++
			}
		}
		most, known := k.most.value, k.most.known
		w.mu.Unlock()
		switch {
		case late != nil:
			w.fail("%s: the hold of owner %d of client %d has ended, and Ended is not called", late.object.name, late.owner, c.id)
		case dropped != nil:
			w.fail("%s: it is dropped, and client %d keeps it", dropped.object.name, c.id)
		case known && most > 0 && kept > most:
			w.fail("the Keeper of client %d keeps %d names, and may keep %d", c.id, kept, most)
		}
	}
}

// checkFewRequests checks that a Keeper sends few requests while no server can be reached. Until 8 tries have failed,
// all names may be tried. Then there are pauses of at least 75 ms, each twice as long as the last.
func (k *housekeeper) checkFewRequests() {
	w, now := k.world, time.Now()
	st, names := k.Stats(), len(w.objects)
	if slices.ContainsFunc(k.client.networks, func(n trouble) bool { return !n.(*link).unreachable() }) {
		k.down, k.failing = period{}, period{}
		return
	}
	const before, probes = 8, 10
	if n, d := k.down.count(now, st.Tries+st.Looks); n > 2*(before+2*names+probes) {
		w.fail("the Keeper of client %d has asked %d times in %v, while its server could not be reached", k.client.id, n, d)
	}
	if !st.Failing {
		k.failing = period{}
	} else if n, d := k.failing.count(now, st.Failed); n > names+2+bits.Len64(uint64(d/(75*time.Millisecond))) {
		w.fail("the Keeper of client %d has tried %d times in %v, while it knew that its server could not be reached", k.client.id, n, d)
	}
}

// period is a time in which something is counted.
type period struct {
	began  time.Time // zero if it has not begun
	before uint64    // the count then
}

// count returns by how much the count has grown since the period began, which may be now.
func (p *period) count(now time.Time, count uint64) (n int, d time.Duration) {
	if p.began.IsZero() {
		*p = period{now, count}
	}
	return int(count - p.before), now.Sub(p.began)
}

// unreachable reports whether nothing arrives now.
func (l *link) unreachable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return now.Before(l.down) || now.Before(l.silent)
}

// allKept is called after all faults have ended. It lets some time pass, and checks that each name is
// kept by one Keeper that wants it, unless all Keepers that want it keep as many names as they may.
func (w *world) allKept() {
	var open []*housekeeper
	n := 0
	for _, c := range w.clients {
		switch k := c.keeper; {
		case k == nil || k.left:
		case k.leaves:
			k.leave(time.Minute)
		default:
			if open = append(open, k); k.how.Share {
				n++
			}
		}
	}
	if len(open) == 0 {
		return
	}
	for _, k := range open { // sets again the values that are not known
		for i, o := range w.objects {
			if !k.wanted[o].known {
				k.keep(act{Do: wants, Object: i, Count: 1})
			}
		}
		if !k.most.known {
			k.keep(act{Do: bounds, Count: 1})
		}
	}
	quiet := lease + 3*look + time.Second
	if !w.peaceful {
		quiet = longest + 10*time.Second // leases of clients that were closed, and the longest pause between two probes
		if w.back {
			quiet += longest
		}
	}
	time.Sleep(quiet)
	w.check()
	w.checkKeepers()
	keeps := func(k *housekeeper) (names, bound int) {
		wanted := 0
		for _, o := range w.objects {
			wanted += k.wanted[o].value
			if k.taken[o] != nil {
				names++
			}
		}
		bound = len(w.objects)
		if k.most.value > 0 {
			bound = min(bound, k.most.value)
		}
		if k.how.Share {
			bound = min(bound, (wanted+n-1)/n)
		}
		return names, bound
	}
	said := ""
	w.mu.Lock()
	for _, o := range w.objects {
		kept, room := 0, false
		for _, k := range open {
			names, bound := keeps(k)
			if names > bound {
				said = fmt.Sprintf("the Keeper of client %d keeps %d names, and its share is %d", k.client.id, names, bound)
			}
			if k.taken[o] != nil {
				kept++
			}
			room = room || k.wanted[o].value == 1 && names < bound
		}
		if kept == 0 && room || kept > 1 {
			said = fmt.Sprintf("%s: after %v without any fault %d Keepers keep it", o.name, quiet, kept)
		}
	}
	w.mu.Unlock()
	if said != "" {
		w.fail("%s", said)
	}
	for _, c := range w.clients {
		if c.keeper == nil || c.keeper.left {
			continue
		}
		if c.keeper.leave(time.Minute); !c.keeper.left {
			w.fail("the Keeper of client %d cannot be closed", c.id)
		}
	}
	for i := range sharers {
		place := fmt.Sprintf("%s:sharer:%d", share, i)
		for server := range max(w.scenario.Cluster, 1) {
			if there, _ := redis.Int(w.askAt(server, "EXISTS", place), nil); there != 0 && !w.late {
				w.fail("%s is there when all Keepers are closed", place)
			}
		}
	}
}

// keepers turns a scenario into one in which clients have Keepers.
func (d drawer) keepers(s *scenario) {
	d.weights[wants], d.weights[drops], d.weights[bounds], d.weights[leaves] = 6, some(d, 0, 3, 6), some(d, 0, 0, 3), some(d, 0, 0, 1)
	d.weights[locks], d.weights[closes] = some(d, 0, 2, 8), some(d, 0, 0, 0, 1)
	d.likely["a context that ends"], d.likely["a pause"], d.likely["a long pause"] = 8, 7, 4 // a Keeper may keep a name for ever
	s.Objects = nil
	for range 1 + d.IntN(4) {
		s.Objects = append(s.Objects, mutex)
	}
	shared := d.chance(3)
	for i := range 2 + d.IntN(2) {
		s.Clients = append(s.Clients, settings{ReleaseOnClose: d.chance(2), Connections: 1 + d.IntN(2)})
		k := &keeping{Most: some(d, 0, 0, 0, 1, 2), Share: shared, Slow: some(d, 0, 0, 20*time.Millisecond, lease/2), Loops: d.chance(3)}
		if s.Clients[i].Keeper = k; d.chance(4) {
			s.Clients[i].Keeper = nil
		}
		for range some(d, 1, 1, 2, 3) {
			acts := d.acts(s.Objects, false)
			if d.chance(2) {
				acts = slices.Insert(acts, 0, act{Do: wants, Count: len(s.Objects)})
			}
			s.Actors = append(s.Actors, actor{Client: i, Acts: acts})
		}
	}
}
