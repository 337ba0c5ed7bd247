package twin

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// rw is a read-write lock as the scripts know it.
type rw struct {
	*exec
	key, writers, channel, prefix string

	seen, looked int  // fields and timeouts that were drawn
	buried       bool // some of them were dead
}

const (
	few     = 32 // if there are no more fields, the scripts look at all of them
	atATime = 16 // otherwise they draw this number of fields at a time
	inAll   = 1024
	looks   = 4096 // timeouts
)

func (x *rw) timeout(field string, n int) string {
	return x.prefix + ":" + field + ":rwlock_timeout:" + strconv.Itoa(n)
}

const endless = math.MaxInt64

// timeoutsOf returns how many timeouts a reader with that count may have.
func timeoutsOf(count string) int {
	if !isEntries.MatchString(count) {
		return 0
	}
	n, _ := strconv.Atoi(count)
	return n
}

func (x *rw) crowded(gone []string) bool { return x.hlen(x.key) > 1+few+len(gone) }

// lives reports whether a field of a crowd may be the field of a hold.
func (x *rw) lives(p pair) bool {
	if strings.HasSuffix(p.name, ":write") || !isOwner.MatchString(p.name) || !isEntries.MatchString(p.value) || x.looked+timeoutsOf(p.value) > looks {
		return true
	}
	x.looked += timeoutsOf(p.value)
	for i := 1; i <= timeoutsOf(p.value); i++ {
		if x.exists(x.timeout(p.name, i)) {
			return true
		}
	}
	return false
}

// bury removes dead fields of a crowd as long as all fields that it draws are dead. A real server
// draws at random. The test replaces that, so that the server also draws the first fields.
func (x *rw) bury(gone []string) {
	mode, _ := x.hget(x.key, "mode")
	for x.seen < inAll && (mode == "read" || mode == "write") && x.crowded(gone) {
		x.seen += atATime
		for _, p := range slices.Clone(x.entryOf(x.key, hash).pairs[:atATime]) {
			switch {
			case p.name == "mode" || slices.Contains(gone, p.name):
			case x.lives(p):
				x.seen = inAll
			default:
				x.hdel(x.key, p.name)
				x.buried = true
			}
		}
	}
}

// rest describes the lock as it will be without the fields gone: its mode, whether it has a writer, and
// the longest time of a reader, which is endless if it is not known.
func (x *rw) rest(gone []string) (mode string, writing bool, longest int64) {
	x.bury(gone)
	e := x.entryOf(x.key, hash)
	if e == nil {
		return "", false, 0
	}
	if x.crowded(gone) {
		mode, _ = x.hget(x.key, "mode")
		writing = mode == "write" && !slices.ContainsFunc(gone, func(f string) bool { return strings.HasSuffix(f, ":write") && x.hasField(x.key, f) })
		return mode, writing, endless
	}
	sum := 0
	for _, p := range e.pairs {
		switch {
		case p.name == "mode":
			mode = p.value
		case slices.Contains(gone, p.name):
		case strings.HasSuffix(p.name, ":write"):
			writing = true
		default:
			sum += timeoutsOf(p.value)
		}
	}
	if sum > looks {
		return mode, writing, endless
	}
	for _, p := range e.pairs {
		if p.name == "mode" || strings.HasSuffix(p.name, ":write") || slices.Contains(gone, p.name) {
			continue
		}
		for i := 1; i <= timeoutsOf(p.value); i++ {
			left := x.pttl(x.timeout(p.name, i))
			if left == -1 {
				left = endless
			}
			longest = max(longest, left)
		}
	}
	return mode, writing, longest
}

// thinned reports whether the script has looked for dead fields because it refuses its caller.
func (x *rw) thinned() bool {
	if !x.crowded(nil) {
		return false
	}
	mode, writing, longest := x.rest(nil)
	x.applyRest(mode, writing, longest, "")
	return true
}

// applyRest gives the lock the mode and the TTL that rest has found, after the fields were removed. It
// publishes word, or the message of the mode if word is empty, and returns how many subscribers got it.
func (x *rw) applyRest(mode string, writing bool, longest int64, word string) int64 {
	if writing || mode != "read" && mode != "write" {
		return 0
	}
	switch longest {
	case 0:
		x.del(x.key)
	case endless:
	default:
		x.pexpire(x.key, longest)
	}
	if mode == "write" {
		if longest > 0 {
			x.hset(x.key, "mode", "read")
		}
		x.del(x.writers)
	} else if longest > 0 {
		return 0
	}
	if word == "" {
		word = "0"
		if mode == "write" {
			word = "1"
		}
	}
	return x.publish(x.channel, word)
}

// clean removes fields that are owed, and a writer's mode without a writer. It
// returns the mode that the lock has then, "" if there is none.
func (x *rw) clean(owed []string) string {
	mode, _ := x.hget(x.key, "mode")
	if len(owed) > 0 || mode == "write" {
		was, writing, longest := x.rest(owed)
		gone := x.distinct(x.key, owed)
		for _, f := range gone {
			x.hdel(x.key, f)
		}
		for _, f := range owed {
			x.del(x.timeout(f, 1))
		}
		if len(gone) > 0 || x.buried || was == "write" && !writing {
			x.applyRest(was, writing, longest, "")
		}
		mode, _ = x.hget(x.key, "mode")
	}
	if (mode == "read" || mode == "write") && x.hlen(x.key) == 1 {
		x.del(x.key)
		mode = ""
	}
	return mode
}

// keepsOut returns the answer to a reader that may not read now, or nil if it may.
func (x *rw) keepsOut(mode, writer string) []any {
	switch {
	case mode == "write":
		if writer == "" || !x.hasField(x.key, writer) {
			return ints(0, x.pttl(x.key))
		}
	case mode != "read" && x.exists(x.key): // another kind of lock
		return ints(0, x.pttl(x.key))
	case x.arg(4) == "1" && x.exists(x.writers):
		return ints(0, x.pttl(x.writers))
	}
	return nil
}

