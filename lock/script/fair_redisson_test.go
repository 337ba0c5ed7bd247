package script_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// These scripts do what Redisson's fair lock does to Redis. KEYS are the lock, its queue and the
// scores. A message is pushed to a list here, where a test finds it.
const (
	javaSweep = `
		local function sweep(now)
			while true do
				local head = redis.call('lindex', KEYS[2], 0)
				local score = head and redis.call('zscore', KEYS[3], head)
				if not score or tonumber(score) > now then
					return
				end
				redis.call('zrem', KEYS[3], head)
				redis.call('lpop', KEYS[2])
			end
		end
		local function tell()
			local head = redis.call('lindex', KEYS[2], 0)
			if head then
				redis.call('rpush', ARGV[3] .. ':' .. head, '0')
			end
		end
		local me, now, wait = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
		`
	// javaFairTake is of a thread that waits for at most ARGV[4]. It answers nil if it took the lock,
	// else how long the thread sleeps at most. If that is negative, the thread sleeps until a message.
	javaFairTake = javaSweep + `
		sweep(now)
		if redis.call('exists', KEYS[1]) == 0
			and (redis.call('exists', KEYS[2]) == 0 or redis.call('lindex', KEYS[2], 0) == me) then
			redis.call('lpop', KEYS[2])
			redis.call('zrem', KEYS[3], me)
			for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
				redis.call('zincrby', KEYS[3], -wait, other)
			end
			redis.call('hset', KEYS[1], me, 1)
			redis.call('pexpire', KEYS[1], 30000)
			return nil
		end
		local score = redis.call('zscore', KEYS[3], me)
		if score then
			if ARGV[5] == '3.13' then
				return tonumber(score) - wait - now
			end
			return math.max(0, redis.call('pttl', KEYS[1]))
		end
		local last, ttl = redis.call('lindex', KEYS[2], -1), nil
		if last and last ~= me then
			ttl = tonumber(redis.call('zscore', KEYS[3], last)) - now
		else
			ttl = redis.call('pttl', KEYS[1])
		end
		if redis.call('zadd', KEYS[3], string.format('%.0f', ttl + wait + now), me) == 1 then
			redis.call('rpush', KEYS[2], me)
		end
		return ttl`
	javaFairUnlock = javaSweep + `
		sweep(now)
		redis.call('del', KEYS[1])
		tell()
		return 1`
	// javaFairLeave is of a thread that stops waiting.
	javaFairLeave = javaSweep + `
		local behind = false
		for _, other in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do
			if behind then
				redis.call('zincrby', KEYS[3], -wait, other)
			end
			behind = behind or other == me
		end
		redis.call('zrem', KEYS[3], me)
		redis.call('lrem', KEYS[2], 0, me)
		return 1`
)

// fairGraceMS is how long Redisson waits for a dead waiter of ours, with an IOTimeout of a
// second. fairSkewMS is by how much clocks differ.
const (
	fairGraceMS    = 11_000
	fairPatienceMS = 300_000
	fairSkewMS     = 6_000
	parked         = int64(math.MaxInt64)
)

// fairStory is a queue of waiters of both kinds. Its time moves by hand.
type fairStory struct {
	t       *testing.T
	conn    redis.Conn
	rng     *rand.Rand
	key     string
	java    string // version
	now     int64  // ms
	all     []*fairActor
	holder  *fairActor
	lease   int64 // when the holder's lease ends; parked while the holder renews it
	free    int64 // of a free lock: since when it has been free with the same first waiter
	longest int64 // the longest time that a living waiter waited for a free lock, behind dead waiters of ours
	turns   int
	queued  []string // as the last script left the queue
	healthy bool     // no holder dies
}

// fairActor is a waiter, or the holder.
type fairActor struct {
	java, dead bool
	field      string
	skew       int64 // of its clock
	wait       int64 // how long a waiter of Redisson's waits at most, as its caller says
	next       int64 // when it does something
	came, died int64
	asked      int64 // when it last tried
	covered    int64 // when a living waiter of ours was last ahead of it

	// of a waiter of ours
	signs       int
	first, sign string
	missed      int
	seen        int64
}

func newFairStory(t *testing.T, s *redistest.Server, seed uint64, java string) *fairStory {
	conn := fixture.Dial(t, s)
	return &fairStory{
		t: t, conn: conn, rng: rand.New(rand.NewPCG(seed, 7)), key: fmt.Sprintf("%s.%d", fixture.KeyOf(t), seed), java: java,
		now: 1_800_000_000_000, lease: parked,
	}
}

