package waitqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// productYielding is the Yielding of package lock.
var productYielding = Yielding{
	Lease: 30 * time.Second,
	Pause: 5 * time.Millisecond, Known: time.Second, Most: time.Minute,
	Brief: time.Millisecond, Time: 100 * time.Millisecond,
	Defer: time.Millisecond, DeferEach: 250 * time.Microsecond,
}

func TestAStrangerIsLetIn(t *testing.T) {
	heard := func(s *Strangers, at Instant) { s.Heard(at, 1) }
	refused := func(s *Strangers, at Instant, stranger bool) { s.Refused(at, at, stranger) }
	for _, c := range []struct {
		name  string
		do    func(s *Strangers) // a stranger was seen at 0
		until Instant
	}{
		{"not while it has it", func(*Strangers) {}, 0},
		{"not at its own release", func(s *Strangers) { heard(s, 5*ms) }, 5 * ms},
		{"when another than it has released", func(s *Strangers) { heard(s, 5*ms); refused(s, 6*ms, false); heard(s, 11*ms) }, 16 * ms},
		{"when this client has", func(s *Strangers) { heard(s, 5*ms); s.Took(6 * ms); s.Leaving(11 * ms); s.Freed(11*ms, 1) }, 16 * ms},
		{"if somebody may have had it after the stranger", func(s *Strangers) { s.Heard(5*ms, 2) }, 10 * ms},
		{"if a release may have been missed", func(s *Strangers) { refused(s, ms, false); s.Heard(5*ms, 0) }, 10 * ms},
		{"not for longer because messages come", func(s *Strangers) {
			refused(s, ms, false)
			for at := 5 * ms; at < 10*ms; at++ {
				s.Heard(at, uint64(at))
			}
		}, 10 * ms},
		{"nor twice at one release of its own", func(s *Strangers) {
			heard(s, 5*ms)
			s.Heard(7*ms, 2)
			s.Heard(9*ms, 3)
		}, 12 * ms},
		{"whatever a probe says that began before that", func(s *Strangers) { s.Freed(5*ms, 1); s.Refused(4*ms, 6*ms, false) }, 10 * ms},
		{"not once a probe was refused", func(s *Strangers) { s.Freed(5*ms, 1); refused(s, 10*ms, false) }, 0},
		{"a second later, however many pauses were in vain", func(s *Strangers) {
			for at := 5 * ms; at < 1000*ms; at += 10 * ms {
				s.Freed(at, 1)
				s.Took(at + 5*ms)
			}
			s.Freed(1000*ms, 1)
		}, 1005 * ms},
		{"not after a second in which one was", func(s *Strangers) { s.Freed(5*ms, 1); s.Took(10 * ms); s.Freed(1001*ms, 1) }, 0},
		{"nor after one in which another of this side had it", func(s *Strangers) { s.Freed(5*ms, 1); refused(s, 10*ms, false); s.Freed(1001*ms, 1) }, 0},
		{"nor after one in which Redis knew of nobody who waits", func(s *Strangers) { s.NoWaiters(5 * ms); s.Freed(1001*ms, 1) }, 0},
		{"half a minute later, if none was", func(s *Strangers) { s.Freed(30_000*ms, 1) }, 30_005 * ms},
		{"not after a minute", func(s *Strangers) { s.Freed(60_001*ms, 1) }, 0},
		{"a minute after the end of its own hold", func(s *Strangers) { heard(s, 59_000*ms); s.Took(59_000 * ms); s.Freed(100_000*ms, 1) }, 100_005 * ms},
		{"but not after its second turn in a row", func(s *Strangers) {
			heard(s, 5*ms)
			refused(s, 5*ms, true)
			heard(s, 10*ms)
			s.Took(10 * ms)
			s.Leaving(15 * ms)
			s.Freed(15*ms, 1)
		}, 15 * ms}, // two turns of this side last as long as the stranger's two did
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewStrangers(&productYielding, 0)
			c.do(&s)
			require.Equal(t, c.until, s.Until())
		})
	}
}

// TestBothSidesHaveEqualTurns: after some turns of a stranger this client may have the same
// number of turns in a row, but they may not last longer.
func TestBothSidesHaveEqualTurns(t *testing.T) {
	for _, c := range []struct {
		name   string
		theirs int
		each   Instant // how long a turn of this client lasts; a stranger's lasts 5 ms
		turns  int
	}{
		{"one", 1, 5 * ms, 1},
		{"one short", 1, ms + 1, 1},
		{"one long", 1, 50 * ms, 1},
		{"three", 3, 5 * ms, 3},
		{"three short", 3, 2 * ms, 3},
		{"three long", 3, 50 * ms, 1},
		{"brief ones", 3, ms / 10, 11}, // a run is not over before Brief
		{"very many", 100, 5 * ms, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewStrangers(&productYielding, 0)
			now := Instant(0)
			for round := range 2 { // the turns of each round are counted anew
				for i := range c.theirs {
					if round > 0 || i > 0 {
						s.Refused(now, now, true)
					}
					now += 5 * ms
					s.Heard(now, 1)
				}
				s.Took(now)
				turns := 0
				for over := false; !over; turns++ {
					now += c.each
					over = s.Leaving(now)
				}
				require.Equal(t, c.turns, turns)
				s.Freed(now, 1)
				require.Equal(t, now.Add(productYielding.Pause), s.Until())
			}
		})
	}
}

