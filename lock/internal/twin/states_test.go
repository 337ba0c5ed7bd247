package twin

import (
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var scenarios = []scenario{
	{
		name: "mutex", kind: "mutex", clients: []int8{0, 1},
		does: [][]verb{{doLockFor, doUnlock}, {doLock, doRelock, doUnlock, doUnlock}},
		most: []budget{{faults: 1, leaves: 1}, {faults: 1, jumps: 1}}, states: 67_000,
	},
	{
		name: "guards", kind: "mutex", clients: []int8{0, 1},
		does: [][]verb{{doLock, doGuard, doGuard, doUnlock}, {doLockFor, doGuard, doUnlock}},
		most: []budget{{faults: 1, leaves: 1}, {faults: 1, jumps: 1}}, states: 92_000,
	},
	{
		name: "extension", kind: "mutex", clients: []int8{0, 1},
		does: [][]verb{{doLockFor, doExtend, doExtend, doUnlock}, {doLock, doUnlock}},
		most: []budget{{faults: 1, jumps: 1}}, states: 53_000,
	},
	{
		name: "renewals without an answer", kind: "mutex", clients: []int8{0, 1},
		does: [][]verb{{doLock, doGuard, doUnlock}, {doLock, doUnlock}},
		most: []budget{{faults: 1, silent: 1}}, states: 16_000,
	},
	{
		name: "force", kind: "mutex", clients: []int8{0, 1, 1},
		does: [][]verb{{doLock, doUnlock}, {doLock, doUnlock}, {doForce}},
		most: []budget{{faults: 1}}, states: 17_000,
	},
	{
		name: "hand-over", kind: "mutex", clients: []int8{0, 0, 1},
		does: [][]verb{{doLock, doUnlock}, {doLock, doUnlock}, {doLock, doUnlock}},
		most: []budget{{faults: 1}}, states: 43_000,
	},
	{
		name: "hand-over in memory", kind: "mutex", memory: true, clients: []int8{0, 0, 1},
		does: [][]verb{{doLock, doGuard, doUnlock}, {doLock, doGuard, doUnlock}, {doLock, doUnlock}},
		most: []budget{{faults: 1}, {leaves: 1}, {jumps: 1}}, states: 113_000,
	},
	{
		name: "hand-over in memory, and a re-entry", kind: "mutex", memory: true, clients: []int8{0, 0},
		does: [][]verb{{doLock, doRelockOnce, doUnlock, doUnlock}, {doLock, doRelock, doUnlock, doUnlock}},
		most: []budget{{faults: 1, renews: 1}}, states: 53_000,
	},
	{
		name: "hand-over in memory, and an extension", kind: "mutex", memory: true, clients: []int8{0, 0},
		does: [][]verb{{doLock, doProlong, doUnlock}, {doLock, doExtend, doUnlock}},
		most: []budget{{faults: 1}, {jumps: 1}}, states: 10_000,
	},
	{
		name: "hand-over in memory, and renewals", kind: "mutex", memory: true, clients: []int8{0, 0, 1},
		does: [][]verb{{doLock, doUnlock}, {doLock, doUnlock}, {doLock, doUnlock}},
		most: []budget{{silent: 1, renews: 1}}, states: 16_000,
	},
	{
		name: "hand-over in memory, and a force", kind: "mutex", memory: true, clients: []int8{0, 0, 1},
		does: [][]verb{{doLock, doUnlock}, {doLock, doUnlock}, {doForce, doLock, doUnlock}},
		most: []budget{{faults: 1}, {renews: 1}}, states: 136_000,
	},
	{
		name: "tokens", kind: "mutex", memory: true, tokens: true, behind: 3, clients: []int8{0, 0, 1},
		does: [][]verb{{doLock, doUnlock}, {doLock, doUnlock}, {doLock, doUnlock, doLock, doUnlock}},
		most: []budget{{losses: 1}}, states: 19_000,
	},
	{
		name: "tokens of one client", kind: "mutex", memory: true, tokens: true, clients: []int8{0, 0, 0},
		does: [][]verb{{doLock, doUnlock}, {doLock, doUnlock}, {doLock, doUnlock, doLock, doUnlock}},
		most: []budget{{losses: 1}}, states: 74_000,
	},
	{
		name: "the end of a run", kind: "mutex", memory: true, run: 1, clients: []int8{0, 0, 1},
		does: [][]verb{{doLock, doUnlock, doLock, doUnlock}, {doLock, doUnlock}, {doLock, doUnlock}},
		most: []budget{{faults: 1}, {leaves: 1}}, states: 163_000,
	},
	{
		name: "a reader, and a writer", kind: "rw", clients: []int8{0, 1},
		does: [][]verb{{doRead, doRelock, doUnlock, doUnlock}, {doWrite, doUnlock}},
		most: []budget{{faults: 1, leaves: 1}, {faults: 1, jumps: 1}}, states: 102_000,
	},
	{
		name: "a writer that reads", kind: "rw", clients: []int8{0, 0, 1},
		does: [][]verb{{doWrite, doRead, doUnlock, doUnlock}, {doRead, doUnlock}, {doWrite, doUnlock}},
		most: []budget{{faults: 1}}, states: 147_000,
	},
	{
		name: "a writing that ends by itself", kind: "rw", fixed: true, clients: []int8{0, 1},
		does: [][]verb{{doWrite, doRead, doUnlock, doUnlock}, {doRead, doUnlock}},
		most: []budget{{faults: 1, leaves: 1}}, states: 105_000,
	},
	{
		name: "semaphore", kind: "semaphore", count: 1, clients: []int8{0, 1},
		does: [][]verb{{doTake, doGive}, {doTake, doGive}},
		most: []budget{{faults: 2}, {faults: 1, leaves: 1}, {faults: 1, copies: 1}}, states: 224_000,
	},
	{
		name: "latch", kind: "latch", count: 2, clients: []int8{0, 1},
		does: [][]verb{{doDown}, {doDown}},
		most: []budget{{faults: 2, jumps: 1, copies: 1}}, states: 37_000,
	},
	{
		name: "permits", kind: "permits", count: 1, clients: []int8{0, 1},
		does: [][]verb{{doPermit, doUnlock}, {doPermit, doUnlock}},
		most: []budget{{faults: 2}, {faults: 1, leaves: 1}}, states: 107_000,
	},
}

func scenarioOf(t *testing.T, name string) *scenario {
	for _, sc := range scenarios {
		if sc.name == name {
			sc.jump = setJump
			return &sc
		}
	}
	require.Fail(t, "no such scenario", name)
	return nil
}

// statesEnv is how many states of each scenario are explored further than usual:
// with more that is rare. "all" is as usual, but the largest too.
const statesEnv = "WHEELLOCK_STATES"

// TestEveryStateIsRight visits every state that can be reached while all rules are
// kept, and looks at the properties in each.
func TestEveryStateIsRight(t *testing.T) {
	further, _ := strconv.Atoi(os.Getenv(statesEnv))
	var total atomic.Int64
	t.Cleanup(func() { t.Logf("%d states", total.Load()) })
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			if sc.states > 100_000 && os.Getenv(statesEnv) == "" {
				t.Skipf("%s=all, for it takes long", statesEnv)
			}
			sc, limit, states := scenarioOf(t, sc.name), math.MaxInt32, 0
			switch {
			case further > 0:
				limit, sc.most = further, []budget{{faults: 2, leaves: 1, jumps: 1}}
			case testing.Short():
				limit = 10_000
			}
			for _, sc.budget = range sc.most {
				began := time.Now()
				r := explore(sc, limit)
				t.Logf("%s %+v: %v in %v", sc.name, sc.budget, r, time.Since(began).Round(time.Millisecond))
				states += r.states
				require.Empty(t, r.wrong)
			}
			total.Add(int64(states))
			if limit == math.MaxInt32 {
				require.GreaterOrEqual(t, states, sc.states, "there were more")
			}
		})
	}
}