func (f *fairStory) keys() []any {
	return []any{f.key, keys.FairQueue(f.key), keys.FairScores(f.key), keys.FairSigns(f.key), f.key + ":counter"}
}

func (f *fairStory) do(cmd string, args ...any) any {
	return fixture.DoOn(f.t, f.conn, cmd, args...)
}

func (f *fairStory) living(field string) *fairActor {
	for _, a := range f.all {
		if a.field == field && !a.dead {
			return a
		}
	}
	return nil
}

// run runs a script for a, and checks its effects on the others.
func (f *fairStory) run(a *fairActor, text string, keys int, args ...any) any {
	calls := [][]any{{"PTTL", f.key}}
	if f.holder != nil { // the lock has its TTL by the story's time
		rest := int64(25_000)
		if f.lease != parked {
			rest = max(f.lease-f.now, 1)
		}
		calls[0] = []any{"PEXPIRE", f.key, rest}
	}
	for _, key := range f.keys()[1:4] { // these keys must not expire by the server's time
		calls = append(calls, []any{"PERSIST", key})
	}
	calls = append(calls,
		append(append([]any{"EVAL", text, keys}, f.keys()[:keys]...), args...),
		[]any{"LRANGE", f.keys()[1], 0, -1})
	script := len(calls) - 2
	for _, b := range f.all {
		calls = append(calls, []any{"DEL", f.channel() + ":" + b.field})
	}
	// In a transaction time stands still, so a busy machine cannot let a short lease end before the script.
	require.NoError(f.t, f.conn.Send("MULTI"))
	for _, call := range calls {
		require.NoError(f.t, f.conn.Send(call[0].(string), call[1:]...))
	}
	replies, err := redis.Values(f.conn.Do("EXEC"))
	require.NoError(f.t, err)
	for _, reply := range replies {
		_, refused := reply.(redis.Error)
		require.False(f.t, refused, "%v", reply)
	}
	before, reply := f.queued, replies[script]
	after, err := redis.Strings(replies[script+1], nil)
	require.NoError(f.t, err)
	f.queued = after
	for i, field := range before {
		b, in := f.living(field), slices.Contains(after, field)
		if !in {
			f.free = max(f.free, f.now) // another waiter may be first now
		}
		if b == nil || b == a {
			continue
		}
		if !b.java {
			require.True(f.t, in, "%v: one of ours, which lives, was taken out of the queue, %d of %d", a, i, len(before))
		} else if !in && b.covered > 0 { // else no waiter of ours was ahead of it
			require.GreaterOrEqual(f.t, f.now-b.covered, min(b.wait, fairPatienceMS)-fairSkewMS, "one of Redisson's was dropped too early")
		}
	}
	for i, b := range f.all {
		if !b.dead && b != f.holder && replies[script+2+i] == int64(1) {
			b.next = min(b.next, f.now+1+f.rng.Int64N(3)) // a message
		}
	}
	ours := false
	for _, field := range after {
		if b := f.living(field); b != nil {
			if b.java && ours {
				b.covered = f.now
			}
			ours = ours || !b.java
		}
	}
	return reply
}

func (f *fairStory) channel() string { return f.key + ":channel" }

// try makes a try to get the lock.
func (f *fairStory) try(a *fairActor) {
	before := f.queued
	var got bool
	a.asked = f.now
	if a.java {
		ttl, ok := f.run(a, javaFairTake, 3, a.field, f.now+a.skew, f.channel(), a.wait, f.java).(int64)
		switch got = !ok; {
		case ttl < 0:
			a.next = parked
		default:
			a.next = f.now + max(ttl, 500) // it spins if that is 0
		}
	} else {
		got = f.tryOurs(a)
	}
	if !got {
		return
	}
	require.Nil(f.t, f.holder, "two have the lock")
	for _, field := range before {
		if field == a.field {
			break
		}
		require.Nil(f.t, f.living(field), "%v passed one that lives", a)
	}
	f.holder, f.lease, a.next = a, parked, f.now+f.rng.Int64N(3_000)
	f.turns++
	switch f.rng.IntN(12) {
	case 0: // a long hold
		a.next = f.now + 200_000 + f.rng.Int64N(700_000)
	case 1: // it dies, and its lease ends
		if !f.healthy && f.java != "3.13" { // waiters of 3.13 may sleep for ever then
			f.lease = f.now + 30_000
			a.next, a.dead = f.lease, true
		}
	}
}

