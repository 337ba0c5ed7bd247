package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testLease = time.Second

func ms(n int) stamp { return stamp(n) * stamp(time.Millisecond) }

// story is a history in milliseconds.
type story struct{ *history }

func (s story) hold(proc, id, called, got, until int, token int64) {
	s.addEvent(event{At: ms(called), Proc: proc, ID: int64(id), Op: opTry, Key: "mutex-0", Kind: mutex})
	s.addEvent(event{At: ms(got), Proc: proc, ID: int64(id), Op: opGot, Key: "mutex-0", Kind: mutex, Token: token, Until: ms(until)})
}

func (s story) free(proc, id, at int) {
	s.addEvent(event{At: ms(at), Proc: proc, ID: int64(id), Op: opFree, Key: "mutex-0", Kind: mutex})
	s.addEvent(event{At: ms(at + 1), Proc: proc, ID: int64(id), Op: opFreed, Key: "mutex-0", Kind: mutex, Out: outOK})
}

func (s story) take(k kind, proc, called, got int) {
	s.addEvent(event{At: ms(called), Proc: proc, ID: 1, Op: opTry, Key: "rw-0", Kind: k})
	s.addEvent(event{At: ms(got), Proc: proc, ID: 1, Op: opGot, Key: "rw-0", Kind: k, Until: ms(got + 800)})
}

func (s story) give(k kind, proc, at int) {
	s.addEvent(event{At: ms(at), Proc: proc, ID: 1, Op: opFree, Key: "rw-0", Kind: k})
	s.addEvent(event{At: ms(at + 1), Proc: proc, ID: 1, Op: opFreed, Key: "rw-0", Kind: k, Out: outOK})
}

func (s story) lost(proc, id, at int) {
	s.addEvent(event{At: ms(at), Proc: proc, ID: int64(id), Op: opLost, Key: "mutex-0", Kind: mutex, Why: "a test"})
}

func (s story) use(proc, id, at int, token, value int64, write bool) {
	e := event{At: ms(at), Proc: proc, ID: int64(id), Op: opUse, Key: "mutex-0", Kind: mutex, Token: token, Write: write, Value: value}
	s.addEvent(e)
	e.At, e.Op, e.Out = ms(at+1), opUsed, outOK
	s.addEvent(e)
}

func (s story) waiter(proc, id, called, left int) {
	e := event{At: ms(called), Proc: proc, ID: int64(id), Op: opTry, Key: "mutex-0", Kind: mutex, Wait: true}
	s.addEvent(e)
	e.At, e.Op, e.Out = ms(left), opNot, outGaveUp
	s.addEvent(e)
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
			s.addEvent(event{At: ms(2990), Proc: 1, Op: opStill, Until: ms(500)})
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
		{"two at once, and no fault took one away", true, "both relied on it", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.hold(2, 1, 5, 20, 830, 2)
			s.free(1, 1, 30)
			s.free(2, 1, 40)
			s.faults = []period{{From: ms(500), To: ms(510)}}
		}},
		{"handed on after it was taken away", true, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.faults = []period{{From: ms(20), To: ms(25)}}
			s.hold(2, 1, 5, 30, 830, 9)
			s.free(2, 1, 35)
			s.free(1, 1, 40)
			s.hold(1, 2, 38, 42, 840, 2)
			s.free(1, 2, 50)
		}},
		{"the register was used after the release", false, "no order of its", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.use(1, 1, 30, 1, 0, false)
			s.free(1, 1, 20)
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
		{"a lower token", false, "has token 1 after 2", func(s story) {
			s.hold(1, 1, 0, 10, 810, 2)
			s.free(1, 1, 20)
			s.hold(2, 1, 30, 40, 830, 1)
			s.free(2, 1, 50)
		}},
		{"got late because the server stood still", false, "", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.addEvent(event{At: ms(4000), Proc: theServer, Op: opStill, Until: ms(100)})
			s.hold(2, 1, 15, 5000, 5800, 2)
			s.free(2, 1, 5010)
		}},
		{"got late, long after the server stood still", false, "was free for", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.addEvent(event{At: ms(400), Proc: theServer, Op: opStill, Until: ms(100)})
			s.hold(2, 1, 15, 5000, 5800, 2)
			s.free(2, 1, 5010)
		}},
		{"free and not got", false, "was free for", func(s story) {
			s.hold(1, 1, 0, 10, 810, 1)
			s.free(1, 1, 20)
			s.hold(2, 1, 15, 5000, 5800, 2)
			s.free(2, 1, 5010)
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
			s.addEvent(event{Proc: 1, Op: opReport, Report: &Report{Before: 8, After: 9}})
		}},
		{"a hold is left", false, "counts 1 holds", func(s story) {
			s.addEvent(event{Proc: 1, Op: opReport, Report: &Report{Held: 1}})
		}},
		{"readers at once, and then a writer", false, "", func(s story) {
			s.take(read, 1, 0, 10)
			s.take(read, 2, 5, 11)
			s.give(read, 1, 20)
			s.give(read, 2, 21)
			s.take(write, 3, 12, 22)
			s.give(write, 3, 30)
		}},
		{"a writer beside a reader", false, "both relied on it", func(s story) {
			s.take(read, 1, 0, 10)
			s.take(write, 2, 5, 11)
			s.give(read, 1, 20)
			s.give(write, 2, 21)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := story{newHistory()}
			c.tell(s)
			check := &checks{history: s.history, lease: testLease, row: Row{Loses: c.loses}, dir: t.TempDir()}
			check.checkAll()
			if c.say == "" {
				require.Empty(t, check.violations)
			}
			require.Contains(t, strings.Join(check.violations, "\n"), c.say)
		})
	}
}
