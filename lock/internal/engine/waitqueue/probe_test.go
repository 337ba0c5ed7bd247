package waitqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = Instant(time.Millisecond)

// productPacing is the Pacing of package lock, with the default Config.MaxPoll.
var productPacing = Pacing{
	Pace: 2 * time.Millisecond, MaxPoll: 5 * time.Second,
	Back: 10 * time.Millisecond, BackMost: time.Second,
	Defer: 5 * time.Millisecond, DeferEach: time.Millisecond,
}

// TestAClientThatDefersLooksForAStrangerToo, a little later than other clients. Then it defers again.
func TestAClientThatDefersLooksForAStrangerToo(t *testing.T) {
	p := NewProbe(&productPacing)
	require.Equal(t, 5*ms, p.DueAt(5*ms, 1))
	p.RunEnded(0, 3, 0, false) // it defers until 8 ms
	require.Equal(t, 8*ms, p.Due(1))
	require.Equal(t, 6*ms, p.DueAt(5*ms, 1))
	m := p.Began(6 * ms)
	p.Refused(6*ms, m, Answer{TTL: -1})
	p.Hear(7*ms, Heard{Messages: 1})
	require.Equal(t, 14*ms, p.Due(1))
	p.EndDeferral()
	require.Equal(t, 8*ms, p.Due(1), "no sooner than Pace after the last")
}

// TestAClientThatDefersToOneThatHearsNothingLetsItHaveItsTurn: the client without messages has
// said when it will try, and if it is refused then, it tries again a MaxPoll later.
func TestAClientThatDefersToOneThatHearsNothingLetsItHaveItsTurn(t *testing.T) {
	p := NewProbe(&productPacing)
	p.RunEnded(0, 1, 10*time.Millisecond, true)
	require.Equal(t, 26*ms, p.Due(1))
	require.Equal(t, 26*ms, p.DueAt(5*ms, 1), "a pause for a stranger does not shorten it")
	p.EndDeferral()
	require.Equal(t, 26*ms, p.Due(1))
	p.Hear(20*ms, Heard{Messages: 1})
	require.Equal(t, 20*ms, p.DueAt(20*ms, 1), "it had its turn")
	p.Freed()
	p.RunEnded(30*ms, 2, 0, false)
	require.Equal(t, 36*ms, p.Due(1))
	require.Equal(t, 32*ms, p.DueAt(31*ms, 1), "the next are others")
}

