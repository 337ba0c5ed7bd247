package waitqueue

import (
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	testPacing = Pacing{Pace: 1, MaxPoll: 4, Back: 2, BackMost: 8, Defer: 1, DeferEach: 1}
	testRun    = RunLimits{Length: 2, Least: 2, Time: time.Hour}
)

// who returns a caller with this owner. wants is w for the object alone or r to read;
// a following t means that the caller does not wait.
func who(owner int8, wants string) call0 {
	return call0{owner: owner, shared: wants[0] == 'r', try: len(wants) > 1}
}

// scenarios are explored completely. Each has the recorded number of its states.
var scenarios = []scenario{
	{
		name: "hand-overs by script", kind: Exclusive, lease: 6,
		calls:  []call0{who(0, "w"), who(1, "w"), who(0, "w")},
		budget: budget{unknown: 1, lost: 1}, states: 404_412,
	},
	{
		name: "hand-overs in memory", kind: Exclusive, memory: true, lease: 6,
		calls:  []call0{who(0, "w"), who(1, "w"), who(0, "w")},
		budget: budget{lost: 1, close: 1}, states: 155_299,
	},
	{
		name: "another client", kind: Exclusive, others: true, lease: 6,
		calls:  []call0{who(0, "w"), who(1, "w")},
		budget: budget{unknown: 1, late: 1}, states: 658_517,
	},
	{
		name: "the end of a run", kind: Exclusive, memory: true, others: true, lease: 2, run: RunLimits{Length: 1, Least: 1, Time: time.Hour},
		calls: []call0{who(0, "w"), who(1, "w"), who(0, "w")}, states: 1_167_952,
	},
	{
		name: "a stranger waits", kind: Exclusive, memory: true, others: true, yields: true, lease: 2,
		calls: []call0{who(0, "w"), who(1, "w")}, states: 98_415,
	},
	{
		name: "a quiet channel", kind: Exclusive, others: true, lease: 9,
		pacing: Pacing{Pace: 1, MaxPoll: 3, Quiet: 8, Back: 2, BackMost: 8, Defer: 1, DeferEach: 1},
		calls:  []call0{who(0, "w")},
		budget: budget{deaf: 1}, states: 218_526,
	},
	{
		name: "some do not wait", kind: Exclusive, lease: 6,
		calls:  []call0{who(0, "wt"), who(1, "w"), who(0, "wt")},
		budget: budget{unknown: 1}, states: 337_036,
	},
	{
		name: "readers and a writer", kind: ReadWrite, lease: 6,
		calls:  []call0{who(0, "r"), who(1, "w"), who(0, "r")},
		budget: budget{unknown: 1}, states: 229_162,
	},
	{
		name: "a writer that reads", kind: ReadWrite, lease: 6,
		calls:  []call0{who(0, "w"), who(1, "r"), who(0, "r")},
		budget: budget{lost: 1}, states: 137_801,
	},
	{
		name: "readers and writers that do not wait", kind: ReadWrite, lease: 6,
		calls:  []call0{who(0, "rt"), who(1, "r"), who(0, "wt")},
		states: 46_959,
	},
	{
		name: "permits", kind: Permits, permits: 2, lease: 6,
		calls:  []call0{{needs: 1}, {needs: 2}, {needs: 1}},
		budget: budget{unknown: 1}, states: 403_400,
	},
	{
		name: "latch", kind: Latch, others: true, lease: 6,
		calls:  []call0{{}, {}},
		budget: budget{unknown: 1, close: 1}, states: 88_060,
	},
}

func scenarioOf(t *testing.T, name string) *scenario {
	for _, sc := range scenarios {
		if sc.name == name {
			if sc.run.Length == 0 {
				sc.run = testRun
			}
			if sc.pacing.Pace == 0 {
				sc.pacing = testPacing
			}
			return &sc
		}
	}
	require.Fail(t, "no such scenario", name)
	return nil
}

// statesEnv is how many states of each scenario are explored further than usual:
// with all rare events, and another client. "some" explores larger scenarios than usual, without rare
// events, and "all" explores all scenarios.
const statesEnv = "WHEELLOCK_STATES"

// mostStates is the size up to which scenarios are explored, by the value of statesEnv.
var mostStates = map[string]int{"": 140_000, "some": 300_000}

// TestEveryStateIsRight visits every state that can be reached, and compares
// Line with its twin and with the properties in each.
func TestEveryStateIsRight(t *testing.T) {
	further, _ := strconv.Atoi(os.Getenv(statesEnv))
	var total atomic.Int64
	t.Cleanup(func() { t.Logf("%d states", total.Load()) })
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			if most := mostStates[os.Getenv(statesEnv)]; most > 0 && sc.states > most {
				t.Skip("it takes long, see statesEnv")
			}
			sc, limit := scenarioOf(t, sc.name), math.MaxInt32
			switch {
			case further > 0:
				limit, sc.others, sc.renews = further, true, true
				sc.budget = budget{unknown: 2, late: 1, lost: 1, deaf: 1, close: 1}
				if sc.pacing.Quiet == 0 {
					sc.budget.silent = 1
				}
			case testing.Short():
				limit = 20_000
			}
			began := time.Now()
			r := explore(sc, limit)
			t.Logf("%v in %v", r, time.Since(began).Round(time.Millisecond))
			total.Add(int64(r.states))
			require.Empty(t, r.wrong)
			if limit == math.MaxInt32 {
				require.GreaterOrEqual(t, r.states, sc.states, "there were more")
			}
		})
	}
}
