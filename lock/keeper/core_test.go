package keeper

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// script is a core with the timers, tries and looks that the Keeper would have. Its events come in any
// order.
type script struct {
	t      *rapid.T
	core   core
	now    time.Time
	timers map[*entry]bool // set
	asks   []*entry        // tries under way
	looks  []*entry        // under way
	heldBy map[*entry]bool // kept or ending
	news   map[*entry]news // that was heard since the last try or look began
}

func (s *script) rest(e *entry, rest time.Duration) {
	if rest > 0 {
		s.timers[e] = true
	}
}

// take removes one of entries.
func (s *script) take(entries *[]*entry, what string) *entry {
	if len(*entries) == 0 {
		s.t.SkipNow()
	}
	i := rapid.IntRange(0, len(*entries)-1).Draw(s.t, what)
	e := (*entries)[i]
	*entries = slices.Delete(*entries, i, i+1)
	return e
}

// any returns a name of the table.
func (s *script) any() *entry {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(s.t, "name")
	e := s.core.entries[name]
	if e == nil {
		s.t.SkipNow()
	}
	return e
}

func (s *script) drop(e *entry) {
	s.core.drop(e)
	if e.state == gone {
		delete(s.timers, e)
	}
}

// check is called after each event.
func (s *script) check(t *rapid.T) {
	c := &s.core
	var counts [states]int
	for _, e := range c.entries {
		counts[e.state]++
		require.Equal(t, e.state == resting, s.timers[e], "%s rests with its timer, and only then", e.name)
		require.Equal(t, e.state == asking, slices.Contains(s.asks, e), "%s", e.name)
		require.Equal(t, e.state == kept || e.state == ending, s.heldBy[e], "%s", e.name)
		if e.state == looking {
			require.Contains(t, s.looks, e)
		}
		if e.state == due {
			require.Contains(t, c.looks, e)
		}
		if e.state == resting {
			require.Zero(t, s.news[e], "%s may be free, and rests", e.name)
		}
	}
	counts[gone] = c.counts[gone]
	require.Equal(t, counts, c.counts)
	require.Equal(t, counts[ready], len(c.unproved)+len(c.proved))
	for proved, line := range map[bool][]*entry{false: c.unproved, true: c.proved} {
		for i, e := range line {
			require.Equal(t, ready, e.state)
			require.Equal(t, i, e.place)
			require.Equal(t, proved, e.proved)
		}
	}
	wanted := 0
	for _, e := range c.entries {
		if e.wanted {
			wanted++
		}
	}
	require.Equal(t, wanted, c.wanted)
	require.LessOrEqual(t, counts[asking], c.atOnce)
}