func TestProbeIsDue(t *testing.T) {
	refused := func(p *Probe, ttl time.Duration) {
		p.Refused(1*ms, p.Began(0), Answer{TTL: ttl})
	}
	for _, c := range []struct {
		name string
		do   func(p *Probe)
		due  Instant
	}{
		{"at once, before anything is known", func(*Probe) {}, 0},
		{"no sooner than Pace after the last", func(p *Probe) { p.Began(5 * ms) }, 7 * ms},
		{"whoever probes beside the first", func(p *Probe) { p.BeganBeside() }, 0},
		{"after MaxPoll, when another has it", func(p *Probe) { refused(p, time.Minute) }, 5001 * ms},
		{"when its lease ends", func(p *Probe) { refused(p, 30*time.Millisecond) }, 31 * ms},
		{"after MaxPoll, when its lease is not known", func(p *Probe) { refused(p, -1) }, 5001 * ms},
		{"an eighth sooner, so that clients do not meet", func(p *Probe) {
			p.Refused(0, p.Began(0), Answer{TTL: -1, Spread: 1})
		}, 4375 * ms},
		{"at once, for less than a refusal has left", func(p *Probe) {
			p.Refused(1*ms, p.Began(0), Answer{TTL: -1, Left: 1})
		}, 2 * ms},
		{"soon, if no message tells of the release", func(p *Probe) {
			p.Hear(0, Heard{Confirmed: 1})
			p.Refused(0, p.Began(0), Answer{TTL: -1, Within: 250 * time.Millisecond})
		}, 250 * ms},
		{"at a message", func(p *Probe) { refused(p, -1); p.Hear(40*ms, Heard{Messages: 1}) }, 40 * ms},
		{"at a message that came while it was asked", func(p *Probe) {
			m := p.Began(0)
			p.Hear(3*ms, Heard{Messages: 1})
			p.Refused(4*ms, m, Answer{TTL: -1})
		}, 3 * ms},
		{"when the subscription is confirmed", func(p *Probe) { refused(p, -1); p.Hear(7*ms, Heard{Confirmed: 1}) }, 7 * ms},
		{"not for a confirmation from before", func(p *Probe) { p.Hear(0, Heard{Confirmed: 1}); refused(p, -1) }, 5001 * ms},
		{"after an unknown answer", func(p *Probe) { p.Unanswered(100*ms, p.Began(0), 0) }, 110 * ms},
		{"later after many, never after MaxPoll", func(p *Probe) {
			for range 30 {
				p.Unanswered(100*ms, p.Began(0), 0)
			}
		}, 1100 * ms},
		{"soon, when who was asked is young", func(p *Probe) { p.NotCounted(0, p.Began(0), 0) }, 320 * ms},
		{"after MaxPoll, while an own release is on its way", func(p *Probe) {
			p.Releasing(10 * ms)
			p.Hear(20*ms, Heard{Messages: 1})
		}, 5010 * ms},
		{"when it is through", func(p *Probe) { p.Releasing(10 * ms); p.Freed() }, 0},
		{"then too, if an older answer comes", func(p *Probe) {
			m := p.BeganBeside()
			p.Freed()
			p.Refused(10*ms, m, Answer{TTL: -1})
		}, 0},
		{"at once, if enough is left", func(p *Probe) { p.Took(0, p.BeganBeside(), 1) }, 0},
		{"not, if not enough is", func(p *Probe) { p.Took(0, p.BeganBeside(), 0) }, 5000 * ms},
		{"after others, when a run is over", func(p *Probe) { p.Freed(); p.RunEnded(100*ms, 3, 2*time.Millisecond, false) }, 112 * ms},
		{"after others, from the last release on", func(p *Probe) {
			p.Freed()
			p.RunEnded(100*ms, 3, 2*time.Millisecond, false)
			p.Hear(110*ms, Heard{Messages: 2})
		}, 120 * ms},
		{"at once, when all have had their turn", func(p *Probe) {
			p.Freed()
			p.RunEnded(100*ms, 3, 2*time.Millisecond, false)
			p.Hear(110*ms, Heard{Messages: 3})
		}, 0},
		{"25 ms after others, however many they are", func(p *Probe) { p.Freed(); p.RunEnded(100*ms, 999, 0, false) }, 125 * ms},
		{"after MaxPoll at the latest", func(p *Probe) { p.Freed(); p.RunEnded(100*ms, 3, time.Hour, false) }, 5100 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewProbe(&productPacing)
			c.do(&p)
			require.Equal(t, time.Duration(c.due), time.Duration(p.Due(1)))
		})
	}
}

func TestTimeDoesNotOverflow(t *testing.T) {
	p := NewProbe(&productPacing)
	p.Refused(0, p.Began(0), Answer{TTL: 1<<63 - 1})
	require.Equal(t, 5*time.Second, time.Duration(p.Due(1)))
	require.Equal(t, forever, (forever - 1).Add(time.Hour))
	require.Equal(t, Instant(-1), Instant(0).Add(-1))
}

// While the subscription works, a waiter of a renewed lock probes when the known lease
// ends, and not every MaxPoll. After a ping without an answer it probes within MaxPoll
// again.
func TestAWorkingSubscriptionSparesProbes(t *testing.T) {
	const second = Instant(time.Second)
	for _, c := range []struct {
		name   string
		quiet  time.Duration
		pings  bool
		probes int // in an hour
	}{
		{"no Quiet", 0, true, 3600 / 5},
		{"with pings", 30 * time.Minute, true, 3600 / 20},
		{"no pings", 30 * time.Minute, false, 3600 / 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			pacing := productPacing
			pacing.Quiet = c.quiet
			p := NewProbe(&pacing)
			probes := 0
			for now := Instant(0); now < 3600*second; {
				heard := Heard{Confirmed: 1}
				if c.pings {
					heard.Upto = now / (2 * second) * (2 * second)
				}
				p.Hear(now, heard)
				if due := p.Due(1); due > now {
					now = due
					continue
				}
				m := p.Began(now)
				now += ms
				probes++
				ttl := 30*second - now%(10*second) // the holder renews each 10 s
				p.Refused(now, m, Answer{TTL: time.Duration(ttl)})
			}
			t.Logf("%d probes in an hour", probes)
			require.LessOrEqual(t, probes, c.probes+1)
			require.Greater(t, probes, c.probes/2)
		})
	}
}