// TestFaultsAreFound switches one rule off after the other: the exploration finds
// what comes of it, and tells the shortest story that leads there.
func TestFaultsAreFound(t *testing.T) {
	for _, fault := range []struct {
		name     string
		scenario string
		rules    rules
		wrong    string
		with     func(*scenario)
	}{
		{"requests never expire", "mutex", rules{noLimit: true}, "nobody has", nil},
		{"a request of a semaphore never expires", "semaphore", rules{noLimit: true}, "permits", nil},
		{"a request of a latch never expires", "latch", rules{noLimit: true}, "latch", nil},
		{"a request for a permit never expires", "permits", rules{noLimit: true}, "nobody has", nil},
		{"not there is final", "mutex", rules{oneRelease: true}, "nobody has", nil},
		{"a re-entry that is not answered stands in line", "a reader, and a writer", rules{retryQueues: true}, "for ever", nil},
		{"a writer's field is removed without its mode", "a writer that reads", rules{flaw: modeStays}, "kept out", nil},
		{"a force deletes who came meanwhile", "force", rules{flaw: forceAll}, "hold the lock", func(sc *scenario) {
			sc.budget, sc.does = budget{}, [][]verb{{doLock, doUnlock, doLock, doUnlock}, {doLock, doUnlock}, {doForce}}
		}},
		{"a guard is sent while the last one is open", "guards", rules{notOpen: true}, "runs after", nil},
		{"a new connection does not ask for the time", "guards", rules{staleTime: true}, "runs after", func(sc *scenario) { sc.budget.jumps = 1 }},
		{"a hold that is lost is forgotten, and its extension comes late", "extension", rules{lossIsNothing: true}, "nobody has", nil},
		{"a hold that is lost is forgotten, and its renewal comes late", "renewals without an answer", rules{lossIsNothing: true}, "nobody has", func(sc *scenario) { sc.budget = budget{silent: 1} }},
		{"a guard is open when its hold is handed over", "hand-over in memory", rules{passOpen: true}, "has handed the lock over", nil},
		{"a re-entry is open when its hold is handed over", "hand-over in memory, and a re-entry", rules{passOpen: true}, "Redis says 2", nil},
		{"an orphan of a hold that was handed over", "hand-over in memory", rules{passAndOwe: true}, "hold the lock", func(sc *scenario) { sc.budget = budget{} }},
		{"a loss is told to who had the lock before", "hand-over in memory, and a force", rules{tellLeaver: true}, "is told that a lock is lost that it has not", func(sc *scenario) { sc.budget = budget{renews: 1} }},
		{"a token that is not reserved is given", "tokens", rules{passUnminted: true}, "does not rise", func(sc *scenario) { sc.budget = budget{losses: 1} }},
		{"tokens are reserved far ahead of the time", "tokens of one client", rules{flaw: boundless}, "does not rise", func(sc *scenario) { sc.budget = budget{losses: 1} }},
		{"the least token is of the client's time", "tokens", rules{flaw: clientsTime}, "does not rise", func(sc *scenario) { sc.budget = budget{losses: 1} }},
		{"tokens of a lost counter go on from the time", "tokens of one client", rules{flaw: fromTheTime}, "does not rise", func(sc *scenario) { sc.budget = budget{losses: 1} }},
		{"a writing that ends is forgotten, and its owner reads", "a writing that ends by itself", rules{lossIsNothing: true}, "nobody has", nil},
	} {
		t.Run(strings.ReplaceAll(fault.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			sc := scenarioOf(t, fault.scenario)
			sc.rules, sc.budget = fault.rules, budget{faults: 1}
			if fault.with != nil {
				fault.with(sc)
			}
			r := explore(sc, 500_000)
			t.Log(r)
			require.Contains(t, r.wrong, fault.wrong)
		})
	}
}

