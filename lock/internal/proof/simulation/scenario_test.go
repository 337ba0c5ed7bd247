package simulation_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wheellock/wheellock/integration/points"
)

// scenario determines the events in a world. For a small world it determines the whole history. It
// can be printed, and the parts that a failure does not need can be removed.
type scenario struct {
	Seed    uint64        // of the delays of the network, and of the clients' randomness
	Small   bool          `json:",omitempty"`
	Slowest time.Duration `json:",omitempty"` // the longest delay of the network without a fault
	Plan    points.Plan   // how the scheduler chooses
	Servers int           `json:",omitempty"` // how many servers a RedLock has; 0 means 1
	Cluster int           `json:",omitempty"` // how many servers the Cluster has; 0: no Cluster
	Named   bool          `json:",omitempty"` // a large world, with a server that fails over behind its name
	Clients []settings
	Objects []kind
	Actors  []actor
}

// settings are the settings in which clients differ.
type settings struct {
	Connections    int
	ReleaseOnClose bool          `json:",omitempty"`
	MaxHold        time.Duration `json:",omitempty"`
	DropForgotten  bool          `json:",omitempty"`
	Hasty          bool          `json:",omitempty"` // its UnlockTimeout is as short as its IOTimeout
	Keeper         *keeping      `json:",omitempty"` // nil: no Keeper
}

// actor is a goroutine that uses a client. It performs its acts one after the other.
type actor struct {
	Client int
	Acts   []act
}

// act is something that an actor does.
type act struct {
	Do     what
	Object int           `json:",omitempty"`
	Server int           `json:",omitempty"` // the server that fails, or loses a key
	Try    bool          `json:",omitempty"` // it does not wait
	For    time.Duration `json:",omitempty"` // of a lease that is not renewed; how long a pause, or a trouble, lasts
	Within time.Duration `json:",omitempty"` // the context of the call ends after this time; 0: it does not end
	Late   time.Duration `json:",omitempty"` // requests under way when the network is cut arrive later by this time; never if negative
	Reads  bool          `json:",omitempty"`
	Count  int           `json:",omitempty"` // of permits
	Forget bool          `json:",omitempty"` // the Held is forgotten, and not unlocked
	Again  int           `json:",omitempty"` // how often an Unlock with an unknown outcome is repeated
	Acts   []act         `json:",omitempty"` // the acts while the object is held
}

// A what is a kind of act.
type what string

const (
	pauses   what = "pause"
	locks    what = "lock"    // and does Acts, and unlocks
	extends  what = "extend"  // while it holds something
	guards   what = "guard"   // while it holds a mutex
	counts   what = "count"   // a latch down
	awaits   what = "await"   // a latch
	forces   what = "force"   // ForceUnlock
	deletes  what = "delete"  // with DEL
	loses    what = "lose"    // the counter of tokens of an object
	silence  what = "silence" // of its client's network
	cuts     what = "cut"     // the connections of its client fail
	closes   what = "close"   // its client
	restarts what = "restart" // a server loses all keys, or, if Late is above 0, a replica takes its place that lacks the latest writes
	java     what = "java"    // takes a mutex as a client of Redisson does, and keeps it for For
	setNX    what = "SET NX"  // takes a mutex as a client does that has only SET NX, and keeps it for For
	moves    what = "move"    // the slot of an object to a server of the Cluster
	shifts   what = "shift"   // the slot of an object to a node of a large Cluster, one key after the other
	succeeds what = "succeed" // an heir becomes the master behind the name
	jumps    what = "jump"    // of a server's clock, by For
	forbids  what = "forbid"  // its client most scripts, for For
	cancels  what = "cancel"  // the context of the latest call of the actor with the number Object
)

func (s scenario) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// read reads what String has written.
func read(text string) (s scenario, err error) {
	return s, json.Unmarshal([]byte(text), &s)
}

