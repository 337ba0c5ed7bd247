package waitqueue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type (
	line   = Line[int8, int8]
	caller = Caller[int8, int8]
	step   = Step[int8, int8]
)

// pair is a Line and its twin, which get the same events.
type pair struct {
	t       require.TestingT
	line    *line
	twin    twin
	callers map[int8]*caller
	told    map[int8]Instruction[int8] // the last instruction that each caller has learnt
	passOn  []int8
	next    map[int8]int8 // for each hold that is being handed over, its next holder
}

func newPair(t require.TestingT, k Kind, limits *RunLimits) *pair {
	l := NewLine[int8, int8](k, limits)
	return &pair{
		t: t, line: &l, twin: twin{kind: k, limits: *limits},
		callers: map[int8]*caller{}, told: map[int8]Instruction[int8]{}, next: map[int8]int8{},
	}
}

// requireSame compares, after an event, the instructions of every caller. A caller whose instruction has
// changed must have been woken.
func (p *pair) requireSame(s step) {
	woken := map[*caller]bool{}
	for _, c := range s.Wake {
		woken[c] = true
	}
	p.passOn = append(p.passOn, s.PassOn...)
	for id, c := range p.callers {
		if p.twin.at(id) == nil {
			delete(p.callers, id)
			delete(p.told, id)
			continue
		}
		got := p.line.Instruction(c)
		require.Equal(p.t, p.twin.instruction(id), got, "caller %d", id)
		if got != p.told[id] {
			require.True(p.t, woken[c], "caller %d was not woken for %v", id, got)
		}
		p.told[id] = got
	}
	require.Equal(p.t, p.twin.passed, p.passOn)
	idle := len(p.callers) == 0
	for _, h := range p.twin.holds {
		idle = idle && h.state != leaving
	}
	require.Equal(p.t, idle, p.line.Idle())
}

func TestLineIsItsTwin(t *testing.T) {
	for _, k := range []Kind{Exclusive, ReadWrite, Permits, Latch, QueueInRedis} {
		t.Run(fmt.Sprint("kind=", k), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkTwin(t, k) })
		})
	}
}

func checkTwin(t *rapid.T, k Kind) {
	p := newPair(t, k, &RunLimits{Length: rapid.IntRange(0, 4).Draw(t, "length"), Least: 2, Brief: time.Duration(rapid.IntRange(0, 30).Draw(t, "brief")), Time: 50})
	owners := rapid.SampledFrom([]int{2, 5, 40}).Draw(t, "owners")
	var now Instant
	var ids, holds int8
	pick := func(label string, ok func(id int8) bool) (int8, *caller) {
		var of []int8
		for id := range ids {
			if c := p.callers[id]; c != nil && ok(id) {
				of = append(of, id)
			}
		}
		if len(of) == 0 {
			t.Skip("nobody")
		}
		id := rapid.SampledFrom(of).Draw(t, label)
		return id, p.callers[id]
	}
	hold := func(states ...ownHoldState) twinHold {
		var of []twinHold
		for _, h := range p.twin.holds {
			for _, s := range states {
				if h.state == s {
					of = append(of, h)
				}
			}
		}
		if len(of) == 0 {
			t.Skip("no hold")
		}
		return rapid.SampledFrom(of).Draw(t, "hold")
	}
	join := func(t *rapid.T) {
		if ids == 120 {
			t.Skip("enough")
		}
		id := ids
		ids++
		c := &caller{Owner: int8(rapid.IntRange(0, owners-1).Draw(t, "owner")), NoWait: k != Latch && rapid.IntRange(0, 3).Draw(t, "try") == 0}
		c.Shared = k == ReadWrite && rapid.Bool().Draw(t, "shared")
		p.callers[id] = c
		p.told[id] = Instruction[int8]{}
		p.twin.join(id, c.Owner, c.Shared, c.NoWait)
		p.requireSame(p.line.Join(c))
	}
	probing := func(id int8) bool { return p.twin.at(id).probing }
	for range rapid.SampledFrom([]int{0, 3, 60}).Draw(t, "callers") {
		join(t)
	}
	actions := map[string]func(*rapid.T){
		"join":  join,
		"join2": join,
		"join3": join,
		"began": func(t *rapid.T) {
			id, c := pick("caller", func(id int8) bool { return p.told[id].Do == DoProbe && !probing(id) })
			p.twin.began(id)
			p.requireSame(p.line.Began(c))
		},
		"refused": func(t *rapid.T) {
			id, c := pick("caller", probing)
			p.twin.ended(id, true)
			p.requireSame(p.line.Refused(c))
		},
		"unanswered": func(t *rapid.T) {
			id, c := pick("caller", probing)
			p.twin.ended(id, false)
			p.requireSame(p.line.Unanswered(c))
		},
		"took": func(t *rapid.T) {
			id, c := pick("caller", probing)
			switch k {
			case Permits:
				p.twin.leave(id)
				p.requireSame(p.line.Leave(c))
			case Latch:
				p.twin.opened(id)
				p.requireSame(p.line.Opened(c))
			default:
				if holds == 120 {
					t.Skip("enough")
				}
				holds++
				p.twin.took(id, holds)
				p.requireSame(p.line.Took(c, holds))
			}
		},
		"take": func(t *rapid.T) {
			id, c := pick("caller", func(id int8) bool { return p.told[id].Do == DoTake })
			p.twin.take(id)
			p.requireSame(p.line.Take(c))
		},
		"leave": func(t *rapid.T) {
			id, c := pick("caller", func(int8) bool { return true })
			p.twin.leave(id)
			p.requireSame(p.line.Leave(c))
			require.Empty(t, p.line.Leave(c).PassOn)
		},
		"held": func(t *rapid.T) {
			if !k.HasOwners() || holds == 120 {
				t.Skip("no holds")
			}
			holds++
			owner, shared := int8(rapid.IntRange(0, owners-1).Draw(t, "owner")), k == ReadWrite && rapid.Bool().Draw(t, "shared")
			p.twin.held(owner, shared, holds)
			p.requireSame(p.line.AddHold(owner, shared, holds))
		},
		"leaving": func(t *rapid.T) {
			h := hold(held)
			yields := rapid.IntRange(0, 4).Draw(t, "yields") == 0
			next, over := p.twin.leaving(h.h, now, yields)
			c, overToo, s := p.line.Leaving(h.owner, h.h, now, yields)
			p.requireSame(s)
			require.Equal(t, over, overToo)
			if next < 0 {
				require.Nil(t, c)
			} else {
				require.Same(t, p.callers[next], c)
			}
			p.next[h.h] = next
		},
		"handed": func(t *rapid.T) {
			h := hold(leaving)
			next, ok := p.next[h.h]
			c := p.callers[next]
			if !ok || next < 0 || holds == 120 || c == nil {
				t.Skip("not handed over")
			}
			holds++
			p.twin.handed(h.h, next, c.Owner, holds, now)
			p.requireSame(p.line.Handed(h.owner, h.h, c, holds, now))
		},
		"gone": func(t *rapid.T) {
			h := hold(held, granted, leaving)
			p.twin.gone(h.h)
			p.requireSame(p.line.HoldEnded(h.owner, h.h))
		},
		"time": func(t *rapid.T) { now += Instant(rapid.IntRange(1, 60).Draw(t, "time")) },
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "close") > 0 {
				t.Skip("not yet")
			}
			p.twin.close()
			p.requireSame(p.line.Close())
		},
	}
	for range 4 { // each is some 30 steps
		t.Repeat(actions)
	}
}
