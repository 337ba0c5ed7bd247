package waitqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// placesWorld is one client of a lock whose order is in Redis, and that server. An event is
// one step of a caller, of a request or of a hold; a world is made anew from its events.
type placesWorld struct {
	calls   []call0
	fault   bend
	line    line
	twin    twin
	callers []caller
	told    []Instruction[int8]
	state   []placesState
	request []placesRequest
	left    []bool // the context of the caller has ended; its request may be under way

	holder  int8   // the caller whose field has the lock; free or another's
	queue   []int8 // the callers with a place in Redis, in order
	hold    int8   // the hold of the client; 0: none
	holdOf  int8   // the caller that has the hold
	ending  bool   // the hold is being unlocked
	holds   int8
	owed    []int8 // fields that are to be released
	unknown int    // how many answers may still be lost
	losses  int    // how many holds may still be lost
	closes  bool   // Close may be called
	wrong   string
}

type (
	placesState   int8
	placesRequest int8
)

const (
	yetToCome placesState = iota
	standing
	done

	noRequest placesRequest = iota
	sent
	saidYes
	saidNo

	free     int8 = -1
	anothers int8 = -2
)

func newPlacesWorld(sc *placesScenario) *placesWorld {
	w := &placesWorld{
		calls: sc.calls, fault: sc.bent, line: NewLine[int8, int8](QueueInRedis, &testRun), twin: twin{kind: QueueInRedis, limits: testRun},
		callers: make([]caller, len(sc.calls)), told: make([]Instruction[int8], len(sc.calls)), state: make([]placesState, len(sc.calls)),
		request: make([]placesRequest, len(sc.calls)), left: make([]bool, len(sc.calls)),
		holder: free, unknown: sc.unknown, losses: sc.losses, closes: sc.closes,
	}
	if sc.taken {
		w.holder = anothers
	}
	w.line.testRule = sc.bent
	for i, c := range sc.calls {
		w.callers[i] = caller{Owner: c.owner, NoWait: c.try}
		w.request[i] = noRequest
	}
	return w
}

// events returns the events that can happen now.
func (w *placesWorld) events() (out []replayEvent) {
	add := func(what string, who int8) { out = append(out, replayEvent{what, who}) }
	for n := range w.calls {
		i := int8(n)
		switch w.state[i] {
		case yetToCome:
			add("join", i)
		case standing:
			switch in := w.line.Instruction(&w.callers[i]); {
			case in.Do == DoProbe && w.request[i] == noRequest:
				add("ask", i)
			case in.Do == DoReenter && w.request[i] == noRequest, in.Do == DoRefuse, in.Do == DoGiveUp:
				add("return", i)
			}
			add("leave", i)
		}
		switch w.request[i] {
		case sent:
			add("execute", i)
		case saidYes, saidNo:
			add("answer", i)
		}
		if w.request[i] != noRequest && w.unknown > 0 && w.state[i] == standing {
			add("lose", i)
		}
	}
	for _, f := range w.owed {
		if w.request[f] == noRequest {
			add("release", f)
		}
	}
	switch {
	case w.hold != 0 && !w.ending:
		add("unlock", w.holdOf)
		if w.losses > 0 {
			add("lost", w.holdOf)
		}
	case w.hold != 0:
		add("unlocked", w.holdOf)
	}
	if w.holder == anothers {
		add("other", 0)
	}
	if w.closes {
		add("close", 0)
	}
	return out
}