// TestTheTurnsOfAStrangerBeginWithTheReleaseThatWasLeftToIt, and not at the time when it was
// seen.
func TestTheTurnsOfAStrangerBeginWithTheReleaseThatWasLeftToIt(t *testing.T) {
	s := NewStrangers(&productYielding, 0)
	s.Freed(5*ms, 1)
	s.Refused(10*ms, 10*ms, true)
	s.Heard(11*ms, 1)
	s.Refused(11*ms, 11*ms, true)
	s.Heard(16*ms, 1)
	s.Took(16 * ms)
	require.False(t, s.Leaving(21*ms))
	require.True(t, s.Leaving(26*ms))
}

// TestOthersOfThisSideGoFirst: a client that had its turn leaves the next ones to the other
// clients that received the message of the release.
func TestOthersOfThisSideGoFirst(t *testing.T) {
	s := NewStrangers(&productYielding, 0)
	s.Heard(5*ms, 1)
	s.Took(5 * ms)
	s.Leaving(10 * ms)
	s.Freed(10*ms, 3) // a stranger and two others
	require.Equal(t, 15*ms, s.Until(), "they do not need more for the stranger's")
	s.Refused(15*ms, 15*ms, true)
	s.Heard(16*ms, 1)
	require.Equal(t, 16*ms+ms+ms/2, s.Until())
	s.Refused(16*ms, 16*ms, false)
	s.Heard(21*ms, 1)
	s.Refused(26*ms, 26*ms, true)
	s.Heard(27*ms, 1)
	require.Equal(t, 27*ms+ms+ms/4, s.Until())
	s.Refused(27*ms, 27*ms, false)
	s.Heard(32*ms, 1)
	s.Refused(37*ms, 37*ms, true)
	s.Heard(38*ms, 1)
	require.Equal(t, 38*ms, s.Until())
	s.Freed(40*ms, 3)
	s.Refused(41*ms, 41*ms, true)
	s.Heard(42*ms, 1)
	s.Refused(42*ms, 42*ms, true)
	s.Heard(43*ms, 1)
	require.Equal(t, 43*ms, s.Until(), "nobody defers if the stranger has it again by that")
	s.Freed(45*ms, 1_000_000)
	s.Refused(46*ms, 46*ms, true)
	s.Heard(47*ms, 1)
	require.Equal(t, 53*ms, s.Until(), "at most twenty")
}

// takenAgo has the holder of a refusal take the object that long before.
func (s *Strangers) takenAgo(now, ago Instant) {
	s.Overtaken(now, productYielding.Lease-time.Duration(ago))
	s.Refused(now, now, false)
}

// TestReleasesThatOthersTakeAreNotLeftToStrangers: clients that do not pause take each release at once. A
// stranger has the object now and then, so it is known to wait.
func TestReleasesThatOthersTakeAreNotLeftToStrangers(t *testing.T) {
	s := NewStrangers(&productYielding, 0)
	now := Instant(0)
	leave := func() {
		now += 5 * ms
		s.Freed(now, 2)
		require.Equal(t, now.Add(productYielding.Pause), s.Until())
		require.True(t, s.HasStranger())
		now += 5 * ms
	}
	stranger := func() {
		s.Refused(now, now, true)
		s.Heard(now, 1)
	}
	for range crowded / 2 {
		leave()
		s.takenAgo(now, 4*ms)
	}
	for range 3 {
		require.True(t, s.IsCrowded())
		stranger()
		s.Took(now)
		now += 5 * ms
		require.False(t, s.Leaving(now), "no run ends for a stranger")
		s.Freed(now, 2)
		require.Zero(t, s.Until(), "after a release of this client")
		s.Refused(now, now, false)
		s.Heard(now, 1)
		require.Zero(t, s.Until(), "after the release of another")
		s.Heard(now, 2)
		require.Zero(t, s.Until(), "after several")
		require.False(t, s.HasStranger())
	}
	stranger()
	now += 5 * ms
	stranger()
	s.Took(now)
	now += ms
	s.Leaving(now)
	s.Freed(now, 5)
	require.Zero(t, s.Until(), "nor do others of this side go first")
	s.LeaveOnceMore(now)
	require.Equal(t, now.Add(productYielding.Pause), s.Until())
	require.True(t, s.HasStranger())
	now += 5 * ms
	s.takenAgo(now, 4*ms)
	require.True(t, s.IsCrowded(), "another had this one too")
	s.LeaveOnceMore(now)
	now += 2 * ms
	stranger()
	require.True(t, s.HasStranger())
	for range 10 {
		s.Took(now)
		leave()
		stranger()
	}
	leave()
	s.takenAgo(now, 4*ms)
	require.True(t, s.HasStranger(), "strangers get most of it now")
}