// tryOurs does what a FairMutex does. It gives a sign every two seconds, and names the first waiter
// if that waiter has missed three signs.
func (f *fairStory) tryOurs(a *fairActor) bool {
	a.signs++
	dead, deadSign := "", ""
	if a.missed >= 3 {
		dead, deadSign, a.missed = a.first, a.sign, 0
	}
	reply := f.run(a, byClientsClock(script.FairTake), 5, a.field, 30_000, 1, f.now+a.skew, fairPatienceMS,
		fmt.Sprintf("%d/2000", a.signs), dead, deadSign, fairGraceMS, f.channel(), "rpush", fairGraceMS, 0, 0).([]any)
	if reply[0] == int64(1) {
		return true
	}
	first, sign := string(reply[2].([]byte)), string(reply[3].([]byte))
	switch {
	case first != a.first || sign != a.sign || sign == "" || first == a.field:
		a.first, a.sign, a.missed, a.seen = first, sign, 0, f.now
	case f.now-a.seen >= 2_000:
		a.missed++
		a.seen = f.now
	}
	a.next = f.now + 2_000
	if pttl := reply[1].(int64); first == a.field && pttl >= 0 {
		a.next = f.now + min(2_000, pttl+1)
	}
	if a.missed >= 3 {
		a.next = f.now + 2
	}
	return false
}

// release ends the hold.
func (f *fairStory) release() {
	a := f.holder
	switch f.holder = nil; {
	case a.dead:
		f.do("DEL", f.key)
	case a.java:
		f.do("PERSIST", f.key)
		f.run(a, javaFairUnlock, 3, a.field, f.now+a.skew, f.channel(), a.wait)
	default:
		f.run(a, script.FairRelease.Text(), 4, a.field, f.channel(), f.now+a.skew, fairGraceMS/2, "rpush")
	}
	f.forget(a)
	f.free = f.now
}

func (f *fairStory) leave(a *fairActor) {
	if a.java {
		f.run(a, javaFairLeave, 3, a.field, f.now+a.skew, f.channel(), a.wait)
	} else {
		f.run(a, script.FairRelease.Text(), 4, a.field, f.channel(), f.now+a.skew, fairGraceMS/2, "rpush")
	}
	f.forget(a)
	f.free = max(f.free, f.now)
}

func (f *fairStory) forget(a *fairActor) {
	f.all = slices.DeleteFunc(f.all, func(b *fairActor) bool { return a == b })
}

// arrive adds a waiter.
func (f *fairStory) arrive(java bool) *fairActor { return f.arriveFor(java, fairPatienceMS) }

// arriveFor adds a waiter. If it is Redisson's, it waits for at most wait.
func (f *fairStory) arriveFor(java bool, wait int64) *fairActor {
	n := f.rng.Uint32()
	a := &fairActor{java: java, field: fmt.Sprintf("java:%d", n), came: f.now, wait: wait, skew: f.rng.Int64N(fairSkewMS) - fairSkewMS/2}
	if !java {
		a.field = fmt.Sprintf("ours:%d:1", n)
	}
	f.all = append(f.all, a)
	f.try(a)
	return a
}

// step moves the time to the next action of an actor, but not beyond until, and performs the
// action.
func (f *fairStory) step(until int64) {
	next := until
	var who *fairActor
	for _, a := range f.all {
		if (!a.dead || a == f.holder) && a.next < next {
			next, who = a.next, a
		}
	}
	f.now = max(f.now, next)
	f.judge()
	switch who {
	case nil:
	case f.holder:
		f.release()
	default:
		f.try(who)
	}
}

// judge checks that the first living waiter gets a free lock in time.
func (f *fairStory) judge() {
	if f.holder != nil {
		return
	}
	since, limit := f.free, int64(2_000)
	for _, field := range f.queued {
		if a := f.living(field); a != nil {
			waits := f.now - max(since, a.came)
			if a.java {
				// Redisson sweeps each dead waiter when its time is over. A waiter of Redisson's
				// asks again after a message, or after the remaining time in its last answer.
				limit += fairGraceMS + fairSkewMS
				if a.next != parked && a.asked-max(since, a.came) <= limit {
					return
				}
			}
			require.LessOrEqual(f.t, waits, limit, "%v does not get the free lock behind %v", a, f.queued)
			f.longest = max(f.longest, waits)
			return
		}
		i := slices.IndexFunc(f.all, func(b *fairActor) bool { return b.field == field })
		if f.all[i].java {
			return // Redisson waits for it until its time is over
		}
		since = max(since, f.all[i].died)
		limit += 9_000 // living waiters of ours pass the dead ones one by one
	}
}

