package waitqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// votesWorld is one client of a lock of two members, both of which a caller needs. A caller
// asks one after the other, and gives back what it got of less than both. An event is one step
// of a caller; a world is made anew from its events.
type votesWorld struct {
	calls   []call0
	fault   bend
	line    line
	twin    twin
	callers []caller
	told    []Instruction[int8]
	state   []votesState
	got     []int8 // by caller: the members that it has, by bits

	beside  int8    // members that owner 0 has by itself
	others  int8    // members that another client has, or that nobody answers for
	noted   [2]bool // by owner: what the Line was told
	unknown int     // how many answers may still be lost
	enters  int     // how often owner 0 may still take a member by itself
	closes  bool    // Close may be called
	closed  bool
	wrong   string
}

type votesState int8

const (
	votesToCome votesState = iota
	votesStands
	votesAsks1 // the first member is next
	votesAsks2
	votesAsked
	votesHolds
	votesOver
)

const bothVotes = 3

func newVotesWorld(sc *votesScenario) *votesWorld {
	w := &votesWorld{
		calls: sc.calls, fault: sc.bent, line: NewLine[int8, int8](Votes, &testRun), twin: twin{kind: Votes, limits: testRun},
		callers: make([]caller, len(sc.calls)), told: make([]Instruction[int8], len(sc.calls)),
		state: make([]votesState, len(sc.calls)), got: make([]int8, len(sc.calls)),
		others: sc.taken, unknown: sc.unknown, enters: sc.enters, closes: sc.closes,
	}
	w.line.bent = sc.bent
	for i, c := range sc.calls {
		w.callers[i] = caller{Owner: c.owner, Try: c.try}
	}
	return w
}

func (w *votesWorld) asks(i int8) bool { return w.state[i] >= votesAsks1 && w.state[i] <= votesAsked }

func (w *votesWorld) stands(i int8) bool { return w.state[i] == votesStands || w.asks(i) }

// ownerAsks reports whether a caller of that owner asks.
func (w *votesWorld) ownerAsks(o int8) bool {
	for n, c := range w.calls {
		if c.owner == o && w.asks(int8(n)) {
			return true
		}
	}
	return false
}

// owns reports whether an owner has a member.
func (w *votesWorld) owns(o int8) bool {
	for n, c := range w.calls {
		if c.owner == o && w.got[n] != 0 {
			return true
		}
	}
	return o == 0 && w.beside != 0
}

// events are what can happen now.
func (w *votesWorld) events() (out []replayEvent) {
	add := func(what string, who int8) { out = append(out, replayEvent{what, who}) }
	for n, c := range w.calls {
		i := int8(n)
		switch w.state[i] {
		case votesToCome:
			add("join", i)
		case votesStands:
			switch in := w.line.Instruction(&w.callers[i]); in.Do {
			case DoProbe:
				add("ask", i)
			case DoRefuse, DoGiveUp:
				add("leave", i)
			}
			add("leave", i)
		case votesAsks1, votesAsks2:
			add("execute", i)
		case votesAsked:
			add("answer", i)
			if w.unknown > 0 {
				add("lose", i)
			}
		case votesHolds:
			add("unlock", i)
		}
		if w.stands(i) && !w.ownerAsks(c.owner) && w.noted[c.owner] != w.owns(c.owner) {
			add("note", c.owner)
		}
	}
	if w.enters > 0 && w.mayTake(0, 1) {
		add("enter", 0)
	}
	if w.beside != 0 {
		add("exit", 0)
	}
	if w.others != 0 {
		add("other", 0)
	}
	if w.closes {
		add("close", 0)
	}
	return out
}

// mayTake reports whether an owner gets a member.
func (w *votesWorld) mayTake(o, member int8) bool {
	for n, c := range w.calls {
		if c.owner != o && w.got[n]&member != 0 {
			return false
		}
	}
	return w.others&member == 0 && (o == 0 || w.beside&member == 0)
}

