package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMaxSaysWhatWasKeptAndWhatGaveOutFirst(t *testing.T) {
	m := Max{Driver: "library", LeaseMs: 3000, Kept: 5000, Renewals: NumberOf(5001), TooMany: 5500, GaveOut: "Redis (x)"}
	require.Equal(t, "On this machine the row library keeps 5,000 locks renewed at a lease of 3s, 5,001 renewals a second; 5,500 were too many, and what reached its limit first was Redis (x).",
		(&Report{Max: []Max{m}}).Verdict())
	m.TooMany, m.GaveOut = 0, "memory: y"
	require.Contains(t, m.String(), "no more were tried because of memory: y")
	m.Interrupted = true
	require.Contains(t, m.String(), "interrupted")
	require.Contains(t, Max{Driver: "wheel", Interrupted: true}.String(), "not known")
	require.Contains(t, Max{Driver: "wheel", TooMany: 1, GaveOut: "z"}.String(), "not even one lock")
}

func TestRowThatIsLateOrSlowDoesNotKeepUp(t *testing.T) {
	const lease = 3 * time.Second
	r := soundRow("library", 1000, 1, 1)
	r.RenewalsPerSecond, r.LateP99 = NumberOf(1000), NumberOf(20)
	require.True(t, r.KeptUp(lease))
	late, slow, lost := r, r, r
	late.LateP99, slow.RenewalsPerSecond, lost.Lost = NumberOf(501), NumberOf(500), NumberOf(1)
	require.False(t, late.KeptUp(lease))
	late.LateP99, late.LateMax = Number{}, NumberOf(501)
	require.False(t, late.KeptUp(lease), "of few renewals the latest counts")
	late.LateMax = NumberOf(20)
	require.True(t, late.KeptUp(lease))
	require.False(t, slow.KeptUp(lease))
	require.False(t, lost.KeptUp(lease))
}

func TestWhatGivesOutFirstIsNamed(t *testing.T) {
	for _, c := range []struct {
		client, redis, all float64
		local              bool
		says               string
		saturated          bool
	}{
		{0.1, 0.95, 0.95, false, "Redis (the client used 0.10 of", true},
		{1e6, 0.5, 0.5, false, "the client's CPU", true},
		{0.1, 0.5, 1e6, true, "share", true},
		{0.1, 0.5, 1e6, false, "no CPU of theirs", false},
		{0, 0.1, 0.1, true, "no CPU of theirs", false},
	} {
		r := Row{Cores: Cores{Client: NumberOf(c.client), Redis: NumberOf(c.redis), All: NumberOf(c.all)}}
		what, saturated := r.GaveOut(c.local)
		require.Contains(t, what, c.says)
		require.Equal(t, c.saturated, saturated)
	}
	what, _ := Row{Faults: []string{"died"}}.GaveOut(true)
	require.Equal(t, "the row itself: died", what)
}
