package simulation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// shortest removes from a failing scenario the parts that the failure does not need. It returns the
// rest as a test.
func shortest(t *testing.T, program string, s scenario) string {
	fails := func(s scenario) bool { return work(t.Context(), t, program, order{Scenario: &s}).found }
	if !fails(s) {
		return fmt.Sprintf("and not again, with the scenario of seed %d: a seed should be a history", s.Seed)
	}
	began := time.Now()
	for shorter := true; shorter && time.Since(began) < time.Minute; {
		shorter = false
		for _, c := range s.without() {
			if time.Since(began) < time.Minute && fails(c) {
				s, shorter = c, true
				break
			}
		}
	}
	story := work(t.Context(), t, program, order{Scenario: &s}).said
	name := fmt.Sprintf("TestSeed%d", s.Seed)
	return fmt.Sprintf("the shortest story:\n%s\nfunc %s(t *testing.T) {\n\tplayAgain(t, `%s`)\n}\n", story[:strings.LastIndexByte(story, '\n')+1], name, s)
}

// without returns the scenarios that have one thing less than s.
func (s scenario) without() (all []scenario) {
	for i := range s.Actors {
		c := s
		c.Actors = slices.Delete(slices.Clone(s.Actors), i, i+1)
		all = append(all, c)
	}
	if s.Plan.Demotions > 0 {
		c := s
		c.Plan.Demotions = 0
		all = append(all, c)
	}
	if s.Plan.HoldUps > 0 {
		c := s
		c.Plan.HoldUps, c.Plan.Place, c.Plan.Function, c.Plan.Lengths = 0, "", "", nil
		all = append(all, c)
	}
	if s.Slowest > 0 {
		c := s
		c.Slowest = 0
		all = append(all, c)
	}
	for i, a := range s.Actors {
		for _, acts := range fewer(a.Acts) {
			c := s
			c.Actors = slices.Clone(s.Actors)
			c.Actors[i].Acts = acts
			all = append(all, c)
		}
	}
	return all
}

// fewer returns the lists with one act less, and those in which one act has one thing less.
func fewer(acts []act) (all [][]act) {
	for i, a := range acts {
		all = append(all, slices.Delete(slices.Clone(acts), i, i+1))
		change := func(to act) {
			c := slices.Clone(acts)
			c[i] = to
			all = append(all, c)
		}
		for _, inner := range fewer(a.Acts) {
			b := a
			b.Acts = inner
			change(b)
		}
		if a.Within > 0 && a.Do != closes {
			b := a
			b.Within = 0
			change(b)
		}
		if a.Again > 0 {
			b := a
			b.Again = 0
			change(b)
		}
		plain := a
		switch plain.Server, plain.Reads = 0, false; a.Do {
		case locks:
			plain.Count = 1
		case extends, pauses, silence, cuts:
		default:
			plain.For = 0
		}
		if plain.Server != a.Server || plain.Reads != a.Reads || plain.Count != a.Count || plain.For != a.For {
			change(plain)
		}
	}
	return all
}
