package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faults"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// seedEnv repeats what a run did.
const seedEnv = "WHEELLOCK_SEED"

func seed(t *testing.T) uint64 {
	t.Helper()
	if text := os.Getenv(seedEnv); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, seedEnv)
		return n
	}
	return rand.Uint64N(1 << 32)
}

// on makes runs start servers of that kind.
func on(s starter) func(context.Context, ...string) (faults.Target, error) {
	return func(ctx context.Context, args ...string) (faults.Target, error) {
		srv, err := s.start(ctx, redistest.Options{Args: args})
		if err != nil {
			return nil, err
		}
		return srv, nil
	}
}

// processes is the starter of redis-server processes.
func processes(t *testing.T) starter {
	t.Helper()
	starters[1].need(t)
	return starters[1]
}

func name(row faults.Row) string { return strings.ReplaceAll(row.Name, " ", "_") }

// atOnce bounds the rows that run at the same time, each with four processes and
// a server, which take a third to two thirds of a core: other tests run too.
const atOnce = 2

func TestPromisesHoldUnderFaults(t *testing.T) {
	rows := ordinary()
	if testing.Short() {
		rows = few(faults.Rows(), "none", "black hole", "holder stopped", "FLUSHALL")
	}
	matrix(t, processes(t), rows)
}

// TestPromisesHoldUnderFaultsOfContainers has one row for which it matters where a server runs; if
// all are wanted, all but those whose server is a process with a clock of its own, or one of two
// processes.
func TestPromisesHoldUnderFaultsOfContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	rows := few(faults.Rows(), "none", "Redis killed, AOF")
	if fixture.AllFaults() {
		rows = slices.DeleteFunc(faults.Rows(), func(r faults.Row) bool { return r.Start != nil })
	}
	matrix(t, containers(t), rows)
}

// simulated are rows whose faults package simulation brings about in thousands of orders, for each
// of which these take seconds.
var simulated = []string{
	"requests lost", "replies lost", "short holes", "resets", "latency and jitter", "cut in mid-reply", "pub/sub cut",
	"CLIENT KILL normal", "CLIENT KILL pubsub", "FLUSHALL", "DEL of held keys",
	"mixed, no loss of data", "mixed, with loss of data",
}

// ordinary are the rows that are run unless all are wanted: real processes, their clocks and their
// memory are in them.
func ordinary() []faults.Row {
	rows := faults.Rows()
	if fixture.AllFaults() {
		return rows
	}
	return slices.DeleteFunc(rows, func(r faults.Row) bool { return slices.Contains(simulated, r.Name) })
}

// TestRowsThatAreLeftOutAreRows: or their names have changed.
func TestRowsThatAreLeftOutAreRows(t *testing.T) {
	require.Len(t, few(faults.Rows(), simulated...), len(simulated))
}

// matrix runs rows and prints the table.
func matrix(t *testing.T, s starter, rows []faults.Row) {
	o := faults.Options{Start: on(s), Register: own(t, s), Seed: seed(t)}
	results := make([]faults.Result, len(rows))
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, row := range rows {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			o := o
			t.Run(name(row), func(t *testing.T) {
				var r faults.Result
				err := faults.ErrAway
				for try := 0; errors.Is(err, faults.ErrAway) && try < 3; try++ {
					o.Prefix = fmt.Sprintf("%d:%d:", i, try) // the register remembers what a try before has added
					if r, err = faults.Run(t.Context(), row, o); err != nil {
						t.Log(err)
					}
				}
				require.NoError(t, err)
				results[i] = r
				if text := r.Fault(); text != "" {
					t.Error(text)
				}
			})
		})
	}
	wg.Wait()
	results = slices.DeleteFunc(results, func(r faults.Result) bool { return r.Took == 0 }) // left out by -run
	t.Logf("on %s, %s=%d\n%s", o.Register, seedEnv, o.Seed, faults.Table(results))
}

func few(rows []faults.Row, names ...string) []faults.Row {
	var out []faults.Row
	for _, row := range rows {
		for _, n := range names {
			if row.Name == n {
				out = append(out, row)
			}
		}
	}
	return out
}

// The checks bite: a client with one flaw, in the row that brings it out, is
// refuted, and the same client without it is not.
func TestBrokenTwinsAreFoundOut(t *testing.T) {
	s := processes(t)
	server, n := own(t, s), seed(t)
	for _, c := range []struct {
		flaw faults.Flaw
		row  string
		say  []string // that its violations must
	}{
		{faults.Unbroken, "holder stopped", nil},
		{faults.Unbroken, "replies lost", nil},
		{faults.Blind, "holder stopped", []string{"both relied on it", "no order of its"}},
		{faults.Late, "black hole", []string{"after the server's own expiry"}},
		{faults.Trusting, "none", []string{"longer than the server keeps it"}},
		{faults.Counting, "replies lost", []string{"still has its field"}},
		{faults.Ghostly, "none", []string{"locked and nobody holds them"}},
		{faults.Sleepy, "none", []string{"was free for"}},
	} {
		t.Run(fmt.Sprint(c.flaw, " ", c.row), func(t *testing.T) {
			t.Parallel()
			row := few(faults.Rows(), c.row)[0]
			row.Load, row.Rounds = faults.Load{Mutexes: 3, Hold: 200 * time.Millisecond, Many: 10}, 2
			switch c.flaw {
			case faults.Ghostly, faults.Sleepy:
				row.Rounds = 1 // it keeps everybody waiting
			}
			var found string
			for try := range tries {
				r, err := faults.Run(t.Context(), row, faults.Options{
					Start: on(s), Register: server, Prefix: fmt.Sprint(t.Name(), try, ":"), Seed: n, Flaw: c.flaw, Keep: t.TempDir(), Lease: time.Second,
				})
				require.NoError(t, err)
				require.Positive(t, r.Injected)
				found = strings.Join(r.Violations, "\n")
				if c.say == nil {
					require.Empty(t, found, "seed %d", n)
					return
				}
				if !slices.ContainsFunc(c.say, func(text string) bool { return !strings.Contains(found, text) }) {
					return
				}
			}
			require.Fail(t, "not found out", "%q is to be said, and %q was; seed %d", c.say, found, n)
		})
	}
}

// tries is how often a machine may be so busy that what is late is excused.
const tries = 4

// TestSumsAreExactAfterADeadFlow takes as long as a late copy of a request can be on
// its way, so it runs where time is no matter: with WHEELLOCK_SOAK, whose length is
// not its own.
func TestSumsAreExactAfterADeadFlow(t *testing.T) {
	if os.Getenv(soakEnv) == "" {
		t.Skip(soakEnv + " is not set: it takes two minutes")
	}
	s := processes(t)
	for _, script := range []string{"semaphore_take", "semaphore_add", "latch_down"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r, err := faults.DeadFlow{Server: own(t, s), Script: script, Dead: 40 * time.Second, Exact: time.Minute}.Run(t.Context())
			require.NoError(t, err)
			t.Logf("%d calls, of %d it is not known what they did", r.Calls, r.Unknown)
			require.Empty(t, r.Violations)
		})
	}
}

// A flow that is dead for a moment costs no sum, and the run does what it should.
func TestSumsAreExactAfterAFlowWasDeadForAMoment(t *testing.T) {
	t.Parallel()
	r, err := faults.DeadFlow{Server: own(t, processes(t)), Script: "semaphore_add", Dead: 2 * time.Second, Exact: time.Second}.Run(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.Violations)
	require.Greater(t, r.Calls, 100)
}
