package twin

import (
	"slices"
	"strconv"
	"strings"
)

// fair is a fair mutex as the scripts see it.
type fair struct {
	*exec
	lock, queue, scores, signs string
}

// line returns the waiters, in order.
func (x fair) line() (out []string) {
	if e := x.entryOf(x.queue, list); e != nil {
		for _, p := range e.pairs {
			out = append(out, p.name)
		}
	}
	return out
}

func (x fair) first() string { return x.nth(0) }

func (x fair) nth(i int) string {
	if line := x.line(); i < len(line) {
		return line[i]
	}
	return ""
}

// lrem removes the first place of a field from the queue.
func (x fair) lrem(field string) { x.remove(x.queue, list, field) }

// leave takes a field out of the queue.
func (x fair) leave(field string) {
	x.hdel(x.signs, field)
	if x.zrem(x.scores, field) {
		x.lrem(field)
	}
}

// score returns the score of a field, or 0 if there is none.
func (x fair) score(field string) float64 {
	score, _ := x.zscore(x.scores, field)
	return score
}

// wake sends a message to the first waiter, and to the next ones while a waiter of ours may be dead.
func (x fair) wake(channel, but string, before float64) (told int64) {
	for i := 0; i < 16; i++ {
		field := x.nth(i)
		if field == "" {
			return told
		}
		if field != but {
			told += x.publish(channel+":"+field, "0")
		}
		if !x.hasField(x.signs, field) || x.score(field) >= before {
			return told
		}
	}
	return told
}

func fairTake(e *exec) any {
	x := fair{e, e.keys[0], e.keys[1], e.keys[2], e.keys[3]}
	me, lease, sign := x.arg(1), x.lease(2), x.arg(6)
	floor := x.least(3)
	now, ok1 := x.number(4)
	now, _ = e.onServerClock(now, now)
	patience, ok2 := x.number(5)
	grace, ok3 := x.number(12)
	if !ok1 || !ok2 || !ok3 {
		panic(refusal("ERR wheellock: fair_take needs times"))
	}
	x.entryOf(x.queue, list)
	x.entryOf(x.scores, zset)
	x.entryOf(x.signs, hash)
	x.lastToken(x.keys[4])
	foreign := x.foreign(x.lock) != nil
	if last, signed := x.hget(x.signs, me); signed && digitsOf(sign) != "" && digitsOf(last) != "" && numberOf(sign) <= numberOf(last) {
		return x.refusal(x.pttl(x.lock), x.first(), foreign) // a copy that is late
	}
	heirs := int(x.integer(13))
	fields := x.argsFrom(14)
	x.inherit(me, sign, now, fields[:heirs])
	for i, old := range fields {
		if !foreign {
			if i < heirs && x.hasField(x.lock, old) {
				x.hset(x.lock, me, "1")
			}
			x.hdel(x.lock, old)
		}
		x.leave(old)
	}
	mine := !foreign && x.hasField(x.lock, me)
	woken := false
	for swept := 0; x.first() != "" && swept < 200; swept++ {
		first := x.first()
		score, scored := x.zscore(x.scores, first)
		if seen, signed := x.hget(x.signs, first); !scored || score <= now && !signed ||
			x.arg(8) != "" && first == x.arg(7) && signed && seen == x.arg(8) {
			x.lrem(first)
			x.zrem(x.scores, first)
			x.hdel(x.signs, first)
			woken = true
			continue
		}
		break
	}
	first, pttl := x.first(), x.pttl(x.lock)
	if mine || pttl == -2 && (first == "" || first == me) {
		token := x.token(x.keys[4], floor)
		x.hset(x.lock, me, "1")
		x.extendTTL(x.lock, lease)
		if first != "" {
			x.keepForRedisson()
		}
		if !mine {
			x.lrem(me)
			x.zrem(x.scores, me)
			x.hdel(x.signs, me)
		}
		return ints(1, token)
	}
	if sign != "" {
		x.stand(me, sign, now, patience, grace)
		if first == "" {
			first = me
		}
	}
	if woken && pttl == -2 {
		x.wakeFrom(first, me, now+grace/2)
	}
	return x.refusal(pttl, first, foreign)
}

// refusal returns the answer that the lock was not acquired.
func (x fair) refusal(pttl int64, first string, foreign bool) any {
	seen, _ := x.hget(x.signs, first)
	return []any{int64(0), pttl, first, seen, flag(foreign)}
}

