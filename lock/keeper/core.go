package keeper

import (
	"context"
	"math"
	"time"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/wheel"
)

// state is where a name is. Every change is a method of core.
type state uint8

const (
	// resting: its timer is set. From asking by refuse, skip and fail, from looking by
	// looked, from ending by finish after a short hold. To due by wake and hear, to
	// ready by hear, to gone by drop.
	resting state = iota
	// due: in line for a look, which asks Redis whether the name is still held. From
	// resting by wake and hear, from asking by refuse, skip and fail, from looking by looked.
	// While Redis is down also from gone by want, from ready by fail, and from ending
	// by finish. To looking by nextLooks, to ready by hear, to gone by drop.
	due
	// looking: a look is under way. From due by nextLooks. To resting, due and ready by
	// looked, to gone by drop.
	looking
	// ready: in line for a try. From gone by want, from resting and due by hear, from
	// asking by refuse, skip and fail, from looking by looked, from ending by finish. To asking
	// by next, to due by fail, to gone by drop.
	ready
	// asking: a try is under way. From ready by next. To kept or ending by grant, to
	// resting, due, ready or gone by refuse, skip and fail.
	asking
	// kept: held, and wanted. From asking by grant. To ending by drop, lose and the bound.
	kept
	// ending: lost or given up, until the functions have returned and the lock is released.
	// From kept by drop, lose and the bound, from asking by grant if the name is not wanted
	// any more or the bound was lowered. To ready, due, resting or gone by finish.
	ending
	// gone: not in the table any more.
	gone
	states
)

// news is what a message said of a name while a request about it was under way. The answer to that
// request may be older than the message.
type news uint8

const (
	nothing  news = iota
	missed        // a release may have been missed
	released      // it was released
)

const (
	// heardRestFactor is how many times as long a name rests while its releases are heard. So most looks come
	// at the end of the lease that the look before has found.
	heardRestFactor = 4
	// looksAtOnce is how many names one look asks about at most.
	looksAtOnce = 512
	// failuresInARow is how many tries must fail one after the other before the core
	// believes that Redis is down. One dead server of a Cluster does not hold up the names of
	// the others.
	failuresInARow = 8
	firstPause     = 100 * time.Millisecond // between two probes while Redis is down; doubled up to longestPause
	longestPause   = 5 * time.Second
	shortHold      = time.Second // a name that was lost sooner than this rests this long before its next try
	afterLease     = 5 * time.Millisecond
	leaseSpread    = 20 * time.Millisecond // so that the processes that wait do not all try at once
	// mostSlack is how much later than asked a name may wake, so that names wake together and
	// their tries share writes and reads.
	mostSlack = 160 * time.Millisecond
)

// entry is one name. Keeper.mu guards it, except timer, whose methods need no mutex.
type entry struct {
	name   string // immutable
	keeper *Keeper
	timer  wheel.Timer // set while it is resting

	state         state
	wanted        bool
	place         int  // its index in core.unproved or core.proved, while it is ready
	proved        bool // since the last try its server has answered that it is free, or told a release
	wasProved     bool // the try under way began so
	heard         news // since the try or look under way began
	hearsReleases bool // messages of its releases come
	isForeign     bool // its last try found a lock of another library, or no lock, whose end publishes no message
	// core.answers + 1 when a try of this name last failed while it was proved. Until another try is
	// answered, a look does not prove the name again, because Redis may answer looks and refuse tries.
	failedAtAnswer uint64

	// since the last grant
	held    *lock.Held
	cancel  context.CancelCauseFunc // ends the context of Taken; nil if Taken was not called
	running bool                    // Taken runs; its goroutine then calls finish if the name is ending
	lost    bool
	taken   time.Time
}