// apply makes e happen, and checks the result.
func (w *placesWorld) apply(e replayEvent) {
	i := e.who
	c := &w.callers[i]
	switch e.what {
	case "join":
		w.state[i] = standing
		w.twin.join(i, c.Owner, false, c.NoWait)
		w.step(w.line.Join(c))
	case "ask":
		if fresh := c.NoWait || w.twin.at(i).fresh; fresh {
			for n, r := range w.request {
				if r != noRequest && w.state[n] == standing && w.calls[n].owner == c.Owner {
					w.fail("caller %d asks for the first time while %d of its owner does", i, n)
				}
			}
		}
		w.request[i] = sent
		w.twin.began(i)
		w.step(w.line.Began(c))
	case "return":
		if in := w.line.Instruction(c); in.Do == DoRefuse && w.told[i].Do != DoRefuse {
			w.fail("caller %d was not told that it is refused", i)
		}
		w.leave(i)
	case "leave":
		w.leave(i)
	case "execute":
		first := len(w.queue) == 0 || w.queue[0] == i
		switch {
		case w.holder == free && first:
			w.holder = i
			w.drop(i)
			w.request[i] = saidYes
		default:
			if !c.NoWait && !slices.Contains(w.queue, i) {
				w.queue = append(w.queue, i)
			}
			w.request[i] = saidNo
		}
	case "answer":
		yes := w.request[i] == saidYes
		w.request[i] = noRequest
		switch {
		case w.state[i] != standing: // the caller has left, so its field is owed
		case yes:
			w.holds++
			w.hold, w.holdOf, w.ending = w.holds, i, false
			w.state[i] = done
			w.twin.took(i, w.hold)
			w.step(w.line.Took(c, w.hold))
			if w.line.closed {
				w.ending = true // the hold is passed on, and unlocked
				w.twin.leaving(w.hold, 0, false)
				w.leaving()
			}
		default:
			w.twin.ended(i, true)
			w.step(w.line.Refused(c))
		}
	case "lose":
		w.unknown--
		if w.request[i] == saidYes {
			w.holder = anothers // an orphan, until its lease ends
		}
		w.request[i] = noRequest // a copy that is under way has the old field
		w.drop(i)
		w.twin.ended(i, false)
		w.step(w.line.Unanswered(c))
	case "release":
		w.owed = slices.DeleteFunc(w.owed, func(f int8) bool { return f == i })
		w.drop(i)
		if w.holder == i {
			w.holder = free
		}
	case "unlock":
		w.ending = true
		w.twin.leaving(w.hold, 0, false)
		w.leaving()
	case "unlocked", "lost":
		if e.what == "lost" {
			w.losses--
		}
		h, owner := w.hold, w.calls[w.holdOf].owner
		w.hold, w.holder = 0, free
		w.twin.gone(h)
		w.step(w.line.HoldEnded(owner, h))
	case "other":
		w.holder = free
	case "close":
		w.closes = false
		w.twin.close()
		w.step(w.line.Close())
	}
	w.check()
}

func (w *placesWorld) leaving() {
	next, end, s := w.line.Leaving(w.calls[w.holdOf].owner, w.hold, 0, false)
	if next != nil || end {
		w.fail("the hold is handed over inside the client")
	}
	w.step(s)
}

// leave removes caller i. Its field is owed, because Redis may have a place or a hold for it.
func (w *placesWorld) leave(i int8) {
	w.state[i] = done
	if w.request[i] != noRequest || slices.Contains(w.queue, i) {
		w.owed = append(w.owed, i)
	}
	w.twin.leave(i)
	w.step(w.line.Leave(&w.callers[i]))
}

func (w *placesWorld) drop(i int8) {
	w.queue = slices.DeleteFunc(w.queue, func(f int8) bool { return f == i })
}

func (w *placesWorld) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// step notes who was woken.
func (w *placesWorld) step(s step) {
	for _, c := range s.Wake {
		for i := range w.callers {
			if c == &w.callers[i] {
				w.told[i] = w.line.Instruction(c)
			}
		}
	}
	if !w.line.closed && len(s.PassOn) > 0 {
		w.fail("a hold is nobody's")
	}
}

// check looks at every caller's instruction.
func (w *placesWorld) check() {
	for n := range w.calls {
		i := int8(n)
		if w.state[i] != standing {
			continue
		}
		c := &w.callers[i]
		in := w.line.Instruction(c)
		if w.fault == nil {
			if want := w.twin.instruction(i); in != want {
				w.fail("caller %d is told %v, and its twin %v", i, in, want)
			}
		}
		if in != w.told[i] {
			w.fail("caller %d was not woken for %v", i, in)
		}
		has := w.hold != 0 && !w.ending && w.calls[w.holdOf].owner == c.Owner
		switch {
		case w.line.closed:
			if in.Do != DoGiveUp {
				w.fail("caller %d is told %v after Close", i, in)
			}
		case has != (in.Do == DoReenter):
			w.fail("caller %d is told %v; its owner has the lock: %v", i, in, has)
		case has:
		case in.Do == DoProbe, in.Do == DoRefuse && c.NoWait:
		case in.Do != DoWait:
			w.fail("caller %d is told %v", i, in)
		case slices.Contains(w.queue, i) && w.request[i] == noRequest && !w.twin.at(i).fresh:
			w.fail("caller %d has a place, and does not show that it lives", i)
		case !slices.ContainsFunc(w.twin.callers, func(x twinCaller) bool {
			return x.owner == c.Owner && (x.probing || w.line.Instruction(&w.callers[x.id]).Do == DoProbe)
		}):
			w.fail("caller %d sleeps, and nobody of its owner asks", i)
		}
		if t := w.twin.at(i); in.Do == DoRefuse && t.asked == 0 && !slices.ContainsFunc(w.asked(), func(n uint64) bool { return n >= t.number }) {
			w.fail("caller %d is refused by what began before it came", i)
		}
	}
}