// TestWhatIsNotCovered finds what can happen although all rules are kept: where the
// network or the clock of the server does what the documentation leaves out.
func TestWhatIsNotCovered(t *testing.T) {
	for _, limit := range []struct {
		name     string
		scenario string
		wrong    string
		with     func(*scenario)
	}{
		{"the clock is set back while a request is late", "mutex", "nobody has", func(sc *scenario) {
			sc.backAny, sc.budget = true, budget{faults: 1, jumps: 1}
		}},
		{"the clock is set back by more than a lease", "mutex", "nobody has", func(sc *scenario) {
			sc.jump, sc.budget = 3*lease, budget{faults: 1, jumps: 1}
		}},
		{"the clock is set back, and the counter of tokens is lost", "tokens", "does not rise", func(sc *scenario) {
			sc.budget = budget{losses: 1, jumps: 1}
		}},
		{"an acquisition that was answered arrives once more", "mutex", "nobody has", func(sc *scenario) { sc.budget = budget{copies: 1} }},
		{"a guard that was answered arrives once more", "guards", "runs after", func(sc *scenario) { sc.budget = budget{copies: 1} }},
	} {
		t.Run(strings.ReplaceAll(limit.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			sc := scenarioOf(t, limit.scenario)
			limit.with(sc)
			r := explore(sc, 500_000)
			t.Log(r)
			require.Contains(t, r.wrong, limit.wrong)
		})
	}
}
