package points_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/points"
)

// together runs some goroutines. Each adds its name to a list in two steps. together returns the
// list.
func together(t *testing.T, plan points.Plan) (order []string, took time.Duration, s *points.Scheduler) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s = points.Start(plan)
		defer s.Stop()
		var mu points.Mutex
		var all sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			all.Go(func() {
				for range 2 {
					mu.Lock()
					points.Here("within") // no goroutine stops here, because it holds mu
					order = append(order, name)
					if name == "c" {
						unlockOfC(&mu)
					} else {
						mu.Unlock()
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		for {
			synctest.Wait()
			if s.Step() {
				continue
			}
			select {
			case <-ended:
				took = time.Since(began)
				return
			case <-s.News():
			}
		}
	})
	return order, took, s
}

func unlockOfC(mu *points.Mutex) { mu.Unlock() }

// changes returns how often a name in a list differs from the name before it.
func changes(order []string) int { return len(slices.Compact(slices.Clone(order))) - 1 }

func TestTheFirstOfAllGoesOnUntilItIsDemoted(t *testing.T) {
	var demoted int
	for seed := range uint64(50) {
		order, took, s := together(t, points.Plan{Seed: seed, Priorities: true})
		require.Equal(t, 3, changes(order), "%v", order)
		require.Len(t, order, 8)
		require.Zero(t, took)
		require.Equal(t, 16, s.Steps()) // before each Lock, after each Unlock
		order, _, _ = together(t, points.Plan{Seed: seed, Priorities: true, Demotions: 1, Within: 16})
		require.LessOrEqual(t, changes(order), 4)
		demoted += changes(order) - 3
	}
	require.Positive(t, demoted)
}

func TestAllOrdersComeByChance(t *testing.T) {
	most := 0
	for seed := range uint64(50) {
		order, _, _ := together(t, points.Plan{Seed: seed})
		most = max(most, changes(order))
	}
	require.Greater(t, most, 4)
}

func TestTimeGoesOnWhileOneIsHeldUp(t *testing.T) {
	order, took, s := together(t, points.Plan{Seed: 1, HoldUps: 1, Lengths: []time.Duration{time.Second}, Place: "unlock"})
	require.Len(t, order, 8)
	require.GreaterOrEqual(t, took, 2*time.Second, "each is held up after each of its two Unlocks")
	standing, _ := s.Standing()
	require.Equal(t, took, standing)
}

func TestOnlyThoseInAFunctionAreHeldUp(t *testing.T) {
	plan := points.Plan{Seed: 1, HoldUps: 1, Lengths: []time.Duration{time.Second}, Function: "points_test.unlockOfC"}
	order, took, s := together(t, plan)
	require.Len(t, order, 8)
	require.Equal(t, 2*time.Second, took, "one is held up twice")
	standing, _ := s.Standing()
	require.Equal(t, took, standing)
	plan.Function = "points_test.nothing"
	_, took, _ = together(t, plan)
	require.Zero(t, took)
}

func TestAMutexWithoutASchedulerExcludes(t *testing.T) {
	var mu points.Mutex
	var all sync.WaitGroup
	n := 0
	for range 4 {
		all.Go(func() {
			for range 1000 {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, 4000, n)
	require.True(t, mu.TryLock())
	require.False(t, mu.TryLock())
	mu.Unlock()
}

func TestAOnceRunsOnceAndOthersWaitForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once points.Once
		var all sync.WaitGroup
		n := 0
		for range 3 {
			all.Go(func() {
				once.Do(func() { time.Sleep(time.Second); n++ })
				if n != 1 {
					t.Error("it went on before the end")
				}
			})
		}
		all.Wait()
	})
}

// TestADrawDependsOnTheSeedAndTheGoroutine, and on how often that has drawn.
func TestADrawDependsOnTheSeedAndTheGoroutine(t *testing.T) {
	drawn := func(seed uint64) (all []float64) {
		synctest.Test(t, func(*testing.T) {
			s := points.Start(points.Plan{Seed: seed})
			defer s.Stop()
			for _, name := range []string{"a", "b"} {
				points.Go(name, func() { all = append(all, points.Float64(), points.Float64()) })
				for synctest.Wait(); s.Step(); synctest.Wait() {
				}
			}
		})
		return all
	}
	all := append(drawn(1), drawn(2)...)
	require.Equal(t, all[:4], drawn(1))
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), 8)
	for _, x := range append(all, points.Float64()) {
		require.True(t, 0 <= x && x < 1)
	}
}

func TestAMapIsRangedOverInTheOrderOfItsKeys(t *testing.T) {
	m, got := map[string]int{"c": 3, "a": 1, "d": 4, "b": 2}, []int{}
	for key, n := range points.Sorted(m) {
		got = append(got, n)
		if delete(m, "b"); key == "c" {
			break
		}
	}
	require.Equal(t, []int{1, 3}, got)
}