// TestCoreInAnyOrder: in whatever order events come, a further event leads each name to another state.
func TestCoreInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Look: time.Second, AtOnce: rapid.IntRange(1, 3).Draw(t, "at once"), PerSecond: 1000, Most: rapid.IntRange(0, 3).Draw(t, "most")}
		s := &script{
			t: t, core: newCore(cfg, func() float64 { return rapid.Float64Range(0, 1).Draw(t, "random") }), now: time.Unix(0, 0),
			timers: map[*entry]bool{}, heldBy: map[*entry]bool{}, news: map[*entry]news{},
		}
		c := &s.core
		c.streak = rapid.SampledFrom([]int{0, failuresInARow - 1, failuresInARow}).Draw(t, "failures before")
		ttl := func() time.Duration { return time.Duration(rapid.IntRange(-1, 5).Draw(t, "ttl")) * time.Second }
		events := map[string]func(*rapid.T){
			"": s.check,
			"want": func(t *rapid.T) {
				c.want(nil, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"))
			},
			"drop": func(*rapid.T) { s.drop(s.any()) },
			"wake": func(*rapid.T) {
				e := s.any()
				if !s.timers[e] {
					t.SkipNow()
				}
				delete(s.timers, e)
				c.wake(e)
				require.Equal(t, due, e.state)
			},
			"hear": func(t *rapid.T) {
				e, what := s.any(), rapid.SampledFrom([]news{missed, released}).Draw(t, "news")
				if c.hear(e, what) {
					require.True(t, s.timers[e])
					delete(s.timers, e)
				}
				if e.state != kept && e.state != ending {
					s.news[e] = what
				}
			},
			"deaf": func(*rapid.T) {
				e := s.any()
				if c.stopHearing(e) > 0 {
					require.True(t, s.timers[e])
				}
				require.False(t, e.hearsReleases)
			},
			"next": func(*rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.SampledFrom([]int{10, 10_000}).Draw(t, "ms")) * time.Millisecond)
				down, room := c.isDown(), c.bound()-c.counts[kept]-c.counts[ending]-c.counts[asking]
				proved := len(c.proved) > 0
				e, wait := c.next(s.now)
				if e == nil {
					require.False(t, (!down || proved) && room > 0 && len(c.unproved)+len(c.proved) > 0 && c.counts[asking] < c.atOnce && wait == 0, "nothing leads on")
					return
				}
				require.Positive(t, room)
				require.False(t, down && c.counts[asking] > 1 && !proved, "one probe, besides those that are proved")
				s.asks = append(s.asks, e)
				delete(s.news, e)
			},
			"granted": func(*rapid.T) {
				e := s.take(&s.asks, "try")
				if c.grant(e, s.now) {
					require.LessOrEqual(t, c.counts[kept], c.bound(), "the bound may be lower than when the try began")
				}
				s.heldBy[e] = true
				delete(s.news, e)
			},
			"refused": func(*rapid.T) {
				e := s.take(&s.asks, "try")
				s.rest(e, c.refuse(e, ttl()))
			},
			"skipped": func(*rapid.T) {
				e, answers, streak := s.take(&s.asks, "try"), c.answers, c.streak
				s.rest(e, c.skip(e, ttl()))
				require.Equal(t, answers, c.answers)
				require.Equal(t, streak, c.streak, "nobody has asked Redis")
			},
			"failed": func(*rapid.T) {
				e := s.take(&s.asks, "try")
				s.rest(e, c.fail(e, s.now))
			},
			"look": func(*rapid.T) {
				batch := c.nextLooks()
				require.Empty(t, c.looks)
				for _, e := range batch {
					delete(s.news, e)
				}
				s.looks = append(s.looks, batch...)
			},
			"looked": func(*rapid.T) {
				e := s.take(&s.looks, "look")
				s.rest(e, c.looked(e, ttl(), rapid.Bool().Draw(t, "unknown")))
			},
			"lost": func(*rapid.T) {
				e := s.any()
				was := e.state
				require.Equal(t, was == kept, c.lose(e))
			},
			"finished": func(*rapid.T) {
				e := s.any()
				if e.state != ending {
					t.SkipNow()
				}
				s.now = s.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
				delete(s.heldBy, e)
				s.rest(e, c.finish(e, s.now))
			},
			"bound": func(*rapid.T) {
				c.most = rapid.IntRange(0, 3).Draw(t, "most")
				c.endSurplus()
				if c.most > 0 {
					require.LessOrEqual(t, c.counts[kept], c.most)
				}
			},
		}
		for range 10 { // more events than one Repeat has
			t.Repeat(events)
		}
		c.closed = true
		for _, e := range c.entries {
			s.drop(e)
		}
		for _, e := range s.looks {
			require.Zero(t, c.looked(e, time.Second, false))
		}
		for len(s.asks) > 0 {
			e := s.take(&s.asks, "try")
			require.Zero(t, c.fail(e, s.now))
		}
		for _, e := range c.entries {
			require.Zero(t, c.finish(e, s.now))
		}
		require.Empty(t, c.entries, "a closed core keeps nothing")
		require.Zero(t, c.wanted)
	})
}

