package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/script"
)

// The settings of all clients. Times are short, so that more happens in a world.
const (
	lease     = 2 * time.Second
	margin    = 40 * time.Millisecond
	ioTimeout = 200 * time.Millisecond
	maxPoll   = 300 * time.Millisecond
	patience  = 600 * time.Millisecond // Config.UnlockTimeout
	longest   = 5 * lease              // the longest lease in a world
)

// world has some clients of a server, and their history.
type world struct {
	// immutable
	scenario  scenario
	scheduler *points.Scheduler
	server    server
	peaceful  bool // nothing may fail
	late      bool // goroutines are held up, so a client may notice an answer too late
	began     time.Time
	clients   []*client
	players   []*player
	objects   []*object

	failed func(story string) // ends the process

	mu     sync.Mutex // guards the fields below, and fields of objects and grants
	story  []string
	grants []*grant // not unlocked
	calls  map[*call]bool
	owners int
	asked  map[int]time.Duration // the longest lease that an owner has asked for
	over   map[int]int           // by owner, the number of checks when it had unlocked
	faults bool                  // a request may have been lost, or a client was closed
	back   bool                  // a server's clock was set back, so requests have limits that are too late there
	forgot bool                  // a server has lost the effect of requests that it had answered
	checks int                   // how often the oracles have run
}

// server has the servers of a world, and the networks to them.
type server interface {
	// client makes a client of a server. The troubles are the client's networks.
	client(id, server int, cfg lock.Config) (*lock.Client, []trouble, error)
	// ask carries out a command on a server. It comes from no client of the world.
	ask(server int, command string, args ...any) (any, error)
	stop() error
}

// trouble is a network that can be made to fail.
type trouble interface {
	// cut makes all connections fail, and no dial succeeds for d. Data that was sent before
	// arrives late later, or never if late is negative.
	cut(d, late time.Duration)
	// fall makes the network silent for d.
	fall(d time.Duration)
	// isTroubled reports whether a request may have failed not long ago.
	isTroubled() bool
	// heal ends all troubles, for good.
	heal()
}

// client is one process. It has a lock.Client of each server, and their networks.
type client struct {
	*lock.Client // of the first server
	id           int
	nodes        []*lock.Client
	networks     []trouble
	several      map[*object]taker
	born         time.Time
	closing      atomic.Bool // Close was called
	keeper       *housekeeper
}

// taker is a MultiLock or a RedLock.
type taker interface {
	Lock(ctx context.Context) (*lock.MultiHeld, error)
	LockFor(ctx context.Context, d time.Duration) (*lock.MultiHeld, error)
	TryLock(ctx context.Context) (*lock.MultiHeld, error)
	TryLockFor(ctx context.Context, d time.Duration) (*lock.MultiHeld, error)
}

// held is a Held or a MultiHeld.
type held interface {
	Valid() bool
	Done() <-chan struct{}
	Deadline() time.Time
	Context(parent context.Context) context.Context
	Unlock(ctx context.Context) error
}

// kind is what an object is.
type kind string

const (
	mutex     kind = "mutex"
	fair      kind = "fair"
	readWrite kind = "read-write"
	permits   kind = "permits"
	semaphore kind = "semaphore"
	red       kind = "RedLock"   // of the servers
	multi     kind = "MultiLock" // of two names on the first server
	latch     kind = "latch"     // a CountDownLatch, which is counted down and waited for
)

// hasMembers reports whether an object is made of several locks.
func (k kind) hasMembers() bool { return k == red || k == multi }

// hasPermits reports whether several holders may share an object, each with some of its permits.
func (k kind) hasPermits() bool { return k == permits || k == semaphore }