// apply makes e happen, and checks what it has brought.
func (w *votesWorld) apply(e replayEvent) {
	i := e.who
	c := &w.callers[i]
	switch e.what {
	case "join":
		w.state[i] = votesStands
		w.twin.join(i, c.Owner, false, c.Try)
		w.step(w.line.Join(c))
		if !w.ownerAsks(c.Owner) {
			w.note(c.Owner)
		}
	case "note":
		w.note(i)
	case "ask":
		if w.ownerAsks(c.Owner) {
			w.fail("caller %d asks while another of its owner does", i)
		}
		if !c.Try && !w.noted[c.Owner] && w.before(i) > 0 {
			w.fail("caller %d asks, and neither is first nor has a member", i)
		}
		w.state[i] = votesAsks1
		w.twin.began(i)
		w.step(w.line.Began(c))
	case "execute":
		member := int8(w.state[i] - votesAsks1 + 1)
		if w.mayTake(c.Owner, member) {
			w.got[i] |= member
		}
		w.state[i]++
	case "answer":
		if w.got[i] == bothVotes {
			w.state[i] = votesHolds
			w.leave(i)
			break
		}
		w.state[i], w.got[i] = votesStands, 0
		w.twin.ended(i, true)
		w.step(w.line.Refused(c))
		w.note(c.Owner)
	case "lose":
		w.unknown--
		w.others |= w.got[i] // orphans, until their lease ends
		w.state[i], w.got[i] = votesStands, 0
		w.twin.ended(i, false)
		w.step(w.line.Unanswered(c))
		w.note(c.Owner)
	case "leave":
		w.state[i] = votesOver
		w.leave(i)
	case "unlock":
		w.state[i], w.got[i] = votesOver, 0
	case "enter":
		w.enters--
		w.beside = 1
	case "exit":
		w.beside = 0
	case "other":
		w.others = 0
	case "close":
		w.closes, w.closed = false, true
		w.twin.close()
		w.step(w.line.Close())
	}
	w.check()
}

// before is how many stand in line before i.
func (w *votesWorld) before(i int8) int {
	return max(slices.IndexFunc(w.twin.line(), func(c *twinCaller) bool { return c.id == i }), 0)
}

// note tells the Line whether an owner has a member.
func (w *votesWorld) note(o int8) {
	w.twin.own(o, w.owns(o))
	w.noted[o] = w.twin.owns[o]
	w.step(w.line.Owns(o, w.owns(o)))
}

func (w *votesWorld) leave(i int8) {
	w.twin.leave(i)
	w.step(w.line.Leave(&w.callers[i]))
	o := w.calls[i].owner
	w.noted[o] = w.twin.owns[o]
	if !w.ownerAsks(o) {
		w.note(o)
	}
}

func (w *votesWorld) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// step notes who was woken.
func (w *votesWorld) step(s step) {
	for _, c := range s.Wake {
		for i := range w.callers {
			if c == &w.callers[i] {
				w.told[i] = w.line.Instruction(c)
			}
		}
	}
}

// check looks at every caller's instruction.
func (w *votesWorld) check() {
	for n := range w.calls {
		i := int8(n)
		if !w.stands(i) {
			continue
		}
		c := &w.callers[i]
		in := w.line.Instruction(c)
		if want := w.twin.instruction(i); w.fault == nil && in != want {
			w.fail("caller %d is told %v, and its twin %v", i, in, want)
		}
		if in != w.told[i] {
			w.fail("caller %d was not woken for %v", i, in)
		}
		served := slices.ContainsFunc(w.twin.callers, func(x twinCaller) bool {
			return x.owner == c.Owner && (x.probing || w.line.Instruction(&w.callers[x.id]).Do == DoProbe)
		})
		switch {
		case w.closed:
			if in.Do != DoGiveUp {
				w.fail("caller %d is told %v after Close", i, in)
			}
		case in.Do == DoProbe, in.Do == DoRefuse && c.Try:
		case in.Do != DoWait:
			w.fail("caller %d is told %v", i, in)
		case served:
		case c.Try:
			w.fail("caller %d sleeps, which does not wait", i)
		case w.noted[c.Owner]:
			w.fail("caller %d sleeps, and its owner has a member", i)
		case w.before(i) == 0:
			w.fail("caller %d sleeps, and is the first", i)
		}
		if t := w.twin.at(i); in.Do == DoRefuse && t.asked == 0 && !slices.ContainsFunc(w.asked(), func(n uint64) bool { return n >= t.number }) {
			w.fail("caller %d is refused by what began before it came", i)
		}
	}
}

