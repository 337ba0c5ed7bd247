package waitqueue

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// replayed is a world that cannot be copied, so it is made anew from its events.
type replayed interface {
	events() []replayEvent // the events that are possible now
	apply(e replayEvent)
	code() string   // worlds with the same code have the same possible futures
	broken() string // the first thing that was wrong; empty: nothing
	over() bool     // the world may end here
}

// replayEvent is one step of somebody in such a world.
type replayEvent struct {
	what string
	who  int8
}

// replay visits every world that can be reached. At the first wrong one it returns its fault and its
// story.
func replay(start func() replayed) (states int, wrong string, story []replayEvent) {
	seen := map[string]bool{}
	todo := [][]replayEvent{nil}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		w := start()
		for _, e := range path {
			w.apply(e)
		}
		if wrong := w.broken(); wrong != "" {
			return states, wrong, path
		}
		code := w.code()
		if seen[code] {
			continue
		}
		seen[code] = true
		states++
		events := w.events()
		if len(events) == 0 && !w.over() {
			return states, "nothing more happens, and not all is over", path
		}
		for _, e := range events {
			todo = append(todo, append(slices.Clip(path), e))
		}
	}
	return states, "", nil
}

// everyStateIsRight runs a test of this name. The world must have at least least states.
func everyStateIsRight(t *testing.T, name string, least int, start func() replayed) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		if least > 15_000 && os.Getenv(statesEnv) == "" {
			t.Skip("it takes long, see statesEnv")
		}
		states, wrong, story := replay(start)
		t.Logf("%d states", states)
		require.Empty(t, wrong, "%v", story)
		require.GreaterOrEqual(t, states, least, "there were more")
	})
}

// bugIsFound runs a test of this name, in which a rule is bent. The fault must contain says.
func bugIsFound(t *testing.T, name, says string, start func() replayed) {
	t.Run(name, func(t *testing.T) {
		states, wrong, story := replay(start)
		t.Log(states, wrong, story)
		require.Contains(t, wrong, says)
	})
}