func fairSign(e *exec) any {
	x := fair{e, e.keys[0], e.keys[1], e.keys[2], e.keys[3]}
	now, ok1 := x.number(1)
	now, _ = e.onServerClock(now, now)
	patience, ok2 := x.number(2)
	life, ok3 := x.number(3)
	grace, ok4 := x.number(4)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		panic(refusal("ERR wheellock: fair_sign needs times"))
	}
	line := x.line()
	scores := x.entryOf(x.scores, zset)
	ours := x.hlen(x.signs) == len(line) && !x.farAhead(now+patience/2) && (scores == nil && len(line) == 0 || scores != nil && len(scores.pairs) == len(line))
	left := ""
	for i := 6; i <= len(x.args); i += 2 {
		field, number := x.arg(i), x.arg(i+1)
		last, signed := x.hget(x.signs, field)
		_, scored := x.zscore(x.scores, field)
		if !ours || !signed || !scored || timeOf(last, -1) < 0 {
			left += "1"
			continue
		}
		left += "0"
		if numberOf(number) <= numberOf(last) {
			continue
		}
		time := now
		if at := timeOf(last, now); at > now && at-now < patience/2 {
			time = at
		}
		x.hset(x.signs, field, signAt(number+x.arg(5), now))
		x.zadd(x.scores, field, time+grace)
	}
	if ours {
		for _, key := range []string{x.queue, x.scores, x.signs} {
			x.extendTTL(key, int64(life))
		}
	}
	seen, _ := x.hget(x.signs, x.first())
	return []any{x.pttl(x.lock), x.first(), seen, left}
}

// farAhead reports whether a waiter has a score of at least limit.
func (x fair) farAhead(limit float64) bool {
	e := x.entryOf(x.scores, zset)
	return e != nil && slices.ContainsFunc(e.pairs, func(p pair) bool { return p.score >= limit })
}

// wakeFrom is wake by the caller me, which is not woken. It does nothing if nobody waits.
func (x fair) wakeFrom(first, me string, before float64) {
	if first != "" {
		x.wake(x.arg(10), me, before)
	}
}

// inherit gives me the foremost place of its earlier fields.
func (x fair) inherit(me, sign string, now float64, earlier []string) {
	for i, old := range x.line() {
		if old == me {
			return
		}
		score, scored := x.zscore(x.scores, old)
		if !slices.Contains(earlier, old) || !scored {
			continue
		}
		q := x.entryOf(x.queue, list)
		q.pairs[i].name = me
		for j := i + 1; j < len(q.pairs); j++ {
			if q.pairs[j].name == me {
				q.pairs = slices.Delete(q.pairs, j, j+1)
				break
			}
		}
		x.zadd(x.scores, me, score)
		x.zrem(x.scores, old)
		last, _ := x.hget(x.signs, old)
		x.hset(x.signs, me, signAt(sign, timeOf(last, now)))
		x.hdel(x.signs, old)
		return
	}
}

// signAt returns the sign of life with its time.
func signAt(sign string, at float64) string {
	n := digitsOf(sign)
	return n + "@" + strconv.FormatFloat(at, 'f', 0, 64) + sign[len(n):]
}

// timeOf returns the time in a sign, or otherwise if the sign has none.
func timeOf(sign string, otherwise float64) float64 {
	if text, found := strings.CutPrefix(sign[len(digitsOf(sign)):], "@"); found && digitsOf(text) != "" {
		at, _ := strconv.ParseFloat(digitsOf(text), 64)
		return at
	}
	return otherwise
}

// numberOf returns the number that text begins with.
func numberOf(text string) float64 {
	n, _ := strconv.ParseFloat(digitsOf(text), 64)
	return n
}

// digitsOf returns the digits that text begins with.
func digitsOf(text string) string {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n]
}

// aheadOf returns the sum of the waits of Redisson's waiters before me in line.
func (x fair) aheadOf(me string, line []string, now, patience float64) (sum float64) {
	base, java := now+float64(max(x.pttl(x.lock), 0)), false
	for _, other := range line {
		switch wait := x.score(other) - base; {
		case other == me:
			return sum
		case x.hasField(x.signs, other):
			java = false
		case wait <= 0 || wait >= 86400000 || !java && wait < patience:
			sum, java = sum+patience, true
		case other == line[0]:
			sum, java = sum+x.score(other)-now, true
		default:
			sum, java = sum+wait, true
		}
		base = x.score(other)
	}
	return sum
}