// core decides when the Keeper asks about a name, and handles the answers. It does no I/O, and has
// no clock and no goroutine. Keeper.mu guards it.
type core struct {
	lookPeriod time.Duration  // immutable
	atOnce     int            // immutable
	perSecond  float64        // immutable
	random     func() float64 // immutable; from 0 to 1

	entries  map[string]*entry
	unproved []*entry // the ready ones that are not proved, in any order
	proved   []*entry // the ready ones that are proved. They go first, and are tried while Redis is down for others
	looks    []*entry // the due ones, and some that are not due any more
	counts   [states]int
	wanted   int
	most     int  // 0: no bound
	shared   bool // immutable
	sharers  int  // how many Keepers share the names, including this one; 0: not known yet
	closed   bool

	answers  uint64        // tries that were answered
	streak   int           // tries that failed since the last answer
	pause    time.Duration // the last pause while Redis is down
	resume   time.Time     // while Redis is down, no probe begins before this time
	tokens   float64       // tries that may begin now
	refilled time.Time     // when tokens was computed
}

func newCore(cfg Config, random func() float64) core {
	return core{
		lookPeriod: cfg.Look, atOnce: cfg.AtOnce, perSecond: float64(cfg.PerSecond), random: random,
		entries: map[string]*entry{}, most: cfg.Most, shared: cfg.Share != "",
	}
}

// move changes the state of e, and keeps the line and the counts.
func (c *core) move(e *entry, to state) {
	if e.state == ready {
		in := c.lineOf(e)
		last := len(*in) - 1
		(*in)[e.place] = (*in)[last]
		(*in)[e.place].place = e.place
		(*in)[last] = nil
		*in = (*in)[:last]
	}
	c.counts[e.state]--
	c.counts[to]++
	e.state = to
	switch to {
	case ready:
		in := c.lineOf(e)
		e.place = len(*in)
		*in = append(*in, e)
	case due:
		c.looks = append(c.looks, e)
	case looking:
		e.heard = nothing
	case asking:
		e.heard, e.proved, e.wasProved = nothing, false, e.proved
	case gone:
		delete(c.entries, e.name)
	}
}

// lineOf returns the line in which e is, or would be, while it is ready.
func (c *core) lineOf(e *entry) *[]*entry {
	if e.proved {
		return &c.proved
	}
	return &c.unproved
}

// lineUp makes a name ready. While Redis is down, a name that is not proved becomes due instead, because
// its server may be one that works.
func (c *core) lineUp(e *entry) {
	if c.isDown() && !e.proved {
		c.move(e, due)
	} else {
		c.move(e, ready)
	}
}

func (c *core) setWanted(e *entry, wanted bool) {
	if e.wanted != wanted {
		e.wanted = wanted
		if wanted {
			c.wanted++
		} else {
			c.wanted--
		}
	}
}

// want makes a name wanted. A name that is not in the table is ready at once, or due while Redis is down.
func (c *core) want(k *Keeper, name string) {
	if c.closed {
		return
	}
	e := c.entries[name]
	if e == nil {
		e = &entry{name: name, keeper: k, state: gone}
		c.counts[gone]++
		c.entries[name] = e
		c.lineUp(e)
	}
	c.setWanted(e, true)
}

// drop makes a name not wanted. It returns true if the name is kept and now ends.
func (c *core) drop(e *entry) (ends bool) {
	c.setWanted(e, false)
	switch e.state {
	case resting, due, looking, ready:
		c.move(e, gone)
	case kept:
		c.move(e, ending)
		return true
	}
	return false
}

// bound returns how many names may be kept.
func (c *core) bound() int {
	bound := math.MaxInt
	if c.most > 0 {
		bound = c.most
	}
	switch {
	case !c.shared:
		return bound
	case c.sharers == 0:
		return 0
	}
	return min(bound, (c.wanted+c.sharers-1)/c.sharers)
}

// endSurplus moves kept names to ending, until the bound is kept.
func (c *core) endSurplus() (ends []*entry) {
	bound := c.bound()
	if c.counts[kept] <= bound {
		return nil
	}
	for _, e := range c.entries {
		if c.counts[kept] <= bound {
			break
		}
		if e.state == kept {
			c.move(e, ending)
			ends = append(ends, e)
		}
	}
	return ends
}