// TestANameRestsUntilItMayBeFree: with messages, looks are rarer, and the end of a lease is not missed.
// Redis rounds a TTL down, so the key lives up to a millisecond longer.
func TestANameRestsUntilItMayBeFree(t *testing.T) {
	for _, test := range []struct {
		tuned       bool
		foreign     bool
		ttl         time.Duration
		least, most time.Duration
	}{
		{false, false, -1, 7 * time.Second, 9 * time.Second},
		{false, false, time.Minute, 7 * time.Second, 9 * time.Second},
		{false, false, 3 * time.Second, 3*time.Second + time.Millisecond, 3*time.Second + afterLease + leaseSpread},
		{false, false, 0, 7 * time.Second, 9 * time.Second},
		{false, false, 1, time.Millisecond, afterLease + leaseSpread + 1},
		{true, false, -1, 28 * time.Second, 36 * time.Second},
		{true, true, -1, 7 * time.Second, 9 * time.Second},
		{true, true, time.Minute, 7 * time.Second, 9 * time.Second},
		{true, false, time.Minute, 28 * time.Second, 36 * time.Second},
		{true, false, 20 * time.Second, 20*time.Second + time.Millisecond, 20*time.Second + afterLease + leaseSpread},
	} {
		for _, random := range []float64{0, 0.5, math.Nextafter(1, 0)} {
			c := newCore(Config{Look: 10 * time.Second}, func() float64 { return random })
			rest := c.untilFree(&entry{hearsReleases: test.tuned, isForeign: test.foreign}, test.ttl)
			require.GreaterOrEqual(t, rest, test.least, "%+v", test)
			require.LessOrEqual(t, rest+slackOf(rest), test.most+slackOf(test.most), "%+v", test)
		}
	}
}

// asked returns a core with names that are asked for.
func asked(cfg Config, names ...string) (c core, entries []*entry) {
	cfg.AtOnce, cfg.PerSecond = max(len(names), 1), 1_000_000
	c = newCore(cfg, func() float64 { return 0.5 })
	for _, name := range names {
		c.want(nil, name)
	}
	for range names {
		e, _ := c.next(time.Unix(0, 0))
		entries = append(entries, e)
	}
	return c, entries
}

func TestWhatIsHeardDecidesWhatFollows(t *testing.T) {
	for _, test := range []struct {
		what  []news
		state state
	}{
		{nil, resting},
		{[]news{missed}, due},
		{[]news{released}, ready},
		{[]news{released, missed}, ready},
		{[]news{missed, released}, ready},
	} {
		hear := func(c *core, e *entry) {
			for _, what := range test.what {
				c.hear(e, what)
			}
		}
		c, entries := asked(Config{Look: time.Second}, "during the try", "after the try", "during the look")
		for i, e := range entries {
			if i == 0 {
				hear(&c, e)
			}
			c.refuse(e, time.Minute)
			if i == 1 {
				hear(&c, e)
			}
			if i == 2 {
				c.wake(e)
				require.Equal(t, []*entry{e}, looksAt(&c, e))
				hear(&c, e)
				c.looked(e, time.Minute, false)
			}
			require.Equal(t, test.state, e.state, "%v %s", test.what, e.name)
		}
	}
}

// looksAt begins looks, and returns the names among entries that are looked at.
func looksAt(c *core, entries ...*entry) (at []*entry) {
	for _, e := range c.nextLooks() {
		if slices.Contains(entries, e) {
			at = append(at, e)
		}
	}
	return at
}

func TestALookWithoutAnAnswerIsFollowedByATry(t *testing.T) {
	for _, test := range []struct {
		ttl     time.Duration
		unknown bool
		state   state
	}{{0, false, ready}, {0, true, ready}, {time.Minute, false, resting}, {-1, false, resting}} {
		c, entries := asked(Config{Look: time.Second}, "a")
		e := entries[0]
		c.refuse(e, time.Minute)
		c.wake(e)
		c.nextLooks()
		c.looked(e, test.ttl, test.unknown)
		require.Equal(t, test.state, e.state, "%+v", test)
	}
}

// Messages of a former owner do not show that messages of the next owner come.
func TestMessagesAreHeardAnewAfterAHold(t *testing.T) {
	c, entries := asked(Config{Look: time.Second}, "a")
	e := entries[0]
	c.refuse(e, time.Minute)
	c.hear(e, released)
	e, _ = c.next(time.Unix(1, 0))
	require.True(t, e.hearsReleases)
	c.grant(e, time.Unix(1, 0))
	require.False(t, e.hearsReleases)
}

func TestANameThatWasLostIsAskedForAtOnceUnlessItWasHeldShortly(t *testing.T) {
	for _, test := range []struct {
		held time.Duration
		rest time.Duration
	}{{shortHold, 0}, {shortHold - 1, shortHold}} {
		c, entries := asked(Config{Look: time.Second}, "a")
		e, now := entries[0], time.Unix(1, 0)
		c.grant(e, now)
		require.True(t, c.lose(e))
		require.Equal(t, test.rest, c.finish(e, now.Add(test.held)))
	}
}