// stand gives a sign of life, and a place at the end if me has none.
func (x fair) stand(me, sign string, now, patience, grace float64) {
	score, scored := x.zscore(x.scores, me)
	before := now
	if last, signed := x.hget(x.signs, me); scored && signed {
		before = timeOf(last, now)
	}
	if !scored || x.first() == "" {
		q := x.entryOrNew(x.queue, list)
		q.pairs = append(q.pairs, pair{name: me})
	}
	x.hset(x.signs, me, signAt(sign, now))
	line := x.line()
	time := now
	if before > now && before-now < patience/2 {
		time = before
	}
	span := float64(max(len(line)-x.hlen(x.signs), 0)) * patience
	if scored {
		span = max(score-before-grace, 0)
	}
	behind := []string{me, line[len(line)-1]}
	n, _ := strconv.Atoi(digitsOf(sign))
	whole := (n+1)/2%((len(line)+15)/16) == 0 && (len(line) <= 16 || len(line) != x.hlen(x.signs) || x.farAhead(now+patience/2))
	signed := 0
	if whole {
		if !slices.Contains(line, me) { // somebody has removed its place and left its score
			q := x.entryOf(x.queue, list)
			q.pairs = append(q.pairs, pair{name: me})
			line = append(line, me)
		}
		switch sum := x.aheadOf(me, line, now, patience); {
		case sum == 0:
			span = 0
		case scored:
			span = max(span, sum)
		default:
			span = sum
		}
		behind = line[slices.Index(line, me):]
		for _, other := range line {
			signed += int(flag(x.hasField(x.signs, other)))
		}
	}
	least := time + grace + span
	base, java := 0.0, false
	for i, other := range behind {
		if i == 0 {
			x.zadd(x.scores, me, least)
		}
		if other == me {
			continue
		}
		its, ours := x.score(other), x.hasField(x.signs, other)
		if wait := its - base; !ours && java && wait > 0 && wait < 86400000 {
			least += wait
		} else if !ours {
			least += patience
		}
		if its < least {
			x.zadd(x.scores, other, least)
		}
		base, java = its, !ours
	}
	if signs := x.entryOf(x.signs, hash); whole && signs != nil && len(signs.pairs) != signed {
		for _, p := range slices.Clone(signs.pairs) {
			if _, scored := x.zscore(x.scores, p.name); !scored {
				x.hdel(x.signs, p.name)
			}
		}
	}
	ours := x.hlen(x.signs) == len(x.line())
	for _, key := range []string{x.queue, x.scores, x.signs} {
		if key != x.signs && !ours {
			x.persist(key)
		} else if x.pttl(key) < x.integer(9) {
			x.pexpire(key, x.integer(9))
		}
	}
}

// keepForRedisson takes the end from the queue if waiters of Redisson's are in it.
func (x fair) keepForRedisson() {
	if len(x.line()) != x.hlen(x.signs) {
		x.persist(x.queue)
		x.persist(x.scores)
	}
}

func (x *exec) persist(key string) {
	if e := x.s.entryAt(key, x.now); e != nil {
		e.end = 0
	}
}

func fairRelease(e *exec) any {
	x := fair{e, e.keys[0], e.keys[1], e.keys[2], e.keys[3]}
	me := x.arg(1)
	_, ok1 := x.number(3)
	doubt, ok2 := x.number(4)
	if !ok1 || !ok2 {
		panic(refusal("ERR wheellock: fair_release needs times"))
	}
	now := float64(x.now) // the client's clock counts only where the server's is not known
	other, held := x.isOther(x.lock, hash), x.hasField(x.lock, me)
	x.entryOf(x.queue, list)
	x.entryOf(x.scores, zset)
	x.entryOf(x.signs, hash)
	var placed []string
	for _, field := range append([]string{me}, x.argsFrom(6)...) {
		if !other {
			x.hdel(x.lock, field)
		}
		x.hdel(x.signs, field)
		if x.zrem(x.scores, field) {
			placed = append(placed, field)
		}
	}
	for _, field := range placed {
		x.lrem(field)
	}
	told := int64(0)
	if !x.exists(x.lock) {
		swept := 0
		for first := x.first(); swept < 200 && first != "" && x.score(first) <= now && !x.hasField(x.signs, first); first = x.first() {
			x.lrem(first)
			x.zrem(x.scores, first)
			swept++
		}
		told = x.wake(x.arg(2), "", now+doubt)
	}
	x.keepForRedisson()
	if !held {
		return int64(-1)
	}
	return 1 + told
}

func fairForce(e *exec) any {
	key, queue := e.keys[0], e.keys[1]
	h := e.entryOf(key, hash)
	switch {
	case h == nil:
		return int64(0)
	case slices.ContainsFunc(e.known(h.pairs, e.argsFrom(3)), func(p pair) bool { return !isOwner.MatchString(p.name) || !isCount.MatchString(p.value) }):
		return int64(-1)
	}
	e.entryOf(queue, list)
	gone := e.distinct(key, e.argsFrom(3))
	for _, f := range gone {
		e.hdel(key, f)
	}
	if len(gone) == 0 {
		return int64(-2)
	}
	if !e.exists(key) {
		if first := (fair{exec: e, queue: queue}).first(); first != "" {
			e.publish(e.arg(1)+":"+first, "0")
		}
	}
	return int64(1)
}