// object is something that is locked.
type object struct {
	name string
	kind kind

	// guarded by world.mu
	taken  []disturbance
	gone   bool // of permits: they need not add up any more, because their server was restarted
	runs   passes
	alone  map[string]time.Duration // by field, since when Redis has it without a holder, by the running clock
	mute   bool                     // one of its users publishes no releases
	downs  int                      // of a latch: count-downs that have succeeded
	maybe  int                      // count-downs with an unknown outcome
	passed bool                     // a call of Wait has returned nil
	muteTo time.Duration            // until then its messages may be lost, by the running clock
	fewer  bool                     // of a semaphore: a closed client may have kept permits
	lastly *grant                   // the latest grant with a token
	free   time.Duration            // how long it has been free while a call waited
	isFree bool                     // it was free, and a call waited, at the last check
	looked time.Duration            // the time of that check, by the running clock
	kept   time.Duration            // since when a reader waits although only readers have it, by the running clock; 0: no reader does
}

// total is how many permits a semaphore has, and the count of a latch.
const total = 3

// disturbance is one deletion of an object from outside. From then on its holder need not have it.
type disturbance struct {
	begun, ended time.Duration // by the running clock
	from, gone   time.Time     // it was deleted between these times; gone is zero if that is not certain
	lacks        bool          // the restarted server may have the object, but without an extension
}

// grant is a Held, or a hold of another library.
type grant struct {
	object    *object
	client    *client
	held      held
	one       *lock.Held // nil of a MultiHeld
	token     int64
	owner     int  // the same for all Helds of a hold
	reads     bool // others may read too
	permits   int
	renewed   bool
	safe      bool        // it and the other Helds of its hold are renewed, so only its Unlock ends it
	unlocking atomic.Bool // Unlock was called
	done      <-chan struct{}
	asked     time.Duration // when its call began, by the running clock
	granted   time.Duration // by the running clock
	ends      time.Time     // its Deadline when the oracle looked last
	earlier   time.Time     // when the Deadline was moved to an earlier time
	visit     *visit        // the visit of a Keeper; nil if no Keeper has it
}

// counted is a hold of a semaphore. It has no lease, and its holder is told of nothing.
type counted struct {
	of    *lock.Semaphore
	grant *grant
}

var _ held = (*counted)(nil)

func (c *counted) Valid() bool                                    { return !c.grant.unlocking.Load() }
func (c *counted) Done() <-chan struct{}                          { return nil }
func (c *counted) Deadline() time.Time                            { return c.grant.client.born.Add(10 * most) }
func (c *counted) Context(parent context.Context) context.Context { return parent }
func (c *counted) Unlock(ctx context.Context) error {
	return c.of.Release(ctx, int64(c.grant.permits))
}

// call is a call that takes an object, or waits for a latch.
type call struct {
	object *object
	client *client
	waits  bool     // until it has the object
	reads  bool     // of a read-write lock
	open   sync.Map // the scripts that were sent for it and not answered, by copyOf
}

// callKey is the key under which a context has its call.
type callKey struct{}

// takes are the scripts by which a call takes something.
var takes = []*script.Script{
	script.Acquire, script.Reenter, script.FairTake, script.RwRead, script.RwReadReenter, script.RwWrite,
	script.PermitTake, script.SemaphoreTake,
}

// noteUnanswered notes that a script was sent and not answered for the call of ctx, if there is one.
func noteUnanswered(ctx context.Context, sent wire.Call) {
	if c, ok := ctx.Value(callKey{}).(*call); ok && slices.Contains(takes, sent.Script) {
		c.open.Store(copyOf(sent), true)
	}
}

// noteAnswered notes that a script was answered. Redis keeps the result of a SemaphoreTake, so one answer
// answers all its copies. Answers to other scripts are not noted.
func noteAnswered(ctx context.Context, sent wire.Call) {
	if c, ok := ctx.Value(callKey{}).(*call); ok && sent.Script == script.SemaphoreTake {
		c.open.Delete(copyOf(sent))
	}
}

// copyOf returns a value that a script shares only with its copies: the key of its result. A script without
// a result in Redis has no copies, and gets a value of its own.
func copyOf(sent wire.Call) any {
	if sent.Script == script.SemaphoreTake {
		return sent.Args.Strings()[1]
	}
	return new(byte)
}

