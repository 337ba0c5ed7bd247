package simulation_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/points"
)

// explored are small worlds of which all orders are simulated that differ from the first by a few delays.
var explored = map[string]scenario{
	"three callers, a release and a loss": {
		Clients: []settings{{Connections: 1}}, Objects: []kind{mutex},
		Actors: []actor{
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: locks, Acts: []act{{Do: locks}}}}},
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: deletes}}},
		},
	},
	"three callers of two clients and a ForceUnlock": {
		Clients: []settings{{Connections: 1}, {Connections: 1}}, Objects: []kind{mutex},
		Actors: []actor{
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: locks}}},
			{Client: 1, Acts: []act{{Do: locks}}},
			{Client: 1, Acts: []act{{Do: forces}}},
		},
	},
	"three callers, one of whom leaves, and a Close": {
		Clients: []settings{{Connections: 1, ReleaseOnClose: true}}, Objects: []kind{mutex},
		Actors: []actor{
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: cancels, Object: 1}}},
			{Acts: []act{{Do: closes, Within: lease}}},
		},
	},
	"hand-overs of two clients, and a lost counter of tokens": {
		Clients: []settings{{Connections: 1}, {Connections: 1}}, Objects: []kind{mutex},
		Actors: []actor{
			{Acts: []act{{Do: locks, Acts: []act{{Do: pauses, For: 5 * time.Millisecond}}}, {Do: locks}}},
			{Acts: []act{{Do: locks, Acts: []act{{Do: pauses, For: 5 * time.Millisecond}}}}},
			{Client: 1, Acts: []act{{Do: locks, Acts: []act{{Do: pauses, For: 5 * time.Millisecond}}}, {Do: locks}}},
			{Client: 1, Acts: []act{{Do: pauses, For: 8 * time.Millisecond}, {Do: loses}}},
		},
	},
	"a hand-over, a loss and a context that ends": {
		Clients: []settings{{Connections: 1}}, Objects: []kind{mutex},
		Actors: []actor{
			{Acts: []act{{Do: locks, Acts: []act{{Do: extends, For: lease}}}}},
			{Acts: []act{{Do: locks, For: lease}}},
			{Acts: []act{{Do: deletes}}},
			{Acts: []act{{Do: cancels, Object: 1}}},
		},
	},
	"readers, a writer and a loss": {
		Clients: []settings{{Connections: 1}, {Connections: 1}}, Objects: []kind{readWrite},
		Actors: []actor{
			{Acts: []act{{Do: locks, Reads: true}}},
			{Client: 1, Acts: []act{{Do: locks, Reads: true}}},
			{Client: 1, Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: forces}}},
		},
	},
	"a waiting writer that leaves readers": {
		Clients: []settings{{Connections: 1}, {Connections: 1}}, Objects: []kind{readWrite},
		Actors: []actor{
			{Acts: []act{{Do: locks, Reads: true, Acts: []act{{Do: pauses, For: lease / 2}}}}},
			{Client: 1, Acts: []act{{Do: pauses, For: 5 * time.Millisecond}, {Do: locks, Within: 2 * maxPoll}}},
			{Acts: []act{{Do: pauses, For: 3 * maxPoll / 2}, {Do: locks, Reads: true}}},
		},
	},
	"a fair queue, one of which leaves": {
		Clients: []settings{{Connections: 1}, {Connections: 1}}, Objects: []kind{fair},
		Actors: []actor{
			{Acts: []act{{Do: locks}}},
			{Client: 1, Acts: []act{{Do: locks}}},
			{Client: 1, Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: cancels, Object: 1}}},
		},
	},
	"permits, one of whose callers leaves, and a Close": {
		Clients: []settings{{Connections: 1}, {Connections: 1}}, Objects: []kind{permits},
		Actors: []actor{
			{Acts: []act{{Do: locks, Count: 2}}},
			{Client: 1, Acts: []act{{Do: locks, Count: 2}}},
			{Client: 1, Acts: []act{{Do: locks, Count: 2}}},
			{Acts: []act{{Do: cancels, Object: 1}}},
			{Client: 1, Acts: []act{{Do: closes, Within: lease}}},
		},
	},
	"three callers of two owners, a ForceUnlock, a loss, a context that ends and a Close": {
		Clients: []settings{{Connections: 1}}, Objects: []kind{mutex},
		Actors: []actor{
			{Acts: []act{{Do: locks, Acts: []act{{Do: locks}}}}},
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: forces}}},
			{Acts: []act{{Do: deletes}}},
			{Acts: []act{{Do: cancels, Object: 2}}},
			{Acts: []act{{Do: closes, Within: lease}}},
		},
	},
	"a slot that moves under a hand-over": {
		Clients: []settings{{Connections: 1}, {Connections: 1}}, Objects: []kind{mutex}, Cluster: 2,
		Actors: []actor{
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: locks}}},
			{Client: 1, Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: moves, Server: 0}, {Do: moves, Server: 1}}},
		},
	},
	"a connection that fails under two callers": {
		Clients: []settings{{Connections: 1}}, Objects: []kind{mutex},
		Actors: []actor{
			{Acts: []act{{Do: locks, Acts: []act{{Do: guards}}}}},
			{Acts: []act{{Do: locks}}},
			{Acts: []act{{Do: cuts, Late: 20 * time.Millisecond}}},
		},
	},
}