// TestReleasesAreLeftToStrangersThatAreLate: others of this side have them instead, after their pause. How long
// these have had them is known if their lease is ours.
func TestReleasesAreLeftToStrangersThatAreLate(t *testing.T) {
	for name, refused := range map[string]func(s *Strangers, now Instant){
		"after the pause":     func(s *Strangers, now Instant) { s.takenAgo(now, 0) },
		"a little early":      func(s *Strangers, now Instant) { s.takenAgo(now, 5*ms/4) },
		"before the release":  func(s *Strangers, now Instant) { s.takenAgo(now, 10*ms) },
		"with a longer lease": func(s *Strangers, now Instant) { s.takenAgo(now, -1000*ms) },
		"without an end":      func(s *Strangers, now Instant) { s.Overtaken(now, -1); s.Refused(now, now, false) },
		"by an older answer":  func(s *Strangers, now Instant) { s.takenAgo(now-6*ms, ms) },
		"after another turn":  func(s *Strangers, now Instant) { s.Refused(now, now, false); s.takenAgo(now, 4*ms) },
		"or to strangers for each two that others take": func(s *Strangers, now Instant) {
			s.takenAgo(now, 4*ms)
			for range 2 {
				s.Freed(now, 1)
				s.Refused(now, now, true)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStrangers(&productYielding, 0)
			now := Instant(0)
			for range 1000 {
				now += 5 * ms
				s.Freed(now, 1)
				now += 5 * ms
				refused(&s, now)
				require.False(t, s.IsCrowded())
				s.Refused(now, now, true)
				s.Heard(now, 1)
				s.Took(now)
			}
		})
	}
}

func TestASuspectedStrangerIsGivenOnePause(t *testing.T) {
	s := NewSuspected(&productYielding, 100*ms)
	require.Equal(t, 105*ms, s.Until())
	require.True(t, s.Near(110*ms))
	require.False(t, s.Near(111*ms))
	s.Refused(105*ms, 105*ms, true)
	require.True(t, s.Near(1105*ms))
	s.Heard(106*ms, 1)
	require.Equal(t, 106*ms, s.Until())
}

// TestNoPauseIsLong: in every order of messages, answers and releases, no waiter pauses for
// longer than the pause after a noticed release, or the deferral.
func TestNoPauseIsLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewStrangers(&productYielding, 0)
		if rapid.Bool().Draw(t, "suspected") {
			s = NewSuspected(&productYielding, 0)
		}
		now, seen := Instant(0), Instant(0)
		noticed := map[Instant]bool{0: true} // when the lock may have become free
		for range 60 {
			now += Instant(rapid.IntRange(0, 3_000).Draw(t, "us")) * ms / 1000 * Instant(rapid.SampledFrom([]int{1, 1, 1, 100}).Draw(t, "slow"))
			before := s.Until()
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				stranger := rapid.Bool().Draw(t, "stranger")
				if stranger {
					seen = now
				}
				s.Refused(now-Instant(rapid.IntRange(0, 2_000).Draw(t, "ago"))*ms/1000, now, stranger)
			case 1:
				s.Took(now)
			case 2:
				s.Leaving(now)
				s.Freed(now, rapid.Int64Range(-3, 1<<40).Draw(t, "told"))
				noticed[now] = true
			case 3:
				s.Heard(now, uint64(rapid.IntRange(0, 3).Draw(t, "messages")))
				if s.Until() != before {
					noticed[now] = true
				}
			case 4: // very many messages at once
				for n := range uint64(20) {
					s.Heard(now, n+3)
				}
				last := s.Until()
				s.Heard(now+ms, 30)
				require.Equal(t, last, s.Until(), "a flood makes it longer")
				noticed[now] = true
			case 5:
				s.NoWaiters(now)
			}
			until := s.Until()
			if until != 0 {
				require.LessOrEqual(t, until, now.Add(6*time.Millisecond))
				require.LessOrEqual(t, until, seen.Add(productYielding.Most+6*time.Millisecond))
			}
		}
		require.False(t, s.Near(now.Add(2*productYielding.Most)))
	})
}