// checkUnsent checks the error with which c has ended: ErrNotSent says that nothing was done.
func (w *world) checkUnsent(c *call, err error) {
	n := 0
	c.open.Range(func(any, any) bool { n++; return true })
	if n > 0 && errors.Is(err, lock.ErrNotSent) && !c.object.kind.hasMembers() {
		w.fail("client %d: Redis has not answered %d scripts of a call for %s, which ended with %v", c.client.id, n, c.object.name, err)
	}
}

// runningTime returns the age of the world, without the time for which goroutines were held up. Times
// "by the running clock" are such times.
func (w *world) runningTime() time.Duration {
	standing, _ := w.scheduler.Standing()
	return time.Since(w.began) - standing
}

const storyLines = 150

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellLocked(format, args...)
}

func (w *world) tellLocked(format string, args ...any) {
	if len(w.story) == storyLines {
		w.story = append(w.story[:0], w.story[1:]...)
	}
	w.story = append(w.story, fmt.Sprintf("%6d %9.4f ", w.scheduler.Steps(), time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// simulate runs the world of a scenario to its end and returns its statistics. failed is called with
// the story of a broken promise, and does not return.
func simulate(t *testing.T, s scenario, log bool, failed func(story string)) (ran ran) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{scenario: s, began: time.Now(), failed: failed, calls: map[*call]bool{}, over: map[int]int{}, asked: map[int]time.Duration{}}
		var err error
		switch {
		case s.Small:
			w.server = newSmall(s.Seed, s.Slowest, max(s.Servers, s.Cluster, 1), s.Cluster > 0)
		case s.Named:
			w.server = newNamed(s.Seed, s.Slowest)
		case s.Cluster > 0:
			w.server = newNodes(s.Seed, s.Slowest, s.Cluster)
		default:
			w.server, err = newLarge(t.Context(), s.Seed, s.Slowest)
			require.NoError(t, err)
		}
		p := s.Plan
		p.Exact, p.Log = s.Small, log
		w.late, w.peaceful = p.HoldUps > 0, s.peaceful()
		w.scheduler = points.Start(p)
		w.populate(t)
		var all sync.WaitGroup
		for i, a := range s.Actors {
			w.players = append(w.players, &player{world: w, client: w.clients[a.Client]})
			all.Add(1)
			points.Go(fmt.Sprintf("actor %d", i), func() { defer all.Done(); w.players[i].play(a.Acts, nil) })
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		w.run(ended)
		ran.steps, ran.hash, ran.log, ran.virtual = w.scheduler.Steps(), w.scheduler.Hash(), w.scheduler.Log(), time.Since(w.began)
		w.scheduler.Free() // from now on the runtime chooses
		w.end(t)
		w.scheduler.Stop()
	})
	return ran
}

// ran is a world that has ended.
type ran struct {
	steps   int
	hash    uint64 // of its steps
	virtual time.Duration
	log     []string // of its steps, if that is kept
}

// populate makes the clients and the objects.
func (w *world) populate(t *testing.T) {
	for i, k := range w.scenario.Objects {
		w.objects = append(w.objects, &object{name: fmt.Sprint("object", i), kind: k, alone: map[string]time.Duration{}, runs: newPasses()})
	}
	for i, set := range w.scenario.Clients {
		c := &client{id: i, several: map[*object]taker{}, born: time.Now()}
		unlock := patience
		if set.Hasty {
			unlock = ioTimeout
		}
		for server := range max(w.scenario.Servers, 1) {
			time.Sleep(time.Duration(137+i) * time.Microsecond) // so that two clients do nothing at exactly the same time
			node, n, err := w.server.client(i, server, lock.Config{
				Lease: lease, Margin: margin, IOTimeout: ioTimeout, MaxPoll: maxPoll, UnlockTimeout: unlock,
				ReleaseOnClose: set.ReleaseOnClose, MaxHold: set.MaxHold, DropForgotten: set.DropForgotten, Connections: set.Connections, Logger: slog.New(slog.DiscardHandler),
				Rand:  rand.New(rand.NewPCG(w.scenario.Seed, uint64(i)+100+1000*uint64(server))),
				Label: fmt.Sprintf("{pod}:%d", i), // not the name of this host, because a seed must mean the same on every host
			})
			require.NoError(t, err)
			c.nodes, c.networks = append(c.nodes, node), append(c.networks, n...)
		}
		c.Client = c.nodes[0]
		for _, o := range w.objects {
			var err error
			switch o.kind {
			case red:
				var members []*lock.Mutex
				for _, node := range c.nodes {
					members = append(members, node.Mutex(o.name))
				}
				c.several[o], err = lock.NewRedLock(lock.RedLockConfig{LongestLease: longest}, members...)
			case multi:
				c.several[o], err = lock.NewMultiLock(c.Mutex(o.name), c.Mutex(o.name+" too"))
			}
			require.NoError(t, err)
		}
		if set.Keeper != nil {
			w.newHousekeeper(t, c, *set.Keeper)
		}
		w.clients = append(w.clients, c)
	}
	for _, o := range w.objects {
		if o.kind.hasPermits() || o.kind == latch {
			w.ask("SET", o.name, total)
		}
	}
}

// A world that lasts longer than most is stuck, because all of its waits together are shorter. A world
// with more than mostSteps steps in a second runs in a circle. A world takes some 3,000 steps, and a long
// one some 5,000 in a second.
const (
	most      = 20 * time.Minute
	mostSteps = 200_000
)

// run lets one goroutine after the other go on, and checks the world in between.
func (w *world) run(ended <-chan struct{}) {
	stuck := time.NewTimer(most)
	defer stuck.Stop()
	second, before := time.Now(), 0 // when the current second began, and the steps until then
	for {
		synctest.Wait()
		if w.scheduler.Steps()%8 == 0 {
			w.check()
		}
		if w.scheduler.Step() {
			if time.Since(second) > time.Second {
				second, before = time.Now(), w.scheduler.Steps()
			}
			if w.scheduler.Steps()-before > mostSteps {
				w.fail("they run in a circle: after %d steps in a second they have not done what they wanted: %s", mostSteps, w.scheduler.Stopped())
			}
			continue
		}
		w.check()
		w.checkIdle()
		select {
		case <-ended:
			return
		case <-w.scheduler.News():
		case <-stuck.C:
			w.fail("after %v not all have done what they wanted", most)
		}
	}
}

// end closes everything and checks what remains.
func (w *world) end(t *testing.T) {
	for _, c := range w.clients {
		for _, n := range c.networks {
			n.heal()
		}
	}
	w.allKept()
	if w.faults || w.late {
		// By then all requests in flight have been carried out, and abandoned holds released.
		time.Sleep(30 * time.Second)
	} else {
		time.Sleep(time.Second)
	}
	synctest.Wait()
	w.check()
	w.checkNothingHeld()
	for _, c := range w.clients {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		for i, node := range c.nodes {
			err := node.Close(ctx)
			if c.closing.Load() && err != nil && strings.Contains(err.Error(), "were not answered in time") {
				err = nil // an earlier Close gave these requests up
			}
			if c.closing.Load() && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = nil // another Close gave up meanwhile, and this one says so too
			}
			if err != nil {
				w.fail("client %d, server %d: Close: %v", c.id, i, err)
			}
		}
		cancel()
	}
	time.Sleep(time.Second)
	w.checkNothingLeft()
	require.NoError(t, w.server.stop())
}

// ask sends a command of an oracle to the first server.
func (w *world) ask(command string, args ...any) any { return w.askAt(0, command, args...) }

func (w *world) askAt(server int, command string, args ...any) any {
	reply, err := w.server.ask(server, command, args...)
	if err != nil {
		w.fail("the oracle: %s %v: %v", command, args, err)
	}
	return reply
}

// fail ends the process with the story of what happened.
func (w *world) fail(format string, args ...any) {
	w.tell("BROKEN: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "  step      time\n"
	for _, line := range w.story {
		text += line + "\n"
	}
	w.failed(text)
}