func TestALookAsksAboutABoundedNumberOfNames(t *testing.T) {
	names := make([]string, 2*looksAtOnce+1)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	c, entries := asked(Config{Look: time.Second}, names...)
	for _, e := range entries {
		c.refuse(e, time.Minute)
		c.wake(e)
	}
	var all []*entry
	for _, n := range []int{looksAtOnce, looksAtOnce, 1, 0} {
		batch := c.nextLooks()
		require.Len(t, batch, n)
		all = append(all, batch...)
	}
	require.ElementsMatch(t, entries, all)
}

// TestNamesThatAreDroppedWhileRedisIsDownAreForgotten: the next look takes all of them out of its line.
func TestNamesThatAreDroppedWhileRedisIsDownAreForgotten(t *testing.T) {
	c := newCore(Config{Look: time.Second}, func() float64 { return 0.5 })
	c.streak = failuresInARow
	for i := range 20 * looksAtOnce {
		name := strconv.Itoa(i)
		c.want(nil, name)
		c.drop(c.entries[name])
	}
	c.want(nil, "last")
	require.Equal(t, []*entry{c.entries["last"]}, c.nextLooks())
	require.Empty(t, c.looks)
}

// The tries that were under way when Redis failed count as one probe. An answer ends the outage, and
// the next one begins with the first pause.
func TestPausesGrowFromProbeToProbe(t *testing.T) {
	names := make([]string, 64)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for range 2 {
		c, entries := asked(Config{Look: time.Second}, names...)
		now := time.Unix(1, 0)
		for range 2 {
			for _, e := range entries {
				c.fail(e, now)
			}
			for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 50, 50} {
				require.Equal(t, pause*firstPause, c.resume.Sub(now))
				now = c.resume
				e := entries[0]
				c.hear(e, released)
				_, wait := c.next(now)
				require.Zero(t, wait)
				c.fail(e, now)
			}
			c.hear(entries[0], released)
			now = c.resume
			c.next(now)
			c.refuse(entries[0], time.Minute)
			require.False(t, c.isDown())
			for _, e := range entries { // all try again
				c.hear(e, released)
			}
			now = now.Add(time.Second)
			for range entries {
				c.next(now)
			}
		}
	}
}

func TestWhileRedisIsDownOneNameIsAskedForAtATime(t *testing.T) {
	names := make([]string, 3*failuresInARow)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	c, entries := asked(Config{Look: time.Second}, names...)
	now := time.Unix(1, 0)
	for _, e := range entries[:failuresInARow] {
		require.False(t, c.isDown())
		c.fail(e, now)
	}
	require.True(t, c.isDown())
	for _, e := range entries[failuresInARow:] {
		c.fail(e, now)
	}
	for _, e := range entries {
		c.wake(e)
	}
	for _, e := range c.nextLooks() {
		c.looked(e, 0, true)
	}
	for _, pause := range []time.Duration{firstPause, 2 * firstPause} {
		e, wait := c.next(now)
		require.Nil(t, e)
		require.Equal(t, pause, wait)
		now = now.Add(wait)
		e, _ = c.next(now)
		require.NotNil(t, e)
		next, wait := c.next(now)
		require.Nil(t, next, "one probe is under way")
		require.Zero(t, wait, "its answer leads on")
		c.fail(e, now)
	}
	now = now.Add(longestPause)
	e, _ := c.next(now)
	c.refuse(e, time.Minute)
	for range 2 {
		e, _ := c.next(now)
		require.NotNil(t, e, "Redis answers again")
	}
}

