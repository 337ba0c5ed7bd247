package faults

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// told is an event of a story and the moment at which it was heard of.
type told struct {
	event
	heard stamp
}

// madeUp makes a history of one key: mostly a lock's, and broken here and there.
// What is heard of is heard late, but for each process in the order of its stamps.
// Of other kinds than mutex nothing is lost: they have no model then.
func madeUp(rng *rand.Rand, k kind) (es []told, faults []period) {
	ids := map[int]int64{}
	at, token, value := stamp(0), int64(0), int64(0)
	broken := func() bool { return rng.IntN(150) == 0 }
	ago := func(n int) stamp { return ms(1 + rng.IntN(n)) }
	add := func(e event) { e.Key, e.Kind = "mutex-0", k; es = append(es, told{event: e}) }
	for range 30 + rng.IntN(30) {
		at += ago(20)
		if rng.IntN(3) == 0 {
			at += ms(rng.IntN(1000)) // nobody wants it
			if broken() {
				at += ms(1500)
			}
		}
		proc := 1 + rng.IntN(3)
		ids[proc]++
		e := event{Proc: proc, ID: ids[proc], Wait: rng.IntN(4) > 0}
		called := at - min(at, ago(25)) // while another has it, often
		e.At, e.Op = called, opTry
		add(e)
		if rng.IntN(6) == 0 {
			e.At, e.Op, e.Out = at+ago(50), opNot, outGaveUp
			add(e)
			continue
		}
		if token++; broken() {
			token -= 2
		}
		e.At, e.Op, e.Token, e.Until = at, opGot, token, at+ms(800)
		add(e)
		lost := k == mutex && broken()
		for range rng.IntN(3) {
			if k != mutex {
				break
			}
			at += ms(1)
			u := e
			u.At, u.Op, u.Until, u.Write = at, opUse, 0, rng.IntN(2) == 0
			if u.Write {
				u.Value = value + 1
			}
			add(u)
			at += ms(1)
			u.At, u.Op, u.Out = at, opUsed, outOK
			switch {
			case rng.IntN(15) == 0:
				u.Out = outUnknown
				if u.Write && rng.IntN(2) == 0 {
					value = u.Value
				}
			case u.Write:
				value = u.Value
			default:
				u.Value = value
			}
			if broken() {
				u.Value++
			}
			add(u)
		}
		at += ago(10)
		if broken() {
			faults = append(faults, period{From: at - ms(1), To: at})
		}
		if lost {
			e.At, e.Op = max(at, e.Until-ms(rng.IntN(2)*300)), opLost
			at = e.At + 1
			add(e)
			at += ms(250)
		}
		f := e
		f.At, f.Op, f.Until = at, opFree, 0
		add(f)
		f.At, f.Op, f.Out = at+ago(15), opFreed, outOK
		if lost {
			f.Out = outLost
		}
		add(f)
		if !broken() {
			at = f.At
		}
	}
	// In the order in which things happened at each process, and heard of in that.
	slices.SortStableFunc(es, func(a, b told) int { return int(a.At - b.At) })
	late := map[int]stamp{}
	for i := range es {
		late[es[i].Proc] = max(late[es[i].Proc], es[i].At+ago(40))
		es[i].heard = late[es[i].Proc]
	}
	slices.SortStableFunc(es, func(a, b told) int { return int(a.heard - b.heard) })
	return es, faults
}

