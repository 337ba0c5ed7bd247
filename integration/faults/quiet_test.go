package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProcessThatMiscountsIsFoundOut(t *testing.T) {
	for _, c := range []struct {
		q     Quiet
		wrong bool
	}{
		{Quiet{Counts: true, Held: 3, Own: 3}, false},
		{Quiet{Counts: true, Held: 2, Own: 3}, true},
		{Quiet{Counts: true, Held: 3, Own: 3, Waiting: 1}, true},
		{Quiet{Own: 3}, false}, // a twin has no Stats
	} {
		check := story{newHistory()}.checked(t, Row{})
		c.q.check(1, check)
		require.Equal(t, c.wrong, len(check.violations) > 0, "%+v: %v", c.q, check.violations)
	}
}

// TestAKeyThatNobodyHoldsIsAGhost: one that somebody holds is none, nor is one that
// somebody is about to get.
func TestAKeyThatNobodyHoldsIsAGhost(t *testing.T) {
	s := story{newHistory()}
	unheld := func() []string { return s.unheld([]string{"mutex-0"}) }
	require.Empty(t, unheld(), "it is not of this run")
	s.add(event{At: ms(0), Proc: 1, ID: 1, Op: opTry, Key: "mutex-0", Kind: mutex})
	require.Empty(t, unheld(), "somebody asks for it")
	s.add(event{At: ms(10), Proc: 1, ID: 1, Op: opGot, Key: "mutex-0", Kind: mutex, Token: 1, Until: ms(810)})
	require.Empty(t, unheld(), "somebody holds it")
	s.free(1, 1, 20)
	require.Equal(t, []string{"mutex-0"}, unheld())
	s.waiter(2, 1, 30, 40)
	require.Equal(t, []string{"mutex-0"}, unheld(), "who has left asks no more")
	check := s.checked(t, Row{})
	check.settle(false)
	require.Equal(t, []string{"mutex-0"}, unheld(), "what was checked is remembered as free")
}