// wake makes a name due whose time has come.
func (c *core) wake(e *entry) {
	if e.state == resting {
		c.move(e, due)
	}
}

// hear is for news of a name. It returns true if the timer of the name is to be stopped.
func (c *core) hear(e *entry, what news) (stop bool) {
	if e.state == kept || e.state == ending {
		return false // this Keeper has the lock
	}
	e.hearsReleases = true
	switch {
	case e.state == looking || e.state == asking:
		e.proved = e.proved || what == released
		e.heard = max(e.heard, what)
	case e.state == resting && what == missed:
		c.move(e, due)
		return true
	case what == released && (e.state != ready || !e.proved):
		stop = e.state == resting
		if e.state == ready {
			c.move(e, due) // out of the line of names that are not proved
		}
		e.proved = true
		c.move(e, ready)
	}
	return stop
}

// stopHearing is for a name whose messages do not come any more. If most is not 0, the name is resting, and
// must not rest longer than most from now on.
func (c *core) stopHearing(e *entry) (most time.Duration) {
	if e.hearsReleases && e.state == resting {
		most = c.untilNextLook()
	}
	e.hearsReleases = false
	return most
}

// nextLooks returns the names to look at now, which are then looking. There are more to look at while
// looks is not empty.
func (c *core) nextLooks() (batch []*entry) {
	n := 0
	for ; n < len(c.looks) && len(batch) < looksAtOnce; n++ {
		if e := c.looks[n]; e.state == due { // the others leave the line too, and do not count
			c.move(e, looking)
			batch = append(batch, e)
		}
	}
	clear(c.looks[:n])
	c.looks = c.looks[n:]
	return batch
}

// looked handles the result of a look at a name. ttl is 0 if the name is free, and less than 0 if its
// lock has no TTL. If unknown, the look got no answer, and a try follows. rest is how long the name
// rests before it is asked about again, 0 if it does not rest.
func (c *core) looked(e *entry, ttl time.Duration, unknown bool) (rest time.Duration) {
	switch {
	case e.state != looking: // it was dropped
	case unknown, ttl == 0:
		e.proved = e.proved || !unknown && e.failedAtAnswer != c.answers+1
		c.move(e, ready)
	default:
		return c.rest(e, c.untilFree(e, ttl))
	}
	return 0
}

// isDown reports whether the last tries failed.
func (c *core) isDown() bool { return c.streak >= failuresInARow }

// next returns the name to ask for now, which is then asking. It returns nil if there is none. If
// wait is not 0, there is one after that time.
func (c *core) next(now time.Time) (e *entry, wait time.Duration) {
	busy, line := c.counts[asking], c.proved
	switch {
	case busy >= c.atOnce:
		return nil, 0
	case c.counts[kept]+c.counts[ending]+busy >= c.bound():
		return nil, 0
	case len(line) > 0:
	case len(c.unproved) == 0:
		return nil, 0
	case c.isDown() && busy > 0:
		return nil, 0 // one probe, whose answer leads here again
	case c.isDown() && now.Before(c.resume):
		return nil, c.resume.Sub(now)
	default:
		line = c.unproved
	}
	burst := max(1, c.perSecond/20)
	if c.refilled.IsZero() {
		c.tokens = burst
	} else {
		c.tokens = min(burst, c.tokens+now.Sub(c.refilled).Seconds()*c.perSecond)
	}
	c.refilled = now
	if c.tokens < 1 {
		return nil, max(time.Millisecond, time.Duration((1-c.tokens)/c.perSecond*float64(time.Second)))
	}
	c.tokens--
	// A name at random, so that processes that want the same names seldom ask for the same one.
	e = line[min(int(c.random()*float64(len(line))), len(line)-1)]
	c.move(e, asking)
	return e, 0
}

// answered ends an outage.
func (c *core) answered() { c.answers, c.streak, c.pause = c.answers+1, 0, 0 }