// TestOursAndRedissonsFairWaitersInOneQueue draws stories with long holds, deaths and
// clocks that differ. A living waiter of ours never loses its place. A living waiter of Redisson's
// does not lose it before its time is over. Living waiters are served in order, and none waits long
// for a free lock.
func TestOursAndRedissonsFairWaitersInOneQueue(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := fixture.Server(t)
	seeds := uint64(6) // both versions with each of the crowds
	if fixture.IsBrief() {
		seeds = 3
	}
	for seed := range seeds {
		version := []string{"4.7", "3.13"}[seed%2]
		most := []int{5, 8, 24}[seed%3]
		t.Run(fmt.Sprint(seed, " Redisson ", version, " up to ", most), func(t *testing.T) {
			t.Parallel()
			f := newFairStory(t, s, seed, version)
			for f.turns < 25 {
				if n := len(slices.DeleteFunc(slices.Clone(f.all), func(a *fairActor) bool { return a.dead })); n < most {
					f.arriveFor(f.rng.IntN(2) == 0, []int64{fairPatienceMS, fairPatienceMS, 60_000, 5_000}[f.rng.IntN(4)])
				}
				for end := f.now + f.rng.Int64N(8_000); f.now < end; {
					f.step(end)
				}
				if len(f.all) == 0 {
					continue
				}
				if a := f.all[f.rng.IntN(len(f.all))]; a != f.holder && !a.dead {
					dead := 0
					for _, b := range f.all {
						if b.dead && b != f.holder {
							dead++
							if b.java {
								dead += 3
							}
						}
					}
					switch f.rng.IntN(6) {
					case 0:
						// A dead waiter of Redisson's costs the others 300 s, or a multiple.
						if dead < 3 && (!a.java || f.rng.IntN(4) == 0) {
							a.dead, a.died = true, f.now
						}
					case 1:
						f.leave(a)
					}
				}
				// The story forgets a dead waiter that is out of the queue.
				queue := f.queued
				f.all = slices.DeleteFunc(f.all, func(a *fairActor) bool {
					return a.dead && a != f.holder && !slices.Contains(queue, a.field)
				})
			}
			t.Logf("%d turns in %v; a free lock was waited for, behind dead ones of ours, for up to %d ms",
				f.turns, time.Duration(f.now-1_800_000_000_000)*time.Millisecond, f.longest)
		})
	}
}

// TestRedissonWaitsSecondsForDeadFairWaitersOfOurs, also for several in a row.
func TestRedissonWaitsSecondsForDeadFairWaitersOfOurs(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	for _, version := range []string{"4.7", "3.13"} {
		for _, dead := range []int{1, 4} {
			f := newFairStory(t, fixture.Server(t), uint64(dead), version)
			holder := f.arrive(true)
			require.Equal(t, holder, f.holder)
			holder.next = parked
			for range dead {
				f.arrive(false)
			}
			j := f.arrive(true)
			for end := f.now + 1_200_000; f.now < end; { // our waiters live for long
				f.step(end)
			}
			require.Contains(t, f.queued, j.field)
			for _, a := range f.all[1 : 1+dead] {
				a.dead, a.died = true, f.now
			}
			f.release()
			for end := f.now + fairGraceMS + 5_000; f.now < end && f.holder == nil; {
				// A thread that waits with a limit looks now and then.
				j.next = min(j.next, f.now+1_000)
				f.step(end)
			}
			require.Equal(t, j, f.holder, "Redisson %s behind %d dead", version, dead)
		}
	}
}

// TestALongWaitLosesNoFairWaiterItsPlace: after a waiter has got the lock, a new waiter of Redisson's
// sweeps. The scores have changed during the long wait.
func TestALongWaitLosesNoFairWaiterItsPlace(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	for _, wait := range []int64{100_000, 400_000, 600_000, 700_000, 1_800_000} {
		f := newFairStory(t, fixture.Server(t), 1, "4.7")
		f.arrive(true).next = f.now + wait
		ours := []*fairActor{f.arrive(false), f.arrive(false), f.arrive(false)}
		for _, a := range ours {
			for holder := f.holder; f.holder == holder || f.holder == nil; {
				f.step(f.now + wait)
			}
			require.Equal(t, a, f.holder)
			a.next = f.now + wait
			f.leave(f.arrive(true))
		}
	}
}

