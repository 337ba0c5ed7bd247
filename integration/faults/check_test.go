package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/lock/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testLease = time.Second

func ms(n int) stamp { return stamp(n) * stamp(time.Millisecond) }

// story is a history in milliseconds.
type story struct{ *history }

func (s story) hold(proc, id, called, got, until int, token int64) {
	s.add(event{At: ms(called), Proc: proc, ID: int64(id), Op: opTry, Key: "mutex-0", Kind: mutex})
	s.add(event{At: ms(got), Proc: proc, ID: int64(id), Op: opGot, Key: "mutex-0", Kind: mutex, Token: token, Until: ms(until)})
}

func (s story) free(proc, id, at int) {
	s.add(event{At: ms(at), Proc: proc, ID: int64(id), Op: opFree, Key: "mutex-0", Kind: mutex})
	s.add(event{At: ms(at + 1), Proc: proc, ID: int64(id), Op: opFreed, Key: "mutex-0", Kind: mutex, Out: outOK})
}

func (s story) lost(proc, id, at int) {
	s.add(event{At: ms(at), Proc: proc, ID: int64(id), Op: opLost, Key: "mutex-0", Kind: mutex, Why: "a test"})
}

func (s story) use(proc, id, at int, token, value int64, write bool) {
	e := event{At: ms(at), Proc: proc, ID: int64(id), Op: opUse, Key: "mutex-0", Kind: mutex, Token: token, Write: write, Value: value}
	s.add(e)
	e.At, e.Op, e.Out = ms(at+1), opUsed, outOK
	s.add(e)
}

func (s story) waiter(proc, id, called, left int) {
	e := event{At: ms(called), Proc: proc, ID: int64(id), Op: opTry, Key: "mutex-0", Kind: mutex, Wait: true}
	s.add(e)
	e.At, e.Op, e.Out = ms(left), opNot, outGaveUp
	s.add(e)
}

func (s story) checked(t *testing.T, row Row) *checks {
	return &checks{history: s.history, lease: testLease, row: row, dir: t.TempDir()}
}

// TestAHoldHasTheFieldOfALaterOne: a call that began first may be handed the mutex by
// one that began after it, and then has the field that the later one made.
func TestAHoldHasTheFieldOfALaterOne(t *testing.T) {
	s := story{newHistory()}
	s.hold(2, 7, 0, 50, 2000, 300)
	s.hold(2, 4, 0, 60, 2000, 301) // handed on by 7
	require.Equal(t, int64(7), s.open[name{2, 4}].field)
	s.free(2, 4, 70)
	require.Equal(t, ms(71), s.ended[2][4])
	require.Equal(t, ms(71), s.ended[2][7])
	s.lost(2, 7, 65) // what is heard late
	s.free(2, 7, 68)
	require.Equal(t, ms(71), s.ended[2][7], "the field was renewed until then")
}