// asked says of all that have asked which of the callers had come then.
func (w *votesWorld) asked() (out []uint64) {
	for n := range w.callers {
		out = append(out, w.callers[n].asked)
	}
	return out
}

// code is the same for two worlds of which the same can come.
func (w *votesWorld) code() string {
	var b strings.Builder
	fmt.Fprint(&b, w.state, w.got, w.beside, w.others, w.noted, w.unknown, w.enters, w.closes, w.closed, "|")
	for _, c := range w.twin.callers {
		came := 0
		for n, x := range w.twin.callers {
			if x.number <= c.asked {
				came |= 1 << n
			}
		}
		fmt.Fprint(&b, c.id, c.probing, c.fresh, c.may, c.refused, c.over, came, c.settled > 0, ";")
	}
	return b.String()
}

type votesScenario struct {
	name            string
	calls           []call0
	taken           int8 // members that another client has
	unknown, enters int
	closes          bool
	bent            bend
	states          int // recorded
}

var votesScenarios = []votesScenario{
	{name: "three callers of two owners", calls: []call0{who(0, "w"), who(1, "w"), who(0, "w")}, enters: 1, states: 6_697},
	{name: "one owner", calls: []call0{who(0, "w"), who(0, "w"), who(0, "wt")}, taken: bothVotes, unknown: 1, enters: 1, states: 26_782},
	{name: "some do not wait", calls: []call0{who(0, "wt"), who(0, "w"), who(1, "wt")}, taken: 2, unknown: 1, states: 28_202},
	{name: "who has a member comes last", calls: []call0{who(1, "w"), who(1, "w"), who(0, "w")}, enters: 1, taken: 2, states: 20_311},
	{name: "Close", calls: []call0{who(0, "w"), who(1, "w"), who(0, "wt")}, closes: true, states: 5_022},
}

func (w *votesWorld) broken() string { return w.wrong }

func (w *votesWorld) over() bool {
	return !slices.ContainsFunc(w.state, func(s votesState) bool { return s != votesOver }) && w.line.Idle()
}

func TestEveryStateOfVotesIsRight(t *testing.T) {
	for _, sc := range votesScenarios {
		everyStateIsRight(t, sc.name, sc.states, func() replayed { return newVotesWorld(&sc) })
	}
}

func TestBugsOfVotesAreFound(t *testing.T) {
	for _, bug := range []struct {
		name, scenario string
		bent           bend
		wrong          string
	}{
		{"an owner asks twice", "some do not wait", ownerProbesTwice, "asks while another of its owner does"},
		{"who has a member waits its turn", "who has a member comes last", func(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
			if in == probe && !c.Try && c != l.first && !c.probing {
				return wait
			}
			return in
		}, "its owner has a member"},
		{"the second in line asks too", "three callers of two owners", secondProbes, "neither is first nor has a member"},
		{"all of an owner that has a member ask", "three callers of two owners", func(_ *line, c *caller, in Instruction[int8]) Instruction[int8] {
			if in == wait && c.party.owns {
				return probe
			}
			return in
		}, "asks while another of its owner does"},
		{"who does not wait waits for others", "some do not wait", func(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
			if in == probe && c.Try && !c.probing && l.first != nil {
				return wait
			}
			return in
		}, "which does not wait"},
	} {
		i := slices.IndexFunc(votesScenarios, func(s votesScenario) bool { return s.name == bug.scenario })
		sc := votesScenarios[i]
		sc.bent = bug.bent
		bugIsFound(t, bug.name, bug.wrong, func() replayed { return newVotesWorld(&sc) })
	}
}