// TestALongWaitOfRedissonsLosesNoFairWaiterItsPlace: Redisson subtracts the whole wait of a
// thread from all scores behind it, and a new waiter then sweeps all past scores.
func TestALongWaitOfRedissonsLosesNoFairWaiterItsPlace(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	for _, ahead := range [][]int64{{900_000}, {900_000, 5_000}, {900_000, 900_000}, {300_000, 3_600_000}, {5_000, 900_000, 300_000}} {
		holds := []int64{1_000, 100_000, 290_000, 800_000}
		if fixture.IsBrief() {
			holds = []int64{1_000, 290_000}
		}
		for _, hold := range holds {
			for _, later := range []int64{0, 5_000, 25_000} { // no longer than the lease that the first waiter found
				what := fmt.Sprint(ahead, " held for ", hold, " came ", later, " later")
				f := newFairStory(t, fixture.Server(t), uint64(later), "4.7")
				f.healthy = true // a waiter behind a dead holder may sleep for long
				holder := f.arrive(true)
				holder.next = parked
				var java, ours []*fairActor
				for _, wait := range ahead {
					java = append(java, f.arriveFor(true, wait))
				}
				f.now += later
				for range 2 {
					ours = append(ours, f.arrive(false))
				}
				behind := f.arrive(true)
				for end := f.now + hold; f.now < end; {
					f.step(end)
				}
				holder.next = f.now
				for _, j := range java {
					for slices.Contains(f.queued, j.field) && (f.holder == nil || f.holder == holder) {
						f.step(f.now + 1_000)
					}
					if f.holder != j { // a short wait behind a long one is swept with it
						continue
					}
					f.leave(f.arrive(true)) // it sweeps
					holder, j.next = j, f.now+hold/2
				}
				for _, a := range append(ours, behind) {
					for f.holder == nil || f.holder == holder {
						f.step(f.now + 1_000)
					}
					require.Equal(t, a, f.holder, what)
					f.leave(f.arrive(true))
					holder, a.next = a, f.now+2_500
				}
			}
		}
	}
}

// TestADeadFairWaiterBehindShortWaitsOfRedissons: the waiters behind the dead one wait no longer than
// the short waits ahead of it add.
func TestADeadFairWaiterBehindShortWaitsOfRedissons(t *testing.T) {
	f := newFairStory(t, fixture.Server(t), 1, "4.7")
	holder := f.arrive(true)
	holder.next = parked
	first := f.arrive(true)
	for range 4 {
		f.arriveFor(true, 5_000)
	}
	ours := f.arrive(false)
	j := f.arrive(true)
	for end := f.now + 3_000; f.now < end; { // the short ones have three seconds more
		f.step(end)
	}
	ours.dead, ours.died = true, f.now
	holder.next = f.now
	for range 5 {
		for holder == f.holder || f.holder == nil {
			f.step(f.now + 1_000)
		}
		holder, f.holder.next = f.holder, f.now+100
	}
	require.NotEqual(t, first, f.holder)
	f.step(f.now + 200)
	for end := f.now + fairGraceMS + fairSkewMS; f.now < end && f.holder == nil; {
		j.next = min(j.next, f.now+1_000)
		f.step(end)
	}
	require.Equal(t, j, f.holder)
}

// TestANewcomerOfRedissonsNeverSleepsForEver: while a living waiter of ours is in the queue, the score
// of the last waiter is not past, even if that waiter is dead.
func TestANewcomerOfRedissonsNeverSleepsForEver(t *testing.T) {
	f := newFairStory(t, fixture.Server(t), 1, "4.7")
	f.arrive(true).next = parked
	f.arrive(false)
	last := f.arrive(false)
	last.dead, last.died = true, f.now
	for end := f.now + 600_000; f.now < end; {
		f.step(end)
	}
	j := f.arrive(true)
	require.Equal(t, j.field, f.queued[2])
	require.NotEqual(t, parked, j.next)
}

