package simulation_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/simulation/points"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

// The settings of all clients. Times are short, so that more happens in a world.
const (
	lease     = 2 * time.Second
	margin    = 40 * time.Millisecond
	ioTimeout = 200 * time.Millisecond
	maxPoll   = 300 * time.Millisecond
	patience  = 600 * time.Millisecond // Config.UnlockTimeout
)

// world is some clients of a server, and what they did.
type world struct {
	// immutable
	seed      uint64
	scheduler *points.Scheduler
	server    *memredis.Server
	asks      redis.Conn // the oracle's own
	slowest   time.Duration
	late      bool // goroutines are held up, so what is answered in time may be heard too late
	handOvers bool // all of it is about one mutex that goes from hand to hand
	began     time.Time
	clients   []*client
	objects   []*object

	failed func(story string) // ends the process

	mu     sync.Mutex // guards what follows, and what objects and grants say of themselves
	story  []string
	grants []*grant // not unlocked
	calls  map[*call]bool
	owners int
	over   map[int]int // at which check an owner had unlocked
	faults bool        // a request may have been lost, or a client was closed
	checks int         // of the oracle
}

// client is one, and its network.
type client struct {
	*lock.Client
	id      int
	network *network
}

// kind is what an object is.
type kind int

const (
	mutex kind = iota
	fair
	readWrite
	permits
)

// object is something that is locked.
type object struct {
	name string
	kind kind

	// guarded by world.mu
	taken  []disturbance
	lastly *grant        // the last that was granted and had a token
	free   time.Duration // for so long nobody has had it while somebody waited
	isFree bool          // nobody had it when the oracle looked last, which was then:
	looked time.Duration // by the running clock
}

// total is how many permits an object has that is some.
const total = 3

// disturbance is a time from which on a holder may have the object no more, for
// somebody else deleted it.
type disturbance struct {
	begun, ended time.Duration // by the running clock
}

// grant is a Held.
type grant struct {
	object  *object
	client  *client
	held    *lock.Held
	owner   int  // the same for all of a hold
	reads   bool // others may read too
	permits int
	renewed bool
	done    <-chan struct{}
	granted time.Duration // by the running clock
}

// call is one that waits for an object.
type call struct {
	object *object
	client *client
}

// running is the time without that for which goroutines were held up.
func (w *world) running() time.Duration {
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

// simulate runs the world of a seed to its end and returns how many steps it took.
// failed is called with the story of a broken promise, and does not return.
func simulate(t *testing.T, seed uint64, failed func(story string)) (steps int, virtual time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 2))
		server, err := memredis.Start(memredis.Config{})
		require.NoError(t, err)
		w := &world{seed: seed, server: server, began: time.Now(), failed: failed, calls: map[*call]bool{}, over: map[int]int{}}
		w.asks, err = server.DialContext(t.Context())
		require.NoError(t, err)
		w.slowest = []time.Duration{0, 2 * time.Millisecond, 30 * time.Millisecond, 90 * time.Millisecond}[rng.IntN(4)]
		p := plan(seed, rng)
		w.late, w.handOvers = p.HoldUps > 0, p.Function != ""
		w.scheduler = points.Start(p)
		w.people(t, rng)
		var all sync.WaitGroup
		for _, c := range w.clients {
			actors := []int{1, 2, 3, 5}[rng.IntN(4)]
			if w.handOvers {
				actors = 4
			}
			for range actors {
				a := &actor{world: w, client: c, rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))}
				all.Go(a.act)
			}
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		w.run(ended)
		steps = w.scheduler.Steps()
		w.scheduler.Free()
		w.end(t)
		w.scheduler.Stop()
		virtual = time.Since(w.began)
	})
	return steps, virtual
}

