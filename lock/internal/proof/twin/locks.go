package twin

import (
	"regexp"
	"slices"
	"strings"
)

// scripts are the twins of the Lua files, by name: slow and obvious versions of
// what the first lines of these files promise.
var scripts = map[string]func(*exec) any{
	"acquire":           acquire,
	"reenter":           reenter,
	"handoff":           handoff,
	"release":           release,
	"renew":             renew,
	"guard":             guard,
	"force":             force,
	"inspect":           inspect,
	"token":             token,
	"count":             count,
	"ttl":               keyTTL,
	"latch_down":        latchDown,
	"latch_reset":       latchReset,
	"latch_set":         latchSet,
	"semaphore_set":     semaphoreSet,
	"semaphore_add":     semaphoreAdd,
	"semaphore_release": semaphoreRelease,
	"semaphore_take":    semaphoreTake,
	"semaphore_undo":    semaphoreUndo,
	"semaphore_delete":  semaphoreDelete,
	"semaphore_expire":  semaphoreExpire,
	"permit_take":       permitTake,
	"permit_release":    permitRelease,
	"permit_extend":     permitExtend,
	"permit_renew":      permitRenew,
	"permit_set":        permitSet,
	"permit_deadline":   permitDeadline,
	"permit_set_lease":  permitSetLease,
	"permit_inspect":    permitInspect,
	"permit_free":       permitFree,
	"fair_take":         fairTake,
	"fair_sign":         fairSign,
	"fair_release":      fairRelease,
	"fair_force":        fairForce,
	"rw_read":           rwRead,
	"rw_write":          rwWrite,
	"rw_read_reenter":   rwReadReenter,
	"rw_read_release":   rwReadRelease,
	"rw_write_release":  rwWriteRelease,
	"rw_withdraw":       rwWithdraw,
	"rw_renew":          rwRenew,
	"rw_force":          rwForce,
	"semaphore_ttl":     semaphoreTTL,
}

