package integration_test

import (
	"cmp"
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

// seedEnv names the environment variable with the seed of a run. If it is not set, the seed is RAPID_SEED,
// which .ci/run derives from the commit.
const seedEnv = "WHEELLOCK_SEED"

func seed(t *testing.T) uint64 {
	t.Helper()
	text := cmp.Or(os.Getenv(seedEnv), os.Getenv("RAPID_SEED"))
	if text == "" {
		return rand.Uint64N(1 << 32)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// starterOf makes runs start servers of that kind.
func starterOf(s starter) func(context.Context, ...string) (faults.Target, error) {
	return func(ctx context.Context, args ...string) (faults.Target, error) {
		srv, err := s.start(ctx, redistest.Options{Args: args})
		if err != nil {
			return nil, err
		}
		return srv, nil
	}
}

// atOnce bounds the rows that run at the same time, because other tests run too. A row has three
// processes, a proxy and a server, which take a third to two thirds of a core.
const atOnce = 2

// inGate are the rows that always run. The other ones run with WHEELLOCK_FAULTS=all.
var inGate = []string{"black hole", "holder killed", "Redis killed, AOF"}

// TestPromisesHoldUnderFaults runs the matrix and prints the table.
func TestPromisesHoldUnderFaults(t *testing.T) {
	s := processes(t)
	if testing.Short() {
		t.Skip("it takes long")
	}
	rows := faults.Rows()
	if !fixture.AllFaults() {
		rows = slices.DeleteFunc(rows, func(r faults.Row) bool { return !slices.Contains(inGate, r.Name) })
		require.Len(t, rows, len(inGate), "a name has changed")
	}
	o := faults.Options{Start: starterOf(s), Register: startOwn(t, s), Seed: seed(t)}
	results := make([]faults.Result, len(rows))
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, row := range rows {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t.Run(strings.ReplaceAll(row.Name, " ", "_"), func(t *testing.T) {
				o := o
				o.Prefix = fmt.Sprintf("%d:", i)
				r, err := faults.Run(t.Context(), row, o)
				if errors.Is(err, faults.ErrNoCompiler) {
					fixture.SkipLacking(t, err)
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

// TestFlawedClientsAreFoundOut shows that each check can fail: a client with one flaw is
// refuted in the row that shows the flaw. The same client without a flaw is not.
func TestFlawedClientsAreFoundOut(t *testing.T) {
	if fixture.IsBrief() {
		t.Skip("WHEELLOCK_FAULTS=all, because it takes long: check_test.go of faults has a history for each check")
	}
	s := processes(t)
	server, n := startOwn(t, s), seed(t)
	for _, c := range []struct {
		flaw faults.Flaw
		row  string
		say  []string // texts that its violations must have
	}{
		{faults.Unbroken, "holder stopped", nil},
		{faults.Unbroken, "black hole", nil},
		{faults.Blind, "holder stopped", []string{"both relied on it", "no order of its"}},
		{faults.Unfenced, "holder stopped", []string{"the register counts", "has token 1 after 1"}},
		{faults.Late, "black hole", []string{"after the server's own expiry"}},
		{faults.Trusting, "none", []string{"longer than the server keeps it"}},
		{faults.Ghostly, "none", []string{"still has its field"}},
		{faults.Sleepy, "none", []string{"was free for"}},
	} {
		t.Run(fmt.Sprint(c.flaw, " ", c.row), func(t *testing.T) {
			t.Parallel()
			rows := faults.Rows()
			row := rows[slices.IndexFunc(rows, func(r faults.Row) bool { return r.Name == c.row })]
			row.Load = faults.Load{Mutexes: 3, Hold: 200 * time.Millisecond, Own: 10}
			switch row.Rounds = 2; c.flaw {
			case faults.Ghostly:
				row.Rounds = 1 // it keeps everybody waiting
			case faults.Sleepy: // nobody else takes what it does not see
				row.Rounds, row.Load.Pause = 5, 8*time.Second
			}
			var found string
			for try := range tries {
				r, err := faults.Run(t.Context(), row, faults.Options{
					Start: starterOf(s), Register: server, Prefix: fmt.Sprint(t.Name(), try, ":"), Seed: n, Flaw: c.flaw, Keep: t.TempDir(),
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

// tries is how often a machine may be so busy that a late event is excused.
const tries = 4