func rwRead(e *exec) any {
	x := &rw{exec: e, key: e.keys[0], writers: e.keys[2], channel: e.arg(6), prefix: e.arg(5)}
	field, lease, writer := x.arg(1), x.lease(2), x.arg(3)
	if other := x.foreign(x.key); other != nil {
		return other
	}
	mode := x.clean(x.argsFrom(8))
	if !x.hasField(x.key, field) {
		refused := x.keepsOut(mode, writer)
		if refused != nil && x.thinned() {
			mode, _ = x.hget(x.key, "mode")
			refused = x.keepsOut(mode, writer)
		}
		if refused != nil {
			return refused
		}
	}
	if mode == "" {
		x.hset(x.key, "mode", "read")
	}
	x.hset(x.key, field, "1")
	x.extendTTL(x.key, lease)
	if x.pttl(x.keys[1]) < lease {
		x.set(x.keys[1], "1", lease)
	}
	return ints(1, 1)
}

func rwWrite(e *exec) any {
	x := &rw{exec: e, key: e.keys[0], writers: e.keys[1], channel: e.arg(6), prefix: e.arg(5)}
	field, lease, writer := x.arg(1), x.lease(2), x.arg(3)
	if other := x.foreign(x.key); other != nil {
		return other
	}
	x.entryOf(x.writers, hash)
	x.clean(x.argsFrom(8))
	if !x.hasField(x.key, field) && x.exists(x.key) && (!x.thinned() || x.exists(x.key)) {
		if mode, _ := x.hget(x.key, "mode"); x.arg(4) != "0" && mode == "read" {
			x.hset(x.writers, writer, "1")
			x.extendTTL(x.writers, x.integer(4))
		}
		return ints(0, x.pttl(x.key))
	}
	x.hset(x.key, "mode", "write")
	x.hset(x.key, field, "1")
	x.extendTTL(x.key, lease)
	x.hdel(x.writers, writer)
	return ints(1, 1)
}

func rwReadReenter(x *exec) any {
	key, timeout, field, lease := x.keys[0], x.keys[1], x.arg(1), x.lease(3)
	if !x.hasField(key, field) || !x.exists(timeout) {
		return int64(0)
	}
	x.hset(key, field, x.arg(2))
	x.lengthenTTL(key, lease)
	x.lengthenTTL(timeout, lease)
	return int64(1)
}

func rwReadRelease(e *exec) any {
	x := &rw{exec: e, key: e.keys[0], writers: e.keys[2], channel: e.arg(2), prefix: e.arg(3)}
	timeout, field := x.keys[1], x.arg(1)
	if !x.hasField(x.key, field) {
		x.del(timeout)
		return int64(-1)
	}
	isOver := !x.exists(timeout)
	mode, writing, longest := x.rest([]string{field})
	x.hdel(x.key, field)
	x.del(timeout)
	told := x.applyRest(mode, writing, longest, "")
	if isOver {
		return int64(-1)
	}
	return 1 + told
}

func rwWriteRelease(e *exec) any {
	x := &rw{exec: e, key: e.keys[0], writers: e.keys[1], channel: e.arg(2), prefix: e.arg(3)}
	field := x.arg(1)
	if !x.hasField(x.key, field) {
		return int64(-1)
	}
	mode, writing, longest := x.rest([]string{field})
	x.hdel(x.key, field)
	return 1 + x.applyRest(mode, writing, longest, "")
}

func rwWithdraw(x *exec) any {
	if !x.hdel(x.keys[0], x.arg(1)) {
		return int64(0)
	}
	if !x.exists(x.keys[0]) {
		x.publish(x.arg(2), "1")
	}
	return int64(1)
}

func rwRenew(x *exec) any {
	lease, gone := x.lease(1), ints()
	for i, key := range x.keys {
		field, prefix := x.arg(2)+x.arg(i+3), key
		if !strings.Contains(key, "{") {
			prefix = "{" + key + "}"
		}
		timeout := prefix + ":" + field + ":rwlock_timeout:1"
		if x.isAway(timeout) {
			gone = append(gone, []any{int64(i + 1), string(nonLocal)})
			continue
		}
		if !x.exists(timeout) {
			x.del(timeout)
			gone = append(gone, int64(i+1))
			continue
		}
		if !x.hasField(key, field) {
			gone = append(gone, int64(i+1))
			continue
		}
		x.extendTTL(timeout, lease)
		x.extendTTL(key, lease)
	}
	return gone
}

func rwForce(e *exec) any {
	x := &rw{exec: e, key: e.keys[0], writers: e.keys[1], channel: e.arg(1), prefix: e.arg(3)}
	h := x.entryOf(x.key, hash)
	if h == nil {
		return int64(0)
	}
	known := h.pairs
	if x.crowded(nil) {
		known = x.known(h.pairs, x.argsFrom(4))
	}
	if mode, _ := x.hget(x.key, "mode"); mode != "read" && mode != "write" || notLock(known) {
		return int64(-1)
	}
	fields := len(h.pairs)
	mode, writing, longest := x.rest(x.argsFrom(4))
	gone := x.distinct(x.key, x.argsFrom(4))
	for _, f := range gone {
		x.hdel(x.key, f)
	}
	others := len(gone) == 0 && fields > 1
	if others && !x.buried {
		return int64(-2)
	}
	if longest == 0 && !writing {
		x.del(x.writers)
	}
	x.applyRest(mode, writing, longest, "1")
	if others {
		return int64(-2)
	}
	return int64(1)
}
