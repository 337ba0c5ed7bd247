package waitqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestABriefRunIsNotShortened: three callers of one client lock again and again. The length of a run
// depends on how long their holds last.
func TestABriefRunIsNotShortened(t *testing.T) {
	limits := RunLimits{Length: 16, Least: 4, Brief: 100, Time: 1000}
	for _, tt := range []struct {
		name  string
		each  Instant // how long a hold lasts
		turns int     // hand-overs of a run
		ahead int     // tokens that the next run reserves
	}{
		{"at once", 0, 16, 16},
		{"brief", 5, 16, 16},
		{"brief at first", 10, 10, 4},
		{"brief until all had a turn", 30, 4, 4},
		{"long", 50, 4, 4},
		{"too long for all", 600, 2, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLine[int8, int8](Exclusive, &limits)
			var now Instant
			callers := [3]caller{{Owner: 1}, {Owner: 2}, {Owner: 3}}
			hold := int8(1)
			l.AddHold(4, false, hold)
			for i := range callers {
				l.Join(&callers[i])
			}
			owner, turns := int8(4), 0
			for range 40 {
				next, over, _ := l.Leaving(owner, hold, now, false)
				require.NotNil(t, next)
				if over {
					require.Equal(t, tt.turns, turns)
					require.Equal(t, tt.ahead, l.Ahead(true))
					turns = -1
				}
				turns++
				hold++
				l.Handed(owner, hold-1, next, hold, now)
				l.Take(next)
				owner = next.Owner
				l.Join(next) // it comes back at once
				now += tt.each
			}
		})
	}
}
