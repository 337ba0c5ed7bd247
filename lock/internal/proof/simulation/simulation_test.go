package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock/internal/proof/simulation"
)

// standard is the default number of small worlds that a worker simulates.
const standard = 60

// firstSeed is the default of the first seed. It is constant, so that a test has one result.
const firstSeed = 1

// order says what a worker does. A worker is the program of this test, with a product that is woven.
type order struct {
	First  uint64        // its first seed
	Length time.Duration // for how long it simulates one seed after the other; 0: any time
	Small  bool
	Seeds  int // how many at most; 0: any number
	// Function, if it is not empty, is the only one in which goroutines are held up.
	Function string
	// Cluster: large worlds are Clusters.
	Cluster bool
	// Named: large worlds are of a server that fails over behind its name.
	Named bool
	// Keepers: the clients have Keepers of names.
	Keepers bool
	// Twice: each seed is simulated twice, and must be the same history.
	Twice bool
	// Scenario is simulated alone, instead of seeds.
	Scenario *scenario
	// Delays: all orders that differ from the first by this number of delays are simulated, see
	// points.Plan.InOrder. Several workers share the orders: each does its Part of all Parts.
	Delays, Part, Parts int
	// Log: the steps of the scenario are printed.
	Log bool
}

const envOrder = "WHEELLOCK_SIMULATION_ORDER"

// TestWorker carries out its order, and ends at the first broken promise.
func TestWorker(t *testing.T) {
	if !points.Woven {
		t.Skip("the other tests run it, with an overlay")
	}
	var o order
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(envOrder)), &o))
	failed := func(story string) {
		fmt.Println(story)
		os.Exit(1) // a bubble in which a promise is broken may never end
	}
	if o.Delays > 0 {
		explore(t, o, failed)
		return
	}
	if o.Scenario != nil {
		ran := simulate(t, *o.Scenario, o.Log, failed)
		for _, step := range ran.log {
			fmt.Println(step)
		}
		fmt.Printf("simulated 1 world, %d steps, %.0f s of virtual time\n", ran.steps, ran.virtual.Seconds())
		return
	}
	began, runs, steps, virtual := time.Now(), 0, 0, time.Duration(0)
	for seed := o.First; (o.Length == 0 || time.Since(began) < o.Length) && (o.Seeds == 0 || runs < o.Seeds); seed++ {
		runs++
		fmt.Println("seed", seed) // a panic ends the process
		s := o.drawn(seed)
		ran := simulate(t, s, o.Twice, failed)
		steps, virtual = steps+ran.steps, virtual+ran.virtual
		if o.Twice {
			ran.same(t, simulate(t, s, true, failed))
		}
	}
	fmt.Printf("simulated %d worlds, %d steps, %.0f s of virtual time\n", runs, steps, virtual.Seconds())
}

// same requires that both are the same history.
func (r ran) same(t *testing.T, again ran) {
	if slices.Equal(r.log, again.log) && r.hash == again.hash && r.virtual == again.virtual {
		return
	}
	i := 0
	for i < min(len(r.log), len(again.log)) && r.log[i] == again.log[i] {
		i++
	}
	from := max(0, i-20)
	require.Equal(t, r.log[from:min(i+5, len(r.log))], again.log[from:min(i+5, len(again.log))])
	t.Fatal("not the same history")
}

// build builds the program of workers in a directory.
func build(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	const failed = "[build failed]" // as go test says it, and command planted looks for it
	overlay, err := simulation.Weave(root, dir, os.Getenv("WHEELLOCK_OVERLAY"))
	require.NoError(t, err, failed)
	program := filepath.Join(dir, "simulation.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./lock/internal/proof/simulation")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", failed, out)
	return program
}

// result is what a worker has done.
type result struct {
	order order
	found bool
	runs  int
	last  uint64 // seed
	took  time.Duration
	sums  string // the last line of a worker that found nothing
	said  string // the end of its output
}

// work runs a worker on one processor, so nearly nothing runs beside the goroutine that the
// scheduler lets go on.
func work(ctx context.Context, t *testing.T, program string, o order) result {
	text, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, program, "-test.run=^TestWorker$", "-test.v", "-test.timeout="+(o.Length+30*time.Minute).String())
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", envOrder+"="+string(text))
	began := time.Now()
	out, err := cmd.CombinedOutput()
	r := result{order: o, found: err != nil, took: time.Since(began), sums: "a promise was broken"}
	if ctx.Err() != nil {
		r.found, r.sums = false, "another has found something"
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "simulated ") {
			r.sums = strings.TrimSpace(line)
		}
	}
	r.runs = len(seeds.FindAllIndex(out, -1))
	r.last = o.First + uint64(max(r.runs, 1)) - 1
	said := seeds.ReplaceAllString(string(out), "")
	r.said = said[max(0, len(said)-12000):]
	return r
}

