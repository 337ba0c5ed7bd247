package simulation_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/simulation"
	"github.com/wheellock/wheellock/integration/simulation/points"
)

// standard is for how long the product is simulated when nobody says otherwise.
const standard = 25 * time.Second

// The environment of a worker, which is this test's program with a product that is
// woven: its first seed, for how long it simulates, and the function in which goroutines are
// held up, if it is not any.
const (
	envSeed     = "WHEELLOCK_SIMULATION_SEED"
	envTime     = "WHEELLOCK_SIMULATION_TIME"
	envFunction = "WHEELLOCK_SIMULATION_FUNCTION"
)

// TestWorker simulates world after world, and ends at the first broken promise.
func TestWorker(t *testing.T) {
	if !points.Woven {
		t.Skip("the other tests run it, with an overlay")
	}
	seed, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	require.NoError(t, err)
	length, err := time.ParseDuration(os.Getenv(envTime))
	require.NoError(t, err)
	began, runs, steps, virtual := time.Now(), 0, 0, time.Duration(0)
	failed := func(story string) {
		fmt.Println(story)
		os.Exit(1) // a bubble in which a promise is broken need not end
	}
	for ; time.Since(began) < length; seed++ {
		runs++
		fmt.Println("seed", seed) // a panic ends the process
		n, v := simulate(t, seed, failed)
		steps, virtual = steps+n, virtual+v
	}
	fmt.Printf("simulated %d worlds, %d steps, %.0f s of virtual time\n", runs, steps, virtual.Seconds())
}

// worker builds the program of workers.
func worker(t *testing.T, edits ...simulation.Edit) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	overlay, err := simulation.Weave(root, dir, edits...)
	require.NoError(t, err)
	program := filepath.Join(dir, "simulation.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./integration/simulation")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// result is what a worker has done.
type result struct {
	first uint64 // seed
	found bool
	runs  int
	took  time.Duration
	last  string // the sums of one that found nothing
	said  string // the end of what it wrote
}

// work runs a worker. It keeps to one processor, so nearly nothing runs beside what the
// scheduler lets go on.
func work(t *testing.T, program string, seed uint64, length time.Duration, function string) result {
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestWorker$", "-test.v", "-test.timeout="+(length+time.Minute).String())
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprint(envSeed, "=", seed), fmt.Sprint(envTime, "=", length), fmt.Sprint(envFunction, "=", function))
	began := time.Now()
	out, err := cmd.CombinedOutput()
	r := result{first: seed, found: err != nil, took: time.Since(began), runs: len(seeds.FindAllIndex(out, -1)), last: lastSums(out)}
	text := seeds.ReplaceAllString(string(out), "")
	r.said = text[max(0, len(text)-12000):]
	return r
}

var seeds = regexp.MustCompile(`(?m)^seed \d+\n`)

func lastSums(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "simulated ") {
			return strings.TrimSpace(line)
		}
	}
	return "a promise was broken"
}

// workers runs two of them at once, each with seeds of its own.
func workers(t *testing.T, program string, length time.Duration, function string) []result {
	t.Helper()
	first := uint64(time.Now().UnixNano()) / 1e6 * 1e6
	results := make([]result, 2)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i] = work(t, program, first+uint64(i)*500_000, length, function) })
	}
	wg.Wait()
	return results
}

// length is what an environment variable says, or standard.
func length(t *testing.T, variable string, standard time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return standard
	}
	d, err := time.ParseDuration(s)
	require.NoError(t, err, variable)
	return d
}

// TestThePromisesHoldInEveryOrder simulates the product as it is.
func TestThePromisesHoldInEveryOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	program := worker(t)
	for _, r := range workers(t, program, length(t, "WHEELLOCK_SIMULATE", standard), "") {
		r.requireNothing(t)
	}
	for _, r := range workers(t, program, length(t, "WHEELLOCK_SIMULATE", standard)/5, leaving) {
		r.requireNothing(t)
	}
}

// leaving is where it is decided who gets a hold next.
const leaving = "]).Leaving"

func (r result) requireNothing(t *testing.T) {
	t.Helper()
	t.Logf("seeds from %d: %s", r.first, r.last)
	if r.found {
		t.Errorf("after %d worlds, %v:\n%s", r.runs, r.took.Round(time.Second), r.said)
	}
}

// TestAnInterruptedHandOverIsMet: Unlock once read what the next waiter wants when that could
// be another call's already, and panicked if its hold was lost just then. Whether a seed meets
// that is left to chance, so the bug is looked for until it is found.
func TestAnInterruptedHandOverIsMet(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for _, bug := range planted {
		if bug.function != leaving {
			continue
		}
		program, worlds := worker(t, bug.edits...), 0
		for range 8 {
			for _, r := range workers(t, program, 10*time.Second, leaving) {
				if worlds += r.runs; r.found {
					require.Contains(t, r.said, "panic: ")
					t.Logf("found after %d worlds, %v", worlds, r.took.Round(time.Second))
					return
				}
			}
		}
		t.Errorf("not found in %d worlds: %s", worlds, bug.breaks)
	}
}