// peaceful reports whether s has no faults: no goroutine is held up, and no act takes an object away
// from its holder.
func (s scenario) peaceful() bool {
	var disturbing func(acts []act) bool
	disturbing = func(acts []act) bool {
		return slices.ContainsFunc(acts, func(a act) bool {
			switch a.Do {
			case shifts:
				return slices.ContainsFunc(s.Objects, func(k kind) bool { return k != mutex }) // they wait for the end of that
			case forces, deletes, silence, cuts, closes, restarts, succeeds, cancels, jumps, forbids:
				return true
			}
			return disturbing(a.Acts)
		})
	}
	limited := func(c settings) bool { return c.MaxHold > 0 }
	return s.Plan.HoldUps == 0 && !slices.ContainsFunc(s.Clients, limited) && !slices.ContainsFunc(s.Actors, func(a actor) bool { return disturbing(a.Acts) })
}

// drawer draws scenarios. For every seed it first draws the weights of the acts, and many of them are
// 0 in this world. So a bug that needs a few acts and no others is found sooner (Groce and others,
// Swarm Testing, ISSTA 2012).
type drawer struct {
	*rand.Rand
	handOvers bool           // goroutines are held up in hand-overs alone
	weights   map[what]int   // weights of an actor's acts
	within    map[what]int   // of what it does while it holds something
	likely    map[string]int // by choice, in how many of 8 cases the answer is yes
	servers   int
}

// chance is true once in n times.
func (d drawer) chance(n int) bool { return d.IntN(n) == 0 }

// is draws a yes or no whose likelihood was drawn before.
func (d drawer) is(likely string) bool { return d.IntN(8) < d.likely[likely] }

// upto draws a time below most.
func (d drawer) upto(most time.Duration) time.Duration { return time.Duration(d.Int64N(int64(most))) }

// one draws an act by weight.
func (d drawer) one(weights map[what]int) what {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := d.IntN(sum)
	for _, w := range slices.Sorted(maps.Keys(weights)) {
		if n -= weights[w]; n < 0 {
			return w
		}
	}
	panic("no weights")
}

// some draws one of these values.
func some[T any](d drawer, of ...T) T { return of[d.IntN(len(of))] }