// grant is for a try that took the lock. It returns false if the lock must be released, because the
// name is not wanted any more, or because the bound was lowered while the try was under way.
func (c *core) grant(e *entry, now time.Time) (keep bool) {
	c.answered()
	e.taken, e.lost, e.hearsReleases, e.isForeign = now, false, false, false
	if !e.wanted || c.closed || c.counts[kept] >= c.bound() {
		c.move(e, ending)
		return false
	}
	c.move(e, kept)
	return true
}

// refuse is for a try that found another owner, whose lease ends after ttl. If ttl is less than 0, the
// lease has no end. refuse returns how long the name rests, 0 if it does not.
func (c *core) refuse(e *entry, ttl time.Duration) (rest time.Duration) {
	c.answered()
	return c.skip(e, ttl)
}

// skip is refuse for a try of which Redis was not asked, because other callers of the client wait. If ttl
// is 0, the end of the lease is not known.
func (c *core) skip(e *entry, ttl time.Duration) (rest time.Duration) {
	return c.rest(e, c.untilFree(e, ttl))
}

// untilFree returns how long a name rests while another owner has it, whose lease ends after ttl. If ttl
// is 0 or less, the end is not known.
func (c *core) untilFree(e *entry, ttl time.Duration) time.Duration {
	rest := c.untilNextLook()
	if e.hearsReleases && !e.isForeign {
		rest *= heardRestFactor
	}
	if ttl <= 0 || rest < ttl {
		return rest
	}
	return ttl + afterLease + time.Duration(c.random()*float64(leaseSpread))
}

// fail is for a try whose outcome is unknown, or that Redis answered with an error. It returns how long
// the name rests, 0 if it does not.
func (c *core) fail(e *entry, now time.Time) (rest time.Duration) {
	if e.wasProved {
		e.failedAtAnswer = c.answers + 1
	}
	if c.streak++; c.streak == failuresInARow {
		for len(c.unproved) > 0 { // a look finds the names whose servers answer
			c.move(c.unproved[len(c.unproved)-1], due)
		}
	}
	if c.isDown() && !now.Before(c.resume) {
		c.pause = min(max(2*c.pause, firstPause), longestPause)
		c.resume = now.Add(time.Duration(float64(c.pause) * (0.75 + c.random()/2)))
	}
	return c.rest(e, c.shortOf(min(c.lookPeriod, DefaultLook))) // it may be free
}

func (c *core) untilNextLook() time.Duration { return c.shortOf(c.lookPeriod) }

// shortOf draws a time that is a little shorter than d.
func (c *core) shortOf(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.7 + c.random()/5))
}

// slackOf returns how much longer than rest a name may rest. shortOf leaves room for it, so the time of
// untilNextLook and its slack are together less than Look.
func slackOf(rest time.Duration) time.Duration { return min(rest/10, mostSlack) }

// rest lets a name rest, unless it is not wanted any more, or news came during the request. The answer
// may be older than such news.
func (c *core) rest(e *entry, rest time.Duration) time.Duration {
	switch {
	case !e.wanted || c.closed:
		c.setWanted(e, false)
		c.move(e, gone)
	case e.heard == released:
		c.lineUp(e)
	case e.heard == missed:
		c.move(e, due)
	default:
		c.move(e, resting)
		return rest
	}
	return 0
}

// lose is for a lock that was lost. It returns false if the name was ending anyway.
func (c *core) lose(e *entry) bool {
	if e.state != kept {
		return false
	}
	e.lost = true
	c.move(e, ending)
	return true
}

// finish is for a name whose functions have returned and whose lock is released. It returns how
// long the name rests, 0 if it is ready or gone.
func (c *core) finish(e *entry, now time.Time) (rest time.Duration) {
	short := e.lost && now.Sub(e.taken) < shortHold
	e.held, e.cancel, e.lost = nil, nil, false
	e.heard = released // as far as this Keeper knows
	if short {
		e.heard = nothing
	}
	return c.rest(e, shortHold)
}