func ints(values ...int64) []any {
	out := []any{}
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

// foreign returns the answer to a caller that finds a lock of another library, which is a text with a TTL.
// Anything else that is no hash is an error.
func (x *exec) foreign(key string) []any {
	e := x.s.entryAt(key, x.now)
	switch {
	case e == nil || e.kind == hash:
		return nil
	case e.kind == text && e.end != 0:
		return ints(0, e.end-x.now, 1)
	}
	panic(wrongType)
}

// distinct returns the fields that are in the hash, each once.
func (x *exec) distinct(key string, fields []string) (there []string) {
	for _, f := range fields {
		if x.hasField(key, f) && !slices.Contains(there, f) {
			there = append(there, f)
		}
	}
	return there
}

// isRedissons matches the field of a mutex that Redisson holds: its client and its thread.
var isRedissons = regexp.MustCompile(`^[^:]+:-?[0-9]+$`)

func acquire(x *exec) any {
	key, field, lease := x.keys[0], x.arg(1), x.lease(2)
	floor := x.least(3)
	if other := x.foreign(key); other != nil {
		return other
	}
	mine, owed := x.hasField(key, field), x.distinct(key, x.argsFrom(6))
	if !mine && x.hlen(key) > len(owed) {
		for _, f := range owed {
			x.hdel(key, f)
		}
		if len(x.keys) > 2 {
			if left, again := x.pttl(x.keys[2]), x.integer(5)+25; left < 0 || left > again {
				x.set(x.keys[2], "1", again)
			}
		}
		if e := x.entryOf(key, hash); len(e.pairs) == 1 && isRedissons.MatchString(e.pairs[0].name) {
			return ints(0, x.pttl(key), 2)
		}
		return ints(0, x.pttl(key))
	}
	token := ints(0)
	if len(x.keys) > 1 {
		token = x.tokens(x.keys[1], floor, 4)
	}
	x.hset(key, field, "1")
	for _, f := range owed {
		x.hdel(key, f)
	}
	if !mine {
		x.pexpire(key, lease)
	}
	x.extendTTL(key, lease)
	return append(ints(1), token...)
}

func reenter(x *exec) any {
	key, field, lease := x.keys[0], x.arg(1), x.lease(3)
	if !x.hasField(key, field) {
		return int64(0)
	}
	x.hset(key, field, x.arg(2))
	x.lengthenTTL(key, lease)
	return int64(1)
}

// lengthenTTL is extendTTL, but leaves a key without TTL as it is.
func (x *exec) lengthenTTL(key string, ms int64) {
	if x.pttl(key) != -1 {
		x.extendTTL(key, ms)
	}
}

func handoff(x *exec) any {
	key, old, field, lease := x.keys[0], x.arg(1), x.arg(2), x.lease(3)
	floor := x.least(4)
	repeated := x.hasField(key, field)
	if !repeated && !x.hasField(key, old) {
		return ints(0, x.pttl(key))
	}
	if channel := x.arg(6); channel != "" && !repeated {
		if len(x.keys) > 1 {
			x.lastToken(x.keys[1]) // refuses a bad counter
		}
		told, wait := x.publish(channel, "0"), int64(0)
		if len(x.keys) > 2 {
			wait = x.pttl(x.keys[2])
		}
		if wait < 0 || wait > x.integer(9)+25 {
			wait = 0
		}
		if told > x.integer(7) || wait > 0 || x.arg(10) == "1" {
			x.hdel(key, old)
			return ints(2, told, wait)
		}
	}
	token := ints(0)
	if len(x.keys) > 1 {
		token = x.tokens(x.keys[1], floor, 5)
	}
	if repeated {
		x.extendTTL(key, lease)
		return append(ints(1), token...)
	}
	x.hset(key, field, "1")
	x.hdel(key, old)
	x.pexpire(key, lease)
	return append(ints(1), token...)
}

func release(x *exec) any {
	key, field := x.keys[0], x.arg(1)
	if !x.hasField(key, field) {
		return int64(-1)
	}
	x.hdel(key, field)
	if x.exists(key) {
		return int64(1)
	}
	return 1 + x.publish(x.arg(2), "0")
}

func renew(x *exec) any {
	lease := x.lease(1)
	if len(x.args) != len(x.keys)+2 {
		panic(refusal("ERR wheellock: it needs a field for each key"))
	}
	gone := ints()
	for i, key := range x.keys {
		if x.hasField(key, x.arg(2)+x.arg(i+3)) {
			x.extendTTL(key, lease)
		} else {
			gone = append(gone, int64(i+1))
		}
	}
	return gone
}

// guard knows a few commands with one key. These are enough to show that a command runs if the lock is
// held, and only then.
func guard(x *exec) any {
	if !x.hasField(x.keys[0], x.arg(1)) || x.keys[1] != x.keys[0] && !x.exists(x.keys[1]) {
		return ints(0)
	}
	key := x.keys[2]
	switch strings.ToLower(x.arg(2)) {
	case "set":
		x.set(key, x.arg(3), 0)
		return []any{int64(1), "OK"}
	case "get":
		if value, ok := x.get(key); ok {
			return []any{int64(1), value}
		}
		return []any{int64(1), nil}
	case "incrby":
		// Lua has no integers, so a number above 2^53 is rounded.
		return []any{int64(1), int64(float64(x.incrBy(key, x.integer(3))))}
	case "rpush":
		e := x.entryOrNew(key, list)
		e.pairs = append(e.pairs, pair{name: x.arg(3)})
		return []any{int64(1), int64(len(e.pairs))}
	}
	panic(refusal("ERR Unknown Redis command called from script"))
}

// notLock reports whether a hash is no lock. The fields of a lock end in a number, and its values are
// counts.
func notLock(fields []pair) bool {
	return slices.ContainsFunc(fields, func(p pair) bool {
		if p.name == "mode" && (p.value == "read" || p.value == "write") {
			return false
		}
		return !isOwner.MatchString(p.name) || !isCount.MatchString(p.value)
	})
}

// known returns the fields that a force reads. If there are many, it reads only the fields that it
// deletes.
func (x *exec) known(pairs []pair, named []string) (out []pair) {
	if len(pairs) <= few {
		return pairs
	}
	for _, f := range named {
		p := pair{name: f, value: "1"}
		if i := slices.IndexFunc(pairs, func(p pair) bool { return p.name == f }); i >= 0 {
			p = pairs[i]
		}
		out = append(out, p)
	}
	return out
}

func force(x *exec) any {
	key, channel := x.keys[0], x.arg(1)
	e := x.entryOf(key, hash)
	switch {
	case e == nil:
		return int64(0)
	case notLock(x.known(e.pairs, x.argsFrom(3))):
		return int64(-1)
	}
	modeAlone := len(e.pairs) == 1 && e.pairs[0].name == "mode"
	gone := x.distinct(key, x.argsFrom(3))
	if len(gone) == 0 && !modeAlone {
		return int64(-2)
	}
	for _, f := range gone {
		x.hdel(key, f)
	}
	if n := x.hlen(key); n == 0 || n == 1 && x.hasField(key, "mode") {
		x.del(key)
		x.publish(channel, "0")
	}
	return int64(1)
}

func inspect(x *exec) any {
	key := x.keys[0]
	if other := x.foreign(key); other != nil {
		return other[1:]
	}
	out := ints(x.pttl(key))
	if e := x.entryOf(key, hash); e != nil {
		for _, p := range e.pairs {
			out = append(out, p.name, p.value)
		}
	}
	return out
}

func token(x *exec) any {
	floor := x.least(1)
	return x.token(x.keys[0], floor)
}
