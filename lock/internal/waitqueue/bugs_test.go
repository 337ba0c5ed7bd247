package waitqueue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bend is a rule that is not Line's.
type bend func(l *line, c *caller, in Instruction[int8]) Instruction[int8]

var (
	wait  = Instruction[int8]{Do: DoWait}
	probe = Instruction[int8]{Do: DoProbe}
)

func secondProbes(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if in == wait && l.first != nil && c == l.first.next && !l.first.fresh {
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
	if p := c.party; in.Do == DoReenter && p.holds != nil && p.holds.state == granted {
		return wait
	}
	return in
}

func tryPasses(_ *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if in.Do == DoRefuse && c.asked == 0 {
		return probe
	}
	return in
}

func ownerProbesTwice(_ *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if p := c.party; in == wait && p.probing != nil && c == p.aside[0].first {
		return probe
	}
	return in
}

func releaseBlocks(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
	if in == probe && c == l.first && l.holds > 0 {
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

// TestBugsAreFound builds one bug after the other into Line or Probe: the
// properties, without the twin, find it, and tell the shortest story that leads
// to it.
func TestBugsAreFound(t *testing.T) {
	for _, bug := range []struct {
		name     string
		fault    fault
		bent     bend // or this
		scenario string
		wrong    string // what is said
		with     func(*scenario)
	}{
		{"two callers that wait probe", 0, secondProbes, "another client", "callers that wait probe", func(s *scenario) {
			s.taken, s.others = true, false
		}},
		{"only the first in line re-enters", 0, firstAloneReenters, "readers and a writer", "may re-enter and is told", nil},
		{"a hold is not re-entered before it is taken", 0, untakenIsNotReentered, "hand-overs in memory", "may re-enter and is told", nil},
		{"a newcomer goes to the front", faultNewcomerFirst, nil, "another client", "which came first", nil},
		{"who leaves drops what was handed to it", faultGrantDropped, nil, "hand-overs in memory", "is nobody's", nil},
		{"who does not wait passes those who do", 0, tryPasses, "some do not wait", "passes caller", nil},
		{"an owner probes twice", 0, ownerProbesTwice, "some do not wait", "owner 0 probes 2 times", nil},
		{"an older probe refuses a newcomer", faultRefusedUnasked, nil, "some do not wait", "began before it came", nil},
		{"a slow release keeps the first from probing", 0, releaseBlocks, "hand-overs by script", "this client has no hold", nil},
		{"the end of a release wakes nobody", faultNoWakeOnGone, nil, "hand-overs by script", "sleeps", nil},
		{"a hold is handed over after Close", faultGrantAfterClose, nil, "hand-overs by script", "gives up", func(s *scenario) {
			s.budget = budget{close: 1}
		}},
		{"a run has no end", faultEndlessRun, nil, "hand-overs in memory", "goes on", func(s *scenario) { s.run.Length = 1 }},
		{"a reader waits for itself to write", 0, upgradeWaits, "readers and writers that do not wait", "wait for its own owner", nil},
		{"a reader passes a writer", faultReaderPassesWriter, nil, "readers and a writer", "which came first", nil},
		{"a probe serves who came after it began", faultServedTooLate, nil, "latch", "began before it came", nil},
		{"few permits pass many", faultPermitsPass, nil, "permits", "which came first", nil},
		{"a confirmation is no news", faultConfirmationIgnored, nil, "another client", "sleeps", nil},
		{"the end of a lease is no news", faultLeaseIgnored, nil, "another client", "sleeps", nil},
		{"silence counts without a ping", faultQuietWithoutPing, nil, "a quiet channel", "sleeps", nil},
		{"others have their turn for ever", faultEndlessDeferral, nil, "hand-overs by script", "sleeps", func(s *scenario) {
			s.others, s.pacing.Defer, s.run.Length = true, 9, 1
		}},
		{"after an unknown answer nobody probes", faultUnknownForever, nil, "hand-overs by script", "sleeps", nil},
		{"what a refusal leaves is nobody's", faultRestIgnored, nil, "permits", "sleeps", func(s *scenario) {
			s.calls = []call0{{needs: 1}, {needs: 2}, {needs: 1}}
		}},
		{"an answer from before a release counts", faultStaleAnswer, nil, "some do not wait", "sleeps", func(s *scenario) {
			s.calls = []call0{who(0, "w"), who(1, "wt"), who(2, "w")}
		}},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "_"), func(t *testing.T) {
			sc := scenarioOf(t, bug.scenario)
			if bug.with != nil {
				bug.with(sc)
			}
			sc.fault, sc.bent, sc.noTwin = bug.fault, bug.bent, true
			r := explore(sc, 300_000)
			t.Log(r)
			require.Contains(t, r.wrong, bug.wrong)
		})
	}
}