// Eight names of a dead server of a Cluster have failed, and many more wait for a probe. The names of the
// other servers are looked at, and the free ones are tried at once.
func TestADeadServerDoesNotHoldUpTheNamesOfOthers(t *testing.T) {
	const dead = 200
	for what, free := range map[string]func(c *core, b *entry){
		"released": func(c *core, b *entry) {
			c.refuse(b, time.Minute)
			c.streak = failuresInARow
			c.hear(b, released)
		},
		"found free by a look": func(c *core, b *entry) {
			c.refuse(b, time.Minute)
			c.streak = failuresInARow
			c.wake(b)
			c.looked(looksAt(c, b)[0], 0, false)
		},
		"wanted just now": func(c *core, b *entry) {
			c.refuse(b, time.Minute)
			c.streak = failuresInARow
			c.drop(b)
			c.want(nil, "b")
			c.looked(looksAt(c, c.entries["b"])[0], 0, false)
		},
		"lost": func(c *core, b *entry) {
			c.grant(b, time.Unix(1, 0))
			c.streak = failuresInARow
			c.lose(b)
			c.finish(b, time.Unix(10, 0))
			c.looked(looksAt(c, b)[0], 0, false)
		},
		"in line before": func(c *core, b *entry) {
			c.refuse(b, time.Minute)
			c.drop(b)
			c.want(nil, "b")
			b = c.entries["b"]
			require.Equal(t, ready, b.state)
			c.want(nil, "c")
			c.move(c.entries["c"], asking)
			c.streak = failuresInARow - 1
			c.fail(c.entries["c"], time.Unix(1, 0))
			c.looked(looksAt(c, b)[0], 0, false)
		},
	} {
		t.Run(what, func(t *testing.T) {
			names := make([]string, dead)
			for i := range names {
				names[i] = strconv.Itoa(i)
			}
			now := time.Unix(1, 0)
			c, entries := asked(Config{Look: 10 * time.Second}, append(names, "b")...)
			b := c.entries["b"]
			entries = slices.DeleteFunc(entries, func(e *entry) bool { return e == b })
			for _, e := range entries[:20] {
				c.fail(e, now)
			}
			require.True(t, c.isDown())
			for _, e := range entries[20:] {
				c.refuse(e, time.Minute)
			}
			c.streak = failuresInARow // of those that were refused later nothing is known any more
			for _, e := range entries {
				c.wake(e)
			}
			for _, e := range c.nextLooks() {
				c.looked(e, 0, true)
			}
			free(&c, b)
			require.True(t, c.isDown())
			c.resume = now.Add(longestPause)
			e, wait := c.next(now)
			require.Zero(t, wait)
			require.NotNil(t, e)
			require.Equal(t, "b", e.name)
			e, _ = c.next(now)
			require.Nil(t, e, "the others share a probe")
		})
	}
}

// TestAServerThatRefusesTriesAndAnswersLooksGetsOneProbeAtATime: its disk is full, or the user may only
// read there.
func TestAServerThatRefusesTriesAndAnswersLooksGetsOneProbeAtATime(t *testing.T) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	c, entries := asked(Config{Look: 10 * time.Second}, names...)
	now, tries := time.Unix(1, 0), 0
	for _, e := range entries {
		c.fail(e, now)
	}
	for range 100 { // rounds of ten seconds
		for _, e := range entries {
			c.wake(e)
		}
		for len(c.looks) > 0 {
			for _, e := range c.nextLooks() {
				c.looked(e, 0, false)
			}
		}
		for range 100 {
			now = now.Add(100 * time.Millisecond)
			for {
				e, _ := c.next(now)
				if e == nil {
					break
				}
				tries++
				c.fail(e, now)
			}
		}
	}
	require.Less(t, tries, 2*len(names), "each name once, and then probes")
	require.Greater(t, tries, len(names)+100, "it is probed")
	c.resume = now
	e, _ := c.next(now)
	c.grant(e, now)
	for range 10 {
		e, _ := c.next(now)
		require.NotNil(t, e, "it takes locks again")
	}
}

// A name whose try failed may be free, so it does not rest for as long as one that another owner has.
func TestANameWhoseTryFailedRestsForTenSecondsAtMost(t *testing.T) {
	for _, look := range []time.Duration{time.Second, DefaultLook, MaxLook} {
		c := newCore(Config{Look: look, AtOnce: 64, PerSecond: 1000}, func() float64 { return 0.5 })
		c.want(nil, "a")
		e, _ := c.next(time.Time{}.Add(time.Hour))
		require.NotNil(t, e)
		require.InDelta(t, min(look, DefaultLook)*8/10, c.fail(e, time.Time{}.Add(time.Hour)), float64(time.Millisecond))
	}
}
