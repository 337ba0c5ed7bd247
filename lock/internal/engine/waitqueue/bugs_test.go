package waitqueue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bend replaces the instruction of Line by a wrong one.
type bend func(l *line, c *caller, in Instruction[int8]) Instruction[int8]

var (
	wait  = Instruction[int8]{Do: DoWait}
	probe = Instruction[int8]{Do: DoProbe}
)

func secondProbes(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if in == wait && l.first != nil && c == l.first.next && !l.first.isFresh {
		return probe
	}
	return in
}

func firstAloneReenters(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if in.Do == DoReenter && c != l.first {
		return wait
	}
	return in
}

func untakenIsNotReentered(_ *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if g := c.group; in.Do == DoReenter && g.holds != nil && g.holds.state == granted {
		return wait
	}
	return in
}

func tryPasses(_ *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if in.Do == DoRefuse && c.probedUpTo == 0 {
		return probe
	}
	return in
}

func ownerProbesTwice(_ *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if g := c.group; in == wait && g.probes > 0 && c == g.besideLine[0].first {
		return probe
	}
	return in
}

func releaseBlocks(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if in == probe && c == l.first && l.holdCount > 0 {
		return wait
	}
	return in
}

func upgradeWaits(_ *line, _ *caller, in Instruction[int8]) Instruction[int8] {
	if in.Do == DoGiveUp && in.Hold != 0 {
		return wait
	}
	return in
}

// TestRulesThatAreWrongAreFound puts one wrong rule after the other into Line. The
// properties find each of them without the twin, and report the shortest story that leads to it.
// integration/planted plants bugs in the code, and TestThePropertiesHold finds those.
func TestRulesThatAreWrongAreFound(t *testing.T) {
	for _, bug := range []struct {
		name     string
		bent     bend
		scenario string
		wrong    string // part of the report
		with     func(*scenario)
	}{
		{"two callers that wait probe", secondProbes, "another client", "callers that wait probe", func(s *scenario) {
			s.taken, s.others = true, false
		}},
		{"only the first in line re-enters", firstAloneReenters, "readers and a writer", "may re-enter and is told", nil},
		{"a hold is not re-entered before it is taken", untakenIsNotReentered, "hand-overs in memory", "may re-enter and is told", nil},
		{"who does not wait passes those who do", tryPasses, "some do not wait", "passes caller", nil},
		{"an owner probes twice", ownerProbesTwice, "some do not wait", "owner 0 probes 2 times", nil},
		{"a slow release keeps the first from probing", releaseBlocks, "hand-overs by script", "this client has no hold", nil},
		{"a reader waits for itself to write", upgradeWaits, "readers and writers that do not wait", "wait for its own owner", nil},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "_"), func(t *testing.T) {
			sc := scenarioOf(t, bug.scenario)
			if bug.with != nil {
				bug.with(sc)
			}
			sc.bent, sc.noTwin = bug.bent, true
			r := explore(sc, 300_000)
			t.Log(r)
			require.Contains(t, r.wrong, bug.wrong)
		})
	}
}

// TestThePropertiesHold explores the scenarios, and some more in which bugs show early. It does not use
// the twin, which may have the same bug as Line.
func TestThePropertiesHold(t *testing.T) {
	hold := func(name string, limit int, with func(*scenario)) {
		sc := scenarioOf(t, name)
		with(sc)
		sc.noTwin = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := explore(sc, limit)
			t.Log(r)
			require.Empty(t, r.wrong, "%v", r.story)
		})
	}
	for _, sc := range scenarios {
		hold(sc.name, 20_000, func(*scenario) {})
	}
	hold("hand-overs by script", 20_000, func(s *scenario) { s.budget = budget{close: 1} })
	hold("hand-overs in memory", 20_000, func(s *scenario) { s.run.Length = 1 })
	hold("hand-overs by script", 300_000, func(s *scenario) { s.others, s.pacing.Defer, s.run.Length = true, 9, 1 })
	hold("permits", 20_000, func(s *scenario) { s.calls = []call0{{needs: 1}, {needs: 2}, {needs: 1}} })
	hold("some do not wait", 20_000, func(s *scenario) { s.calls = []call0{who(0, "w"), who(1, "wt"), who(2, "w")} })
}
