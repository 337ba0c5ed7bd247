package twin

import (
	"encoding/hex"
	"strconv"
	"strings"
)

func count(x *exec) any {
	if value, ok := x.get(x.keys[0]); ok {
		return value
	}
	return nil
}

// once carries do out, unless the request's result is remembered.
func (x *exec) once(px int64, do func() int64) int64 {
	if done, ok := x.get(x.keys[1]); ok {
		n, _ := number(done)
		return int64(n)
	}
	n := do()
	x.set(x.keys[1], strconv.FormatInt(n, 10), px)
	return n
}

func latchDown(x *exec) any {
	opened := false
	left := x.once(x.integer(2), func() int64 {
		if !x.exists(x.keys[0]) {
			return 0
		}
		n, _ := x.counter(x.keys[0])
		if n > 1 {
			return x.incrBy(x.keys[0], -1)
		}
		x.del(x.keys[0])
		opened = n == 1
		return 0
	})
	if opened {
		x.publish(x.arg(1), "0")
	}
	return left
}

func latchReset(x *exec) any {
	opened := false
	done := x.once(x.integer(2), func() int64 {
		x.counter(x.keys[0])
		opened = x.del(x.keys[0])
		return flag(opened)
	})
	if opened {
		x.publish(x.arg(1), "1")
	}
	return done
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// setOnce gives a counter its first value.
func setOnce(x *exec, channel, told string) any {
	set := false
	done := x.once(x.integer(3), func() int64 {
		if _, there := x.get(x.keys[0]); there {
			return 0
		}
		set = true
		x.set(x.keys[0], x.arg(1), 0)
		return 1
	})
	if set {
		x.publish(channel, told)
	}
	return done
}

func latchSet(x *exec) any     { return setOnce(x, x.arg(2), "1") }
func semaphoreSet(x *exec) any { return setOnce(x, x.arg(2), x.arg(1)) }

const most = 1<<31 - 1 // Redisson counts with Java's int

// give adds permits and publishes how many are free. If the semaphore must exist and does not, it does
// nothing. If there would be more than most, it returns tooMany.
func give(x *exec, mustExist bool, tooMany int64) any {
	n, told, free := x.integer(1), false, int64(0)
	done := x.once(x.integer(3), func() int64 {
		var there bool
		free, there = x.counter(x.keys[0])
		switch {
		case mustExist && !there:
			return 0
		case free+n > most:
			return tooMany
		}
		if n != 0 || !mustExist {
			free = x.incrBy(x.keys[0], n)
		}
		told = n > 0
		return 1
	})
	if told {
		x.publish(x.arg(2), strconv.FormatInt(free, 10))
	}
	return done
}

func semaphoreAdd(x *exec) any     { return give(x, false, 0) }
func semaphoreRelease(x *exec) any { return give(x, true, -1) }

func semaphoreTake(x *exec) any {
	free, _ := x.counter(x.keys[0])
	taken := x.once(x.integer(2), func() int64 {
		wanted := max(free, 0)
		if x.arg(1) != "all" {
			wanted = x.integer(1)
		}
		if wanted == 0 || free < wanted {
			return 0
		}
		free = x.incrBy(x.keys[0], -wanted)
		return wanted
	})
	return ints(taken, free)
}

func semaphoreUndo(x *exec) any {
	taken := int64(0)
	if value, ok := x.get(x.keys[1]); ok {
		taken = integer(value)
	}
	there := false
	if taken != 0 {
		_, there = x.counter(x.keys[0])
	}
	x.set(x.keys[1], "0", x.integer(2))
	if there {
		x.publish(x.arg(1), strconv.FormatInt(x.incrBy(x.keys[0], taken), 10))
	}
	return taken
}

// checkSemaphore refuses keys with a value of another type.
func checkSemaphore(x *exec) {
	x.counter(x.keys[0])
	if len(x.keys) > 2 {
		x.entryOf(x.keys[2], zset)
	}
}

func semaphoreDelete(x *exec) any {
	return x.once(x.integer(1), func() int64 {
		checkSemaphore(x)
		there := x.del(x.keys[0])
		if len(x.keys) > 2 {
			there = x.del(x.keys[2]) || there
		}
		return flag(there)
	})
}

func semaphoreExpire(x *exec) any {
	ms := x.integer(1)
	return x.once(x.integer(2), func() int64 {
		checkSemaphore(x)
		if !x.pexpire(x.keys[0], ms) {
			return 0
		}
		if len(x.keys) > 2 {
			x.pexpire(x.keys[2], ms)
		}
		return 1
	})
}

func semaphoreTTL(x *exec) any {
	x.counter(x.keys[0])
	return x.pttl(x.keys[0])
}

func keyTTL(x *exec) any { return x.pttl(x.keys[0]) }

// ids returns the names of a hold's permits: 12 bytes, and their numbers from 1.
func ids(bytes string, n int64) (out []string) {
	for i := int64(1); i <= n; i++ {
		out = append(out, bytes+string([]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	return out
}

func idsOf(permits string) []string { return ids(permits[:12], integer(permits[12:])) }

func permitTake(x *exec) any {
	key, taken := x.keys[0], x.keys[1]
	free, _ := x.counter(key)
	wanted, ok := x.number(2)
	if !ok {
		panic(refusal("ERR wheellock: permit_take needs a number of permits"))
	}
	deadline, _ := x.number(4)
	now, _ := x.number(5)
	now, deadline = x.onServerClock(now, deadline)
	back := int64(0)
	for _, owed := range x.argsFrom(8) {
		for _, id := range idsOf(owed) {
			back += flag(x.zrem(taken, id))
		}
	}
	var over []string
	if e := x.entryOf(taken, zset); e != nil {
		for _, p := range e.pairs {
			if p.score <= now && len(over) < 1000 {
				over = append(over, p.name)
			}
		}
	}
	for _, id := range over {
		back += flag(x.zrem(taken, id))
	}
	if back > 0 {
		free = x.incrBy(key, back)
	}
	mine, n := int64(0), int64(wanted)
	for _, id := range ids(x.arg(1), n) {
		_, there := x.zscore(taken, id)
		mine += flag(there)
	}
	if mine == 0 {
		if x.arg(3) == "1" {
			n = min(n, free)
		}
		if n > 0 && free >= n {
			mine, free = n, x.incrBy(key, -n)
			for _, id := range ids(x.arg(1), n) {
				x.zadd(taken, id, deadline)
			}
			if ttl := x.pttl(key); ttl > 0 {
				x.pexpire(taken, ttl)
			}
		}
	}
	if back > 0 && free > 0 {
		x.publish(x.arg(6), strconv.FormatInt(free, 10))
	}
	left := int64(-1)
	if e := x.entryOf(taken, zset); e != nil && e.pairs[0].score < 922337203685477 {
		left = int64(max(e.pairs[0].score-now, 0))
	}
	return ints(mine, free, left)
}

func permitRelease(x *exec) any {
	key, taken := x.keys[0], x.keys[1]
	x.counter(key)
	if x.isOther(taken, zset) {
		return int64(-1)
	}
	of, back := idsOf(x.arg(1)), int64(0)
	for _, id := range of {
		back += flag(x.zrem(taken, id))
	}
	if back > 0 {
		x.publish(x.arg(2), strconv.FormatInt(x.incrBy(key, back), 10))
	}
	if back == int64(len(of)) {
		return int64(1)
	}
	return int64(-1)
}

// allThere reports whether a hold has all its permits.
func (x *exec) allThere(key, permits string) bool {
	if x.isOther(key, zset) {
		return false
	}
	for _, id := range idsOf(permits) {
		if _, there := x.zscore(key, id); !there {
			return false
		}
	}
	return true
}

// prolong moves the deadlines of a hold's permits, never to an earlier time.
func (x *exec) prolong(key, permits string, deadline float64) {
	for _, id := range idsOf(permits) {
		if score, _ := x.zscore(key, id); score < deadline {
			x.zadd(key, id, deadline)
		}
	}
}

func permitExtend(x *exec) any {
	deadline, _ := x.number(2)
	now, _ := x.number(3)
	_, deadline = x.onServerClock(now, deadline)
	if !x.allThere(x.keys[0], x.arg(1)) {
		return int64(0)
	}
	x.prolong(x.keys[0], x.arg(1), deadline)
	return int64(1)
}

func permitRenew(x *exec) any {
	deadline, ok := x.number(1)
	now, ok2 := x.number(2)
	if !ok || deadline < 1 || !ok2 {
		panic(refusal("ERR wheellock: permit_renew needs a deadline and a time"))
	}
	_, deadline = x.onServerClock(now, deadline)
	gone := ints()
	for i, key := range x.keys {
		if permits := x.arg(i + 3); x.allThere(key, permits) {
			x.prolong(key, permits, deadline)
		} else {
			gone = append(gone, int64(i+1))
		}
	}
	return gone
}

func permitSet(x *exec) any {
	free, more := int64(0), int64(0)
	wanted := x.integer(1)
	done := x.once(x.integer(3), func() int64 {
		free, _ = x.counter(x.keys[0])
		out := 0
		if e := x.entryOf(x.keys[2], zset); e != nil {
			out = len(e.pairs)
		}
		more = wanted - free - int64(out)
		free = x.incrBy(x.keys[0], more)
		return 1
	})
	if more > 0 {
		x.publish(x.arg(2), strconv.FormatInt(free, 10))
	}
	return done
}

// find returns the member of an id in hexadecimal digits: its bytes or, from an older version, the
// digits.
func (x *exec) find(key, id string) (member string, deadline float64, there bool) {
	bytes, err := hex.DecodeString(id)
	if err == nil {
		if deadline, there = x.zscore(key, string(bytes)); there {
			return string(bytes), deadline, true
		}
	}
	deadline, there = x.zscore(key, id)
	return id, deadline, there
}

func permitDeadline(x *exec) any {
	_, deadline, there := x.find(x.keys[0], x.arg(1))
	if !there {
		return nil
	}
	return strconv.FormatFloat(deadline, 'f', -1, 64)
}

func permitSetLease(x *exec) any {
	deadline, _ := x.number(2)
	now, _ := x.number(3)
	now, deadline = x.onServerClock(now, deadline)
	return x.once(x.integer(4), func() int64 {
		member, until, there := x.find(x.keys[0], x.arg(1))
		if !there || until <= now {
			return 0
		}
		x.zadd(x.keys[0], member, deadline)
		return 1
	})
}

func permitInspect(x *exec) any {
	free, exists := x.counter(x.keys[0])
	now, _ := x.number(1)
	over, taken := int64(0), int64(0)
	if e := x.entryOf(x.keys[1], zset); e != nil {
		for _, p := range e.pairs {
			if p.score <= now {
				over++
			} else {
				taken++
			}
		}
	}
	return ints(flag(exists), free+over, taken)
}

func permitFree(x *exec) any {
	key, result, taken := x.keys[0], x.keys[1], x.keys[2]
	now, _ := x.number(2)
	now, _ = x.onServerClock(now, now)
	done, ok := x.get(result)
	if !ok {
		x.counter(key)
		var members, gone []string
		for i := 0; i < len(x.arg(1))/32; i++ {
			member, deadline, there := x.find(taken, x.arg(1)[32*i:32*i+32])
			if there && deadline > now {
				members = append(members, member)
			} else {
				gone = append(gone, strconv.Itoa(i+1))
			}
		}
		done = strings.Join(gone, " ")
		if len(gone) == 0 {
			done = "done"
			for _, member := range members {
				x.zrem(taken, member)
			}
			x.publish(x.arg(3), strconv.FormatInt(x.incrBy(key, int64(len(members))), 10))
		}
		x.set(result, done, x.integer(4))
	}
	if done == "done" {
		return int64(1)
	}
	out := ints()
	for _, i := range strings.Fields(done) {
		out = append(out, integer(i))
	}
	return out
}