// TestAFairWaiterKeepsTheForemostOfItsPlaces, in whatever order its requests
// arrive.
func TestAFairWaiterKeepsTheForemostOfItsPlaces(t *testing.T) {
	f := newFairStory(t, fixture.Server(t), 1, "4.7")
	f.arrive(true).next = parked
	take := func(field string, past ...any) {
		args := []any{field, 30_000, 1, f.now, fairPatienceMS, "1/2000", "", "", fairGraceMS, f.channel(), "rpush", fairGraceMS, len(past)}
		f.run(nil, byClientsClock(script.FairTake), 5, append(append(args, past...), 0)...)
	}
	take("ours:1:1")
	take("ours:1:3", "ours:1:1") // the request with ours:1:2 is late
	take("other:1:1")
	take("ours:1:2", "ours:1:1") // this request gets a place at the end
	require.Equal(t, []string{"ours:1:3", "other:1:1", "ours:1:2"}, f.queued)
	take("ours:1:4", "ours:1:1", "ours:1:2", "ours:1:3")
	require.Equal(t, []string{"ours:1:4", "other:1:1"}, f.queued)
}

// TestASignOfOneThatRedissonSweptIsForgotten, so that the number of signs stays right.
func TestASignOfOneThatRedissonSweptIsForgotten(t *testing.T) {
	f := newFairStory(t, fixture.Server(t), 1, "4.7")
	f.arrive(true).next = parked
	gone := f.arrive(false)
	gone.dead, gone.died = true, f.now
	f.now += fairGraceMS + fairSkewMS
	ours := f.arrive(false)
	f.arrive(true)
	require.NotContains(t, f.queued, gone.field)
	f.all = slices.DeleteFunc(f.all, func(a *fairActor) bool { return a == gone })
	ours.next = f.now
	f.step(f.now + 1)
	require.Equal(t, []string{ours.field}, fieldsOf(t, f.do("HKEYS", f.keys()[3])))
}

func fieldsOf(t *testing.T, reply any) []string {
	fields, err := redis.Strings(reply, nil)
	require.NoError(t, err)
	return fields
}

// TestPlacesThatAreGivenUpTogetherLeaveWhatOneByOneLeaves runs both on random queues.
func TestPlacesThatAreGivenUpTogetherLeaveWhatOneByOneLeaves(t *testing.T) {
	s := fixture.Server(t)
	c, err := s.Dial()
	require.NoError(t, err)
	defer c.Close()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := rng.IntN(40)
		taken, now := rng.IntN(2) == 0, time.Now().UnixMilli()
		var leavers []string
		keysOf := func(i int) []any {
			tag := fmt.Sprintf("{%s%d:%d}", t.Name(), seed, i)
			return []any{tag, tag + "q", tag + "z", tag + "s"}
		}
		for i := range n {
			field := fmt.Sprint("field ", i)
			leaves := rng.IntN(2) == 0
			signs := leaves || rng.IntN(3) > 0 // waiters of Redisson's give none
			for k := range 2 {
				keys := keysOf(k)
				fixture.DoOn(t, c, "RPUSH", keys[1], field)
				fixture.DoOn(t, c, "ZADD", keys[2], now+int64(i)*1000, field)
				if signs {
					fixture.DoOn(t, c, "HSET", keys[3], field, "1/2000")
				}
			}
			if leaves {
				leavers = append(leavers, field)
			}
		}
		leavers = append(leavers, "nobody")
		for k := range 2 {
			keys := keysOf(k)
			if taken {
				fixture.DoOn(t, c, "HSET", keys[0], "the holder", 1)
			}
			if n > 0 {
				for _, key := range keys[1:3] {
					fixture.DoOn(t, c, "PEXPIRE", key, 100_000)
				}
			}
		}
		release := func(k int, fields ...string) {
			args := append([]any{script.FairRelease.Text(), 4}, keysOf(k)...)
			args = append(args, fields[0], t.Name(), now, 5000, "publish")
			for _, f := range fields[1:] {
				args = append(args, f)
			}
			fixture.DoOn(t, c, "EVAL", args...)
		}
		for _, f := range leavers {
			release(0, f)
		}
		release(1, leavers...)
		state := func(k int) (out []any) {
			keys := keysOf(k)
			for _, cmd := range [][]any{
				{"LRANGE", keys[1], 0, -1}, {"ZRANGE", keys[2], 0, -1, "WITHSCORES"}, {"HKEYS", keys[3]}, {"HGETALL", keys[0]},
			} {
				out = append(out, fixture.DoOn(t, c, cmd[0].(string), cmd[1:]...))
			}
			ttl, err := redis.Int64(c.Do("PTTL", keys[1]))
			require.NoError(t, err)
			return append(out, ttl > 0)
		}
		require.Equal(t, state(0), state(1), "seed %d", seed)
	}
}