var seeds = regexp.MustCompile(`(?m)^seed \d+\n`)

// workers runs two workers at once. Each has seeds of its own.
func workers(t *testing.T, program string, o order) []result {
	t.Helper()
	o.First = first(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	results := make([]result, 2)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			o := o
			o.First += uint64(i) * 500_000
			if results[i] = work(ctx, t, program, o); results[i].found {
				end() // one is enough
			}
		})
	}
	wg.Wait()
	return results
}

// first is the seed that WHEELLOCK_SIMULATE_FROM gives, or firstSeed.
func first(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("WHEELLOCK_SIMULATE_FROM")
	if s == "" {
		return firstSeed
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err, "WHEELLOCK_SIMULATE_FROM")
	return seed
}

// amount is an order for as many worlds as an environment variable says, or for that long if it is a
// duration. If it is not set, the order is for the standard number of worlds.
func amount(t *testing.T, variable string, standard int) order {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return order{Seeds: standard}
	}
	if worlds, err := strconv.Atoi(s); err == nil {
		return order{Seeds: worlds}
	}
	d, err := time.ParseDuration(s)
	require.NoError(t, err, variable)
	return order{Length: d}
}

// part returns an order for a part of it: of the worlds, at least one, or of the time.
func (o order) part(worlds int, time time.Duration) order {
	if o.Seeds > 0 {
		o.Seeds = max(o.Seeds/worlds, 1)
	}
	o.Length /= time
	return o
}

// TestThePromisesHoldInEveryOrder simulates the product as it is.
func TestThePromisesHoldInEveryOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	program, most := theProduct(t), amount(t, "WHEELLOCK_SIMULATE", standard)
	for name, kind := range map[string]struct {
		order
		worlds int           // how many small worlds there are for each world of this kind
		time   time.Duration // the divisor of the time
	}{
		"small":                {order{Small: true}, 1, 1},
		"small, in hand-overs": {order{Small: true, Function: leaving}, 10, 5},
		"small, of Keepers":    {order{Small: true, Keepers: true}, 10, 5},
		"large":                {order{}, 20, 4},
		"large, of a Cluster":  {order{Cluster: true}, 20, 5},
		"large, of one name":   {order{Named: true}, 20, 5},
		"large, in hand-overs": {order{Function: leaving}, 20, 5},
	} {
		t.Run(name, func(t *testing.T) {
			part := most.part(kind.worlds, kind.time)
			o := kind.order
			o.Seeds, o.Length = part.Seeds, part.Length
			for _, r := range workers(t, program, o) {
				r.requireNothing(t, program)
			}
		})
	}
}

// TestASeed simulates the small world of a seed that has broken a promise, and prints its shortest
// story.
func TestASeed(t *testing.T) {
	text := os.Getenv("WHEELLOCK_SIMULATE_SEED")
	if text == "" {
		t.Skip("WHEELLOCK_SIMULATE_SEED=123, or 123,Function, simulates one")
	}
	number, function, _ := strings.Cut(text, ",") // 123,Keepers is of the worlds with Keepers
	seed, err := strconv.ParseUint(number, 10, 64)
	require.NoError(t, err)
	o := order{Small: true, Function: function}
	if function == "Keepers" {
		o = order{Small: true, Keepers: true}
	}
	s := o.drawn(seed)
	if r := work(t.Context(), t, theProduct(t), order{Scenario: &s}); r.found {
		t.Errorf("%s\n%s", r.said, shortest(t, theProduct(t), s))
	}
}

// TestASeedIsAHistory simulates small worlds twice, step by step the same.
func TestASeedIsAHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("the product is built anew for it")
	}
	for _, keepers := range []bool{false, true} {
		o := amount(t, "WHEELLOCK_SIMULATE", standard).part(8, 8)
		if keepers {
			o = o.part(4, 4)
		}
		o.Small, o.Twice, o.Keepers = true, true, keepers
		for _, r := range workers(t, theProduct(t), o) {
			r.requireNothing(t, theProduct(t))
			require.Positive(t, r.runs)
		}
	}
}

// leaving is where it is decided who gets a hold next.
const leaving = "]).Leaving"

func (r result) requireNothing(t *testing.T, program string) {
	t.Helper()
	t.Logf("seeds from %d: %s", r.order.First, r.sums)
	if !r.found {
		return
	}
	t.Errorf("after %d worlds, %v:\n%s", r.runs, r.took.Round(time.Second), r.said)
	if planted := os.Getenv("WHEELLOCK_OVERLAY") != ""; r.order.Small && !r.order.Twice && !planted {
		t.Error(shortest(t, program, r.order.drawn(r.last)))
	}
}