// drawn returns the scenario of a seed.
func (o order) drawn(seed uint64) scenario {
	small, function := o.Small, o.Function
	d := drawer{Rand: rand.New(rand.NewPCG(seed, 2)), handOvers: function != ""}
	d.weights = map[what]int{
		locks: 16, forces: some(d, 0, 0, 1, 3), deletes: some(d, 0, 0, 1, 3),
		silence: some(d, 0, 1, 3), cuts: some(d, 0, 1, 3), closes: some(d, 0, 0, 1), restarts: some(d, 0, 0, 0, 1),
		java: some(d, 0, 0, 2, 6), setNX: some(d, 0, 0, 0, 3), jumps: some(d, 0, 0, 0, 1), forbids: some(d, 0, 0, 0, 1),
	}
	d.within = map[what]int{
		pauses: 5, locks: some(d, 0, 2, 5), extends: some(d, 0, 2, 5), guards: some(d, 0, 2, 4),
		forces: some(d, 0, 0, 0, 1), deletes: some(d, 0, 0, 0, 1),
	}
	d.likely = map[string]int{
		"try": some(d, 0, 1, 4), "a lease": some(d, 0, 2, 4), "a long lease": some(d, 0, 1, 4), "a context that ends": some(d, 0, 2, 4),
		"a reader": some(d, 2, 4, 6), "work": some(d, 2, 4, 7), "a pause": some(d, 1, 4, 7), "a long pause": some(d, 0, 1, 3),
	}
	if d.handOvers { // a hold that is renewed is lost when its key is deleted
		d.weights[forces], d.weights[deletes], d.likely["a lease"] = 2, 2, 0
	}
	apart := o.Cluster && d.chance(3)
	peaceful := !d.handOvers && !apart && !o.Named && (d.chance(4) || o.Cluster && d.chance(2))
	if peaceful {
		for _, do := range []what{forces, deletes, silence, cuts, closes, restarts, jumps, forbids} {
			d.weights[do], d.within[do] = 0, 0
		}
	}
	s := scenario{Seed: seed, Small: small}
	s.Slowest = some(d, 0, 2*time.Millisecond, 30*time.Millisecond, 90*time.Millisecond)
	if s.Plan = d.plan(seed, function); peaceful {
		s.Plan.HoldUps = 0
	}
	for range some(d, 1, 1, 1, 2) {
		s.Objects = append(s.Objects, some(d, mutex, mutex, mutex, mutex, fair, readWrite, permits, semaphore, latch))
	}
	switch {
	case d.handOvers:
		s.Objects = []kind{mutex}
	case small && !o.Keepers && d.chance(4):
		s.Servers, s.Objects = 3, []kind{some(d, red, red, red, multi)}
	case small && d.chance(4):
		s.Cluster = 2 + d.IntN(2)
		d.weights[moves], d.weights[restarts], d.within[guards] = 1+d.IntN(6), 0, 0 // what a Guard writes is in no slot
	case small && !o.Keepers && d.chance(8):
		s.Objects[0] = multi
	}
	d.servers = max(s.Servers, s.Cluster, 1)
	if !small {
		for _, do := range []what{restarts, java, setNX, jumps, forbids} {
			d.weights[do] = 0
		}
	}
	if o.Cluster {
		s.Cluster = 2 + d.IntN(2)
		d.servers = s.Cluster
		d.weights[moves], d.weights[shifts], d.within[shifts], d.within[guards] = d.IntN(3), 1+d.IntN(6), d.IntN(3), 0
		for i := range s.Objects {
			if peaceful { // what has several keys waits for the end of that
				s.Objects[i] = mutex
			}
		}
	}
	if o.Named {
		s.Named = true
		d.weights[succeeds], d.within[succeeds], d.within[guards] = 1+d.IntN(2), d.IntN(3), 0
		d.likely["a lease"], d.likely["a long lease"] = 4, 6 // longer than a waiter may take to find the heir
		for i := range s.Objects {
			s.Objects[i] = some(d, mutex, mutex, fair, readWrite)
		}
	}
	if o.Keepers {
		d.keepers(&s)
		return s
	}
	clients, actors := some(d, 1, 2, 2, 3), []int{1, 2, 3, 5}
	if apart {
		s.Objects = []kind{readWrite}
		clients, actors = 2+d.IntN(2), []int{3, 4, 5}
		d.keysApart()
	}
	for i := range clients {
		s.Clients = append(s.Clients, settings{ReleaseOnClose: d.chance(2), Connections: 1 + d.IntN(2)})
		if !peaceful && d.chance(8) {
			s.Clients[i].MaxHold = lease + d.upto(2*lease)
		}
		s.Clients[i].Hasty = apart
		if !peaceful && d.chance(6) {
			s.Clients[i].DropForgotten = true
		}
		for range some(d, actors...) {
			s.Actors = append(s.Actors, actor{Client: i, Acts: d.acts(s.Objects, s.Clients[i].DropForgotten)})
		}
	}
	return s
}

// keysApart makes it likely that somebody reads and somebody waits to write while their slot moves, and
// that fields are owed. The scripts of a RWMutex look at keys that they do not name, which are at two
// nodes then.
func (d drawer) keysApart() {
	for _, do := range []what{forces, deletes, closes} { // they excuse much
		d.weights[do], d.within[do] = 0, 0
	}
	d.weights[cuts], d.weights[shifts], d.within[shifts] = 1+d.IntN(3), 1+d.IntN(4), 4
	d.likely["a reader"], d.likely["work"], d.likely["a long pause"], d.likely["try"] = 5, 7, 3, d.IntN(2)
	d.likely["a long move"] = 6
}

// plan draws how the scheduler chooses.
func (d drawer) plan(seed uint64, function string) points.Plan {
	p := points.Plan{Seed: seed, Priorities: !d.chance(8), Within: some(d, 400, 1500), Demotions: d.IntN(5)}
	p.HoldUps = some(d, 0, 500, 100, 40)
	p.Place = some(d, "", "unlock")
	p.Lengths = []time.Duration{time.Millisecond, 20 * time.Millisecond, 3 * inMemory / 2, lease / 2, lease + lease/10, lease + lease/4}
	if d.handOvers {
		p.Function, p.HoldUps, p.Place, p.Lengths = function, 2, "", p.Lengths[3:]
	}
	return p
}