// asked returns, for each caller that has asked, which callers had joined at that time.
func (w *placesWorld) asked() (out []uint64) {
	for n := range w.callers {
		out = append(out, w.callers[n].probedUpTo)
	}
	return out
}

// code returns the same text for two worlds with the same possible futures.
func (w *placesWorld) code() string {
	var b strings.Builder
	fmt.Fprint(&b, w.holder, w.queue, w.hold != 0, w.holdOf, w.ending, w.owed, w.unknown, w.losses, w.closes, w.state, w.request, w.line.closed, "|")
	for _, c := range w.twin.callers {
		came := 0
		for n, x := range w.twin.callers {
			if x.number <= c.asked {
				came |= 1 << n
			}
		}
		fmt.Fprint(&b, c.id, c.probing, c.fresh, c.may, c.refused, c.over, came, c.waitOrder > 0, ";")
	}
	return b.String()
}

type placesScenario struct {
	name            string
	calls           []call0
	taken           bool // by another client
	unknown, losses int
	closes          bool
	bent            bend
	states          int // recorded
}

var placesScenarios = []placesScenario{
	{name: "three callers of two owners", calls: []call0{who(0, "w"), who(1, "w"), who(0, "w")}, losses: 1, states: 9_913},
	{name: "one owner", calls: []call0{who(0, "w"), who(0, "w"), who(0, "wt")}, taken: true, unknown: 1, states: 43_071},
	{name: "some do not wait", calls: []call0{who(0, "wt"), who(0, "w"), who(1, "wt")}, unknown: 1, losses: 1, states: 18_582},
	{name: "two that do not wait", calls: []call0{who(0, "wt"), who(0, "wt"), who(0, "w")}, taken: true, states: 8_085},
	{name: "Close", calls: []call0{who(0, "w"), who(1, "w"), who(0, "wt")}, closes: true, states: 12_250},
}

func (w *placesWorld) broken() string { return w.wrong }

func (w *placesWorld) over() bool {
	return !slices.ContainsFunc(w.state, func(s placesState) bool { return s != done }) && w.holder == free && len(w.queue) == 0
}

func TestEveryStateOfPlacesIsRight(t *testing.T) {
	for _, sc := range placesScenarios {
		everyStateIsRight(t, sc.name, sc.states, func() replayed { return newPlacesWorld(&sc) })
	}
}

func TestBugsOfPlacesAreFound(t *testing.T) {
	for _, bug := range []struct {
		name, scenario string
		bent           bend
		wrong          string
	}{
		{"an owner asks twice for the first time", "one owner", ownerProbesTwice, "asks for the first time while"},
		{"who has a place waits for its owner", "one owner", func(_ *line, c *caller, in Instruction[int8]) Instruction[int8] {
			if in == probe && !c.NoWait && !c.isFresh && !c.isProbing && c.group.probes > 0 {
				return wait
			}
			return in
		}, "does not show that it lives"},
		{"only the first in line re-enters", "three callers of two owners", firstAloneReenters, "its owner has the lock"},
		{"only the first in line asks", "three callers of two owners", func(l *line, c *caller, in Instruction[int8]) Instruction[int8] {
			if in == probe && c != l.first && !c.isProbing {
				return wait
			}
			return in
		}, "nobody of its owner asks"},
	} {
		i := slices.IndexFunc(placesScenarios, func(s placesScenario) bool { return s.name == bug.scenario })
		sc := placesScenarios[i]
		sc.bent = bug.bent
		bugIsFound(t, bug.name, bug.wrong, func() replayed { return newPlacesWorld(&sc) })
	}
}
