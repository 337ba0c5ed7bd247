package run

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
)

func TestSearchDoublesThenHalves(t *testing.T) {
	for _, c := range []struct{ start, limit, truth, most, tooMany int }{
		{20, 1000, 100, 100, 110},
		{20, 1000, 5000, 1000, 0}, // the limit
		{20, 1000, 3, 3, 4},       // downwards
		{20, 1000, 1, 1, 2},
		{20, 1000, 0, 0, 1},
		{20, 10, 100, 10, 0},
		{1, math.MaxInt / 4, 123_456, 122_880, 131_072},
	} {
		var asked []int
		most, tooMany := search(c.start, c.limit, func(n int) (bool, bool) {
			asked = append(asked, n)
			require.Less(t, len(asked), 40)
			return n <= c.truth, true
		})
		require.Equal(t, []int{c.most, c.tooMany}, []int{most, tooMany}, "%+v: %v", c, asked)
	}
}

func TestSearchThatIsEndedSaysWhatItKnows(t *testing.T) {
	most, tooMany := search(10, 1000, func(n int) (bool, bool) { return true, n < 40 })
	require.Equal(t, []int{20, 0}, []int{most, tooMany})
}

func TestMaxTriesUpToItsLimit(t *testing.T) {
	t.Parallel()
	d, _ := holders.DriverNamed("library")
	p, err := NewParent(holders.OneServer(fixture.RedisOrMini(t)), Plan{Drivers: []holders.Driver{d}, Lease: 4 * time.Second, Duration: 4 * time.Second, Max: true}, &fixture.Log{}, noProgress{})
	require.NoError(t, err)
	found, rows := p.Max(context.Background(), "library", 10, 20)
	require.Equal(t, "library", found.Driver)
	require.NotEmpty(t, found.GaveOut)
	require.NotEmpty(t, rows)
	all := true
	for i, r := range rows {
		require.True(t, i == 0 || rows[i-1].Locks < r.Locks)
		all = all && r.KeptUp(4*time.Second)
	}
	if all { // a busy machine may not keep them
		require.Equal(t, 20, found.Kept)
		require.Zero(t, found.TooMany)
		require.Contains(t, found.GaveOut, "limit")
		require.Positive(t, found.Renewals.Value)
	}
}

func TestMaxThatIsInterruptedSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, err := NewParent(holders.OneServer(fixture.Mini(t)), Plan{Lease: time.Second, Duration: time.Second}, &fixture.Log{}, noProgress{})
	require.NoError(t, err)
	found, rows := p.Max(ctx, "library", 10, 20)
	require.True(t, found.Interrupted)
	require.Empty(t, rows)
	require.Zero(t, found.Kept)
}