// plan is how the scheduler of a seed chooses.
func plan(seed uint64, rng *rand.Rand) points.Plan {
	p := points.Plan{Seed: seed, Priorities: rng.IntN(8) > 0, Within: []int{400, 1500}[rng.IntN(2)]}
	p.Demotions = rng.IntN(5)
	p.HoldUps = []int{0, 500, 100, 40}[rng.IntN(4)]
	if rng.IntN(2) == 0 {
		p.Place = "unlock"
	}
	p.Lengths = []time.Duration{time.Millisecond, 20 * time.Millisecond, 3 * inMemory / 2, lease / 2, lease + lease/10, lease + lease/4}
	if f := os.Getenv(envFunction); f != "" {
		p.Function, p.HoldUps, p.Place, p.Lengths = f, 2, "", p.Lengths[3:]
	}
	return p
}

// people makes the clients and the objects.
func (w *world) people(t *testing.T, rng *rand.Rand) {
	kinds, objects := []kind{mutex, mutex, mutex, mutex, mutex, fair, readWrite, permits}, 1+rng.IntN(4)/3
	if w.handOvers {
		kinds, objects = kinds[:1], 1
	}
	for i := range objects {
		w.objects = append(w.objects, &object{name: fmt.Sprint("object", i), kind: kinds[rng.IntN(len(kinds))]})
	}
	for i := range 2 + rng.IntN(4)/3 {
		n := newNetwork(w.server, w.slowest, w.seed, uint64(i)+10)
		c, err := lock.New(n.pool(), lock.Config{
			Lease: lease, Margin: margin, IOTimeout: ioTimeout, MaxPoll: maxPoll, UnlockTimeout: patience,
			ReleaseOnClose: rng.IntN(2) == 0, Connections: 1 + rng.IntN(2), Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		w.clients = append(w.clients, &client{Client: c, id: i, network: n})
	}
	for _, o := range w.objects {
		if o.kind == permits {
			w.ask("SET", o.name, total)
		}
	}
}

// most is how long a world may last before somebody in it is stuck, and mostSteps how
// often somebody may go on in it before they run in a circle. All of its waits together
// are shorter, and it takes some 3,000 steps.
const (
	most      = 20 * time.Minute
	mostSteps = 200_000
)

// run lets the actors act, one goroutine after the other, and looks at what there is.
func (w *world) run(ended <-chan struct{}) {
	stuck := time.NewTimer(most)
	defer stuck.Stop()
	for {
		synctest.Wait()
		if w.scheduler.Steps()%8 == 0 {
			w.check()
		}
		if w.scheduler.Step() {
			if w.scheduler.Steps() > mostSteps {
				w.fail("they run in a circle: after %d steps they have not done what they wanted: %s", mostSteps, w.scheduler.Stopped())
			}
			continue
		}
		w.check()
		w.idle()
		select {
		case <-ended:
			return
		case <-w.scheduler.News():
		case <-stuck.C:
			w.fail("after %v not all have done what they wanted", most)
		}
	}
}

// end closes everything and looks at what is left.
func (w *world) end(t *testing.T) {
	for _, c := range w.clients {
		c.network.heal()
	}
	if w.faults || w.late {
		// What is under way, or was given up, is carried out or released by then.
		time.Sleep(30 * time.Second)
	} else {
		time.Sleep(time.Second)
	}
	synctest.Wait()
	w.check()
	w.nothingHeld()
	for _, c := range w.clients {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := c.Close(ctx); err != nil {
			w.fail("client %d: Close: %v", c.id, err)
		}
		cancel()
	}
	time.Sleep(time.Second)
	w.nothingLeft()
	require.NoError(t, w.asks.Close())
	require.NoError(t, w.server.Stop())
}

// ask is a command of the oracle's.
func (w *world) ask(command string, args ...any) any {
	reply, err := w.asks.Do(command, args...)
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
	text := fmt.Sprintf("in the world of seed %d (which need not come again):\n  step      time\n", w.seed)
	for _, line := range w.story {
		text += line + "\n"
	}
	w.failed(text)
}