// verdict is what is wrong with a history, without what depends on how it was cut.
func verdict(c *checks) []string {
	var out []string
	picture := regexp.MustCompile(`no order of its .*`)
	for _, v := range c.violations {
		out = append(out, picture.ReplaceAllString(v, "no order"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestPiecesAreJudgedAsTheWhole: what is found does not depend on when the history
// was cut, and violations whose parts lie on both sides of a cut are found.
func TestPiecesAreJudgedAsTheWhole(t *testing.T) {
	pieces, wrong, right := 0, 0, 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 7))
		k := []kind{mutex, mutex, mutex, permit, write, shared}[seed%6]
		es, fs := madeUp(rng, k)
		row := Row{Loses: seed%3 == 0 && k == mutex}
		whole, cut := story{newHistory()}, story{newHistory()}
		for proc := range 3 {
			cut.hear(proc+1, 0)
		}
		a, b := whole.checked(t, row), cut.checked(t, row)
		if !row.Loses {
			fs = nil
		}
		whole.faults, cut.faults = fs, fs
		most := map[int]stamp{}
		for _, e := range es {
			whole.add(e.event)
			cut.add(e.event)
			// A process says no more than that what it wrote was written.
			most[e.Proc] = max(most[e.Proc], e.At-1)
			cut.hear(e.Proc, most[e.Proc])
			if rng.IntN(3) == 0 {
				b.settle(false)
			}
		}
		a.finish()
		b.finish()
		require.Equal(t, verdict(a), verdict(b), "seed %d", seed)
		require.Equal(t, 1, a.checked)
		require.Equal(t, a.lostHolds, b.lostHolds)
		require.Equal(t, a.late, b.late)
		x, y := whole.lines["mutex-0"].past, cut.lines["mutex-0"].past
		require.Equal(t, []any{x.sure, x.maybe, x.raw, x.lost, x.token, x.free}, []any{y.sure, y.maybe, y.raw, y.lost, y.token, y.free}, "seed %d", seed)
		require.Empty(t, cut.open)
		pieces += b.checked
		if len(a.violations) > 0 {
			wrong++
		} else {
			right++
		}
	}
	t.Logf("%d pieces; %d histories are wrong, %d right", pieces, wrong, right)
	require.Greater(t, pieces, 5*600, "the histories were hardly cut")
	require.Greater(t, wrong, 100)
	require.Greater(t, right, 100)
}

// TestWhatSpansACutIsFound has what is right on each side of a cut and wrong together.
func TestWhatSpansACutIsFound(t *testing.T) {
	for _, c := range []struct {
		name, say     string
		before, after func(s story)
	}{
		{
			"a lower token", "has token 1 after 2",
			func(s story) { s.hold(1, 1, 0, 10, 810, 2); s.free(1, 1, 20) },
			func(s story) { s.hold(2, 1, 30, 40, 830, 1); s.free(2, 1, 50) },
		},
		{
			"a lost update", "no order of its",
			func(s story) {
				s.hold(1, 1, 0, 10, 810, 1)
				s.use(1, 1, 11, 1, 0, false)
				s.use(1, 1, 13, 1, 1, true)
				s.free(1, 1, 20)
			},
			func(s story) {
				s.hold(2, 1, 30, 40, 830, 2)
				s.use(2, 1, 41, 2, 0, false)
				s.free(2, 1, 50)
			},
		},
		{
			"an old token at the register", "no order of its",
			func(s story) {
				s.hold(1, 1, 0, 10, 810, 5)
				s.use(1, 1, 11, 5, 0, false)
				s.free(1, 1, 20)
			},
			func(s story) {
				s.hold(2, 1, 30, 40, 830, 4)
				s.use(2, 1, 41, 4, 0, false)
				s.free(2, 1, 50)
			},
		},
		{
			"free and not got", "was free for",
			func(s story) { s.hold(1, 1, 0, 10, 810, 1); s.free(1, 1, 20) },
			func(s story) { s.hold(2, 1, 30, 5000, 5800, 2); s.free(2, 1, 5010) },
		},
		{
			"renewed after its release", "was renewed 4.98s after its end",
			func(s story) { s.hold(1, 1, 0, 10, 810, 1); s.free(1, 1, 19) },
			func(s story) {
				s.hold(2, 1, 30, 40, 830, 2)
				s.free(2, 1, 50)
				s.renewals = []renewed{{at: ms(5000), proc: 1, id: 1}}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := story{newHistory()}
			s.hear(1, 0)
			check := s.checked(t, Row{})
			c.before(s)
			s.hear(1, ms(25))
			check.settle(false)
			require.Equal(t, 1, check.checked)
			require.Empty(t, check.violations)
			c.after(s)
			s.hear(1, forever)
			check.settle(false)
			require.Empty(t, s.lines["mutex-0"].holds, "nothing is kept of what was checked")
			require.Len(t, check.violations, 1+len(check.violations[1:]), "%v", check.violations)
			require.Contains(t, fmt.Sprint(check.violations), c.say)
		})
	}
}

// TestNothingIsCutThatIsNotKnown: while somebody is in a call, a fault goes on, a
// process was not heard or the register may change by itself, nothing is checked.
func TestNothingIsCutThatIsNotKnown(t *testing.T) {
	for name, tell := range map[string]func(s story){
		"a process was not heard": func(s story) { s.hear(3, ms(20)) },
		"a fault goes on":         func(s story) { s.fault = ms(15) },
		"somebody waits": func(s story) {
			s.add(event{At: ms(15), Proc: 2, ID: 1, Op: opTry, Key: "mutex-0", Kind: mutex, Wait: true})
		},
		"somebody holds": func(s story) { s.hold(2, 1, 15, 22, 900, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			s := story{newHistory()}
			s.hear(1, ms(5000))
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			tell(s)
			check := s.checked(t, Row{})
			check.settle(false)
			require.Zero(t, check.checked)
			check.finish()
			require.Equal(t, 1, check.checked)
			require.Empty(t, check.violations)
		})
	}
	t.Run("a write without an answer", func(t *testing.T) {
		s := story{newHistory()}
		s.hear(1, ms(5000))
		s.hold(1, 1, 0, 10, 810, 1)
		s.add(event{At: ms(12), Proc: 1, ID: 1, Op: opUse, Key: "mutex-0", Kind: mutex, Token: 1, Write: true, Value: 1})
		s.free(1, 1, 20)
		check := s.checked(t, Row{})
		check.settle(false)
		require.Zero(t, check.checked, "it may still arrive")
		s.hold(2, 1, 30, 40, 840, 2)
		s.use(2, 1, 41, 2, 0, false)
		s.free(2, 1, 50)
		check.settle(false)
		require.Equal(t, 1, check.checked, "the register has seen a higher token")
		s.hold(1, 2, 60, 70, 870, 3)
		s.use(1, 2, 71, 3, 1, false)
		s.free(1, 2, 80)
		check.settle(false)
		require.Equal(t, 2, check.checked)
		require.Contains(t, fmt.Sprint(check.violations), "no order", "it did not arrive before, and cannot afterwards")
	})
}