// explore simulates orders of a scenario, and prints how many.
func explore(t *testing.T, o order, failed func(story string)) {
	s := *o.Scenario
	s.Small, s.Plan = true, points.Plan{InOrder: true}
	began, worlds, steps, over := time.Now(), 0, 0, false
	done := make([]int, o.Delays+1)
	var from func(delays []int)
	from = func(delays []int) {
		if over = over || o.Length > 0 && time.Since(began) > o.Length || o.Seeds > 0 && worlds >= o.Seeds; over {
			return
		}
		s := s
		s.Plan.Delays = delays
		ran := simulate(t, s, false, func(story string) { failed(fmt.Sprintf("with delays %v:\n%s", delays, story)) })
		worlds, steps = worlds+1, steps+ran.steps
		done[len(delays)]++
		if len(delays) == o.Delays {
			return
		}
		first := 0
		if len(delays) > 0 {
			first = delays[len(delays)-1] + 1
		}
		for i := first; i < ran.steps; i++ {
			if len(delays) > 0 || i%o.Parts == o.Part {
				from(append(slices.Clone(delays), i))
			}
		}
	}
	from(nil)
	how := "all there are"
	if over {
		how = "not all"
	}
	fmt.Printf("simulated %d worlds, %d steps, by delays %v, %s\n", worlds, steps, done, how)
}

// TestAllOrdersOfSmallWorlds visits all orders that differ by one delay. WHEELLOCK_EXPLORE says how
// many orders that differ by two it visits for each world, or for how long: 1000 or 10m.
func TestAllOrdersOfSmallWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	program, most := theProduct(t), amount(t, "WHEELLOCK_EXPLORE", 1)
	for name, s := range explored {
		t.Run(name, func(t *testing.T) {
			one, two := order{Scenario: &s, Delays: 1}, most
			two.Scenario, two.Delays = &s, 2
			for _, o := range []order{one, two} {
				for _, r := range inParts(t, program, o) {
					require.False(t, r.found, "%s", r.said)
					if t.Log(r.sums); o.Delays == 1 {
						require.Contains(t, r.sums, "all there are")
					}
				}
			}
		})
	}
}

// inParts runs an order on two workers, each with a part of it.
func inParts(t *testing.T, program string, o order) []result {
	results := make([]result, 2)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			o := o
			o.Part, o.Parts = i, len(results)
			results[i] = work(t.Context(), t, program, o)
		})
	}
	all.Wait()
	return results
}