// TestEachCheckRefutesWhatItIsThereFor has a history for each, and good ones
// that look alike.
func TestEachCheckRefutesWhatItIsThereFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		loses bool
		say   string // empty: nothing is wrong
		tell  func(s story)
	}{
		{"one after the other", false, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.hold(2, 1, 5, 21, 830, 2)
			s.free(2, 1, 40)
		}},
		{"two at once", false, "both relied on it for 10ms", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.hold(2, 1, 5, 20, 830, 2)
			s.free(1, 1, 30)
			s.free(2, 1, 40)
		}},
		{"two at once, for porcupine", false, "no order of its 4 operations", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.hold(2, 1, 5, 20, 830, 2)
			s.free(1, 1, 30)
			s.free(2, 1, 40)
		}},
		{"after a lease that ended", false, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.lost(1, 1, 811)
			s.hold(2, 1, 5, 1020, 1830, 2)
			s.free(2, 1, 1040)
		}},
		{"told late", false, "told 100ms after the server's own expiry", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.lost(1, 1, 1110)
		}},
		{"told very late by a process that stood still", false, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.add(event{At: ms(2990), Proc: 1, Op: opStill, Until: ms(500)})
			s.lost(1, 1, 3000)
		}},
		{"told after another had got it", false, "told 50ms after p2.1 at mutex-0 had got it", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.hold(2, 1, 5, 820, 1830, 2)
			s.lost(1, 1, 870)
			s.free(2, 1, 1040)
		}},
		{"lost before its time", false, "although nothing takes locks away", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.lost(1, 1, 500)
		}},
		{"taken away", true, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.faults = []period{{From: ms(100), To: ms(110)}}
			s.hold(2, 1, 5, 120, 920, 2)
			s.lost(1, 1, 400)
			s.free(2, 1, 500)
		}},
		{"taken away, and given back by an Unlock whose first answer was lost", true, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.faults = []period{{From: ms(100), To: ms(110)}}
			s.hold(2, 1, 5, 120, 920, 2)
			s.free(2, 1, 130)
			s.free(1, 1, 300)
		}},
		{"taken away and not told", true, "was taken away", func(s story) {
			s.hold(1, 1, 0, 10, 3000, 1)
			s.faults = []period{{From: ms(100), To: ms(110), What: "it"}}
			s.lost(1, 1, 2000)
		}},
		{"the same token, later", false, "has token 1 after 1", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.hold(2, 1, 30, 40, 830, 1)
			s.free(2, 1, 50)
		}},
		{"the same token, at once", false, "the same token 1", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.hold(2, 1, 5, 40, 830, 1)
			s.free(1, 1, 20)
			s.free(2, 1, 50)
		}},
		{"left after a long wait for a free lock", false, "p2.1 at mutex-0 left after it had waited for 3.979s for a lock that was free", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.waiter(2, 1, 15, 4000)
		}},
		{"left after a long wait for a lock that was free and then not", false, "left after it had waited for 3.979s", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.hold(3, 1, 4000, 4010, 4810, 2)
			s.waiter(2, 1, 15, 4200)
			s.free(3, 1, 4500)
		}},
		{"left after a long wait for a lock that was held", false, "", func(s story) {
			s.hold(1, 1, 0, 10, 4810, 1)
			s.waiter(2, 1, 15, 4000)
			s.free(1, 1, 4010)
		}},
		{"goroutines of one owner", false, "", func(s story) {
			for id, at := range []int{0, 5} {
				s.add(event{At: ms(at), Proc: 1, ID: int64(id + 1), Op: opTry, Key: "shared-0", Kind: shared})
				s.add(event{At: ms(at + 10), Proc: 1, ID: int64(id + 1), Op: opGot, Key: "shared-0", Kind: shared, Token: 7, Until: ms(810)})
			}
			for id, at := range []int{30, 20} {
				s.add(event{At: ms(at), Proc: 1, ID: int64(id + 1), Op: opFree, Key: "shared-0", Kind: shared})
				s.add(event{At: ms(at + 1), Proc: 1, ID: int64(id + 1), Op: opFreed, Key: "shared-0", Kind: shared, Out: outOK})
			}
		}},
		{"goroutines of two owners", false, "both relied on it", func(s story) {
			for proc, at := range []int{0, 5} {
				s.add(event{At: ms(at), Proc: proc + 1, ID: 1, Op: opTry, Key: "shared-0", Kind: shared})
				s.add(event{At: ms(at + 10), Proc: proc + 1, ID: 1, Op: opGot, Key: "shared-0", Kind: shared, Token: int64(7 + proc), Until: ms(810)})
			}
		}},
		{"a lower token", false, "has token 1 after 2", func(s story) {
			s.hold(1, 1, 0, 10, 810, 2)
			s.free(1, 1, 20)
			s.hold(2, 1, 30, 40, 830, 1)
			s.free(2, 1, 50)
		}},
		{"got late because the server stood still", false, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.add(event{At: ms(4000), Proc: theServer, Op: opStill, Until: ms(100)})
			s.hold(2, 1, 15, 5000, 5800, 2)
			s.free(2, 1, 5010)
		}},
		{"got late, long after the server stood still", false, "was free for", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.add(event{At: ms(400), Proc: theServer, Op: opStill, Until: ms(100)})
			s.hold(2, 1, 15, 5000, 5800, 2)
			s.free(2, 1, 5010)
		}},
		{"free and not got", false, "was free for", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.hold(2, 1, 15, 5000, 5800, 2)
			s.free(2, 1, 5010)
		}},
		{"renewed after its release", false, "was renewed 2s after its end", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 19)
			s.renewals = []renewed{{at: ms(2020), proc: 1, id: 1}}
		}},
		{"a lost update", false, "no order of its", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.use(1, 1, 11, 1, 0, false)
			s.use(1, 1, 13, 1, 1, true)
			s.free(1, 1, 20)
			s.hold(2, 1, 30, 40, 830, 2)
			s.use(2, 1, 41, 2, 0, false)
			s.free(2, 1, 50)
		}},
		{"the register took an old token", true, "no order of its", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.faults = []period{{From: ms(100), To: ms(110)}}
			s.hold(2, 1, 115, 120, 920, 2)
			s.use(2, 1, 121, 2, 0, false)
			s.use(1, 1, 130, 1, 5, true)
			s.lost(1, 1, 400)
			s.free(2, 1, 500)
		}},
		{"a goroutine is left", false, "has 9 goroutines after Close", func(s story) {
			s.add(event{Proc: 1, Op: opReport, Report: &Report{Before: 8, After: 9}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := story{newHistory()}
			c.tell(s)
			check := s.checked(t, Row{Loses: c.loses})
			check.finish()
			if c.say == "" {
				require.Empty(t, check.violations)
			}
			require.Contains(t, strings.Join(check.violations, "\n"), c.say)
		})
	}
}

func TestRenewalsAreReadFromMonitor(t *testing.T) {
	line := `1339518083.107412 [0 127.0.0.1:60866] "EVALSHA" "` + "%s" + `" "2" "a" "b\x00\"" "1000" "uuid:" "p2.17.:3" "p1.4.:9"`
	require.Empty(t, renewalsIn(line))
	found := renewalsIn(strings.Replace(line, "%s", script.Renew.SHA(), 1))
	require.Len(t, found, 2)
	require.Equal(t, 2, found[0].proc)
	require.EqualValues(t, 17, found[0].id)
	require.EqualValues(t, 4, found[1].id)
}