// acts draws the acts of an actor.
func (d drawer) acts(objects []kind, forgets bool) (acts []act) {
	for range 2 + d.IntN(6) {
		if d.is("a pause") {
			acts = append(acts, d.pause())
		}
		a := d.act(d.one(d.weights), objects, d.IntN(len(objects)), false, 0)
		if k := objects[a.Object]; forgets && a.Do == locks && (k == mutex || k == fair) {
			a.Forget = d.chance(2)
		}
		acts = append(acts, a)
	}
	if i := slices.IndexFunc(acts, func(a act) bool { return a.Do == closes }); i >= 0 {
		acts = acts[:i+1]
	}
	return acts
}

// act draws the details of one act at an object. If depth is above 0, the actor holds the object.
func (d drawer) act(do what, objects []kind, o int, reads bool, depth int) act {
	if objects[o] == latch {
		if do == locks && depth == 0 {
			return act{Do: some(d, counts, awaits), Object: o, Within: 1 + d.upto(4*lease)}
		}
		do = pauses
	} else if k := objects[o]; k.hasPermits() && (do == guards || do == forces || do == deletes || do == locks && depth > 0) {
		do = pauses // permits have none of these
	} else if (k.hasMembers() || k == semaphore) && (do == guards || do == extends || do == forces) {
		do = pauses
	} else if k != mutex && (do == java || do == setNX) {
		do = pauses // they know no others, or those have more keys
	}
	a := act{Do: do, Object: o, Server: d.IntN(d.servers)}
	switch do {
	case pauses:
		a = d.pause()
	case locks:
		a.Try, a.Within, a.Count, a.Reads = d.is("try"), d.ends(), 1+d.IntN(2), reads
		if depth == 0 {
			a.Reads = d.is("a reader")
		}
		if d.is("a lease") {
			a.For = 4 * margin * time.Duration(1+d.IntN(10)) // a shorter one has a smaller margin
			if d.is("a long lease") {
				a.For = longest
			}
		}
		for d.chance(2) && a.Again < 5 {
			a.Again++
		}
		for d.is("work") && len(a.Acts) < 4 {
			do := d.one(d.within)
			if do == locks && depth == 2 {
				do = pauses
			}
			a.Acts = append(a.Acts, d.act(do, objects, o, a.Reads, depth+1))
		}
	case extends:
		a.Within, a.For = d.ends(), lease+time.Duration(d.IntN(3))*lease/2
	case guards:
		a.Within = d.ends()
	case silence, cuts:
		a.For = d.upto(2 * ioTimeout)
		if d.chance(4) {
			a.For = d.upto(lease + lease/2)
		}
		if a.Do == silence {
			break
		}
		a.Late = -1
		if d.chance(2) {
			a.Late = d.upto(2 * ioTimeout)
		}
		if d.chance(2) {
			a.For = 0
		}
	case restarts:
		if d.chance(2) {
			a.Late = 1 + d.upto(lease/4)
		}
	case closes:
		a.Within = d.upto(lease)
	case java, setNX:
		a.For, a.Within = d.upto(some(d, lease/20, lease, 2*lease)), lease+d.upto(2*lease)
	case shifts:
		if a.For = d.upto(some(d, 2*time.Millisecond, ioTimeout, lease)); d.is("a long move") {
			a.For = lease/4 + d.upto(lease/2)
		}
	case jumps:
		a.For = d.upto(2*lease) - lease
	case forbids:
		a.For = d.upto(2 * lease)
	case wants, drops:
		a.Count = 1 + d.IntN(len(objects))
	case bounds:
		a.Count = d.IntN(3)
	case leaves:
		a.Within = d.upto(lease)
	}
	return a
}

// pause draws a pause. Most pauses are short.
func (d drawer) pause() act {
	a := act{Do: pauses}
	switch {
	case d.is("a long pause"):
		a.For = d.upto(some(d, 2*inMemory, lease))
	case d.chance(2):
		a.For = d.upto(5 * time.Millisecond)
	}
	return a
}

// ends draws when a context ends.
func (d drawer) ends() time.Duration {
	if d.is("a context that ends") {
		return 1 + d.upto(some(d, lease, 50*time.Millisecond)) // that of a request is some ms
	}
	return 0
}
