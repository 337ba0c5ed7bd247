package twin

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wheellock/wheellock/lock/script"
)

// kind is the type of a value in Redis.
type kind uint8

const (
	text kind = iota + 1
	hash
	zset
	list
)

// pair is a field of a hash, or a member of a sorted set.
type pair struct {
	name  string
	value string
	score float64
}

// entry is one key with its value.
type entry struct {
	key   string
	kind  kind
	text  string
	pairs []pair // sorted by name in a hash, by score and name in a sorted set, and as they are in a list
	end   int64  // ms of the server's clock; 0: none
}

func (e *entry) find(name string) int {
	return slices.IndexFunc(e.pairs, func(p pair) bool { return p.name == name })
}

// server has the keys of a Redis. It is a value: run does not change it, but returns a new server.
type server struct {
	entries []entry // by key
}

// entryAt returns the entry of a key, or nil if the key does not exist. Redis keeps a key in the
// millisecond of its end.
func (s *server) entryAt(key string, now int64) *entry {
	for i := range s.entries {
		if e := &s.entries[i]; e.key == key {
			if e.end != 0 && now > e.end {
				return nil
			}
			return e
		}
	}
	return nil
}

// clone copies the entries that a run may change, and leaves out expired ones.
func (s *server) clone(now int64) *server {
	c := &server{entries: make([]entry, 0, len(s.entries)+2)}
	for _, e := range s.entries {
		if e.end == 0 || now <= e.end {
			e.pairs = slices.Clone(e.pairs)
			c.entries = append(c.entries, e)
		}
	}
	return c
}

// refusal is an error reply.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	wrongType  refusal = "WRONGTYPE Operation against a key holding the wrong kind of value"
	notInteger refusal = "ERR value is not an integer or out of range"
	nonLocal   refusal = "ERR Script attempted to access a non local key in a cluster node"
)

// message is one published message.
type message struct{ channel, text string }

// call is one script with its arguments. notAfter is apart from args, because
// it always comes last.
type call struct {
	script        *script.Script
	keys          []string
	args          []string
	notAfter      int64
	isSlotLeaving bool // the slot of keys is moving to another server of a Cluster, key by key
}

// run carries out one script at the time now of the server's clock. It returns the server
// after the script, the reply, and the messages. hear returns how many subscribers a channel
// has. A reply is nil, an int64, a string, a []any or a refusal.
func run(s *server, now int64, c call, hear func(channel string) int64) (after *server, reply any, published []message) {
	if isLate(c, now) {
		return s, refusal("LATE " + strconv.FormatInt(now, 10)), nil
	}
	x := &exec{
		s: s.clone(now), now: now, knowsTime: knowsTime(c), isSlotLeaving: c.isSlotLeaving, keys: c.keys, args: c.args, countSubscribers: hear,
	}
	defer func() {
		if p := recover(); p != nil {
			r, ok := p.(refusal)
			if !ok {
				panic(p)
			}
			after, reply, published = s, r, nil // a refused script changes nothing, with two exceptions
			switch {
			case x.exhausted != "": // it has removed the TTL of an exhausted counter
				after = s.clone(now)
				after.entryAt(x.exhausted, now).end = 0
			case r == nonLocal: // it has run until it met a key that is at the other server
				after, published = x.s, x.messages
			}
		}
	}()
	reply = scripts[c.script.Name()](x)
	return x.s, reply, x.messages
}

// isLate is the whole rule of requests that expire: a script that takes or changes
// something has a time of the server's clock after which it is not carried out.
// Two sorts of scripts have no such time: scripts that only read, and scripts that release a whole field,
// which is never used again.
func isLate(c call, now int64) bool { return c.notAfter != 0 && now > c.notAfter && expires(c) }

// expires reports whether a call has a time after which it is not carried out.
func expires(c call) bool { return c.script.Expires() }

// knowsTime reports whether a script knows the server's time: from the check of its limit or, if it
// compares times of day, from a question of its own.
func knowsTime(c call) bool {
	sort, _, _ := strings.Cut(c.script.Name(), "_")
	return expires(c) && (c.notAfter != 0 || sort == "permit" || sort == "fair")
}

// onServerClock converts a time and a deadline of the client's clock to the server's clock, if the
// script knows that clock.
func (x *exec) onServerClock(now, deadline float64) (float64, float64) {
	if !x.knowsTime {
		return now, deadline
	}
	return float64(x.now), deadline + float64(x.now) - now
}

// exec is a script that runs.
type exec struct {
	s                *server
	now              int64
	knowsTime        bool // see the function
	isSlotLeaving    bool // see call
	keys, args       []string
	countSubscribers func(channel string) int64 // how many subscribers a channel has
	messages         []message
	exhausted        string // the counter of tokens that has refused to mint
}

// arg returns ARGV[i], or "" if there is none.
func (x *exec) arg(i int) string {
	if i <= len(x.args) {
		return x.args[i-1]
	}
	return ""
}

// argsFrom returns ARGV[i] and those after it.
func (x *exec) argsFrom(i int) []string {
	if i > len(x.args) {
		return nil
	}
	return x.args[i-1:]
}

// number returns ARGV[i] as Lua reads a number.
func (x *exec) number(i int) (float64, bool) { return number(x.arg(i)) }

func number(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// lease returns ARGV[i], which must be at least 1.
func (x *exec) lease(i int) int64 {
	f, ok := x.number(i)
	if !ok || f < 1 {
		panic(refusal("ERR wheellock: it needs a lease of at least 1 ms"))
	}
	return int64(f)
}

func (x *exec) integer(i int) int64 { return integer(x.arg(i)) }

func integer(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(notInteger)
	}
	return n
}

// isAway reports whether a key may already be at the server to which its slot is moving. The keys
// that the call names are all here, or the call is not carried out.
func (x *exec) isAway(key string) bool {
	return x.isSlotLeaving && !slices.Contains(x.keys, key) && x.s.entryAt(key, x.now) == nil
}

// entryAt returns the entry of a key, or nil if there is none.
func (x *exec) entryAt(key string) *entry {
	if x.isAway(key) {
		panic(nonLocal)
	}
	return x.s.entryAt(key, x.now)
}

// entryOf returns the entry of a key, or nil if there is none. The entry must have that kind.
func (x *exec) entryOf(key string, k kind) *entry {
	e := x.entryAt(key)
	if e != nil && e.kind != k {
		panic(wrongType)
	}
	return e
}

// isOther reports whether a key has a value of another kind.
func (x *exec) isOther(key string, k kind) bool {
	e := x.entryAt(key)
	return e != nil && e.kind != k
}

func (x *exec) exists(key string) bool { return x.entryAt(key) != nil }

// entryOrNew returns the entry of a key. It makes the entry if there is none.
func (x *exec) entryOrNew(key string, k kind) *entry {
	if e := x.entryOf(key, k); e != nil {
		return e
	}
	i, _ := slices.BinarySearchFunc(x.s.entries, key, func(e entry, key string) int { return cmp.Compare(e.key, key) })
	x.s.entries = slices.Insert(x.s.entries, i, entry{key: key, kind: k})
	return &x.s.entries[i]
}

func (x *exec) del(key string) bool {
	x.entryAt(key) // refuses a key that may be away
	n := len(x.s.entries)
	x.s.entries = slices.DeleteFunc(x.s.entries, func(e entry) bool { return e.key == key })
	return len(x.s.entries) < n
}

func (x *exec) pttl(key string) int64 {
	switch e := x.entryAt(key); {
	case e == nil:
		return -2
	case e.end == 0:
		return -1
	default:
		return e.end - x.now
	}
}

func (x *exec) pexpire(key string, ms int64) bool {
	e := x.entryAt(key)
	switch {
	case e == nil:
		return false
	case ms <= 0:
		x.del(key)
	default:
		e.end = x.now + ms
	}
	return true
}

// extendTTL gives a key a TTL of ms, if it has less or none.
func (x *exec) extendTTL(key string, ms int64) {
	if x.pttl(key) < ms {
		x.pexpire(key, ms)
	}
}

func (x *exec) publish(channel, text string) int64 {
	x.messages = append(x.messages, message{channel, text})
	return x.countSubscribers(channel)
}

// get returns the text of a key. ok is false if there is none.
func (x *exec) get(key string) (string, bool) {
	e := x.entryOf(key, text)
	if e == nil {
		return "", false
	}
	return e.text, true
}

// set makes a key a text with a TTL, or without one if px is 0.
func (x *exec) set(key, value string, px int64) {
	x.del(key)
	e := x.entryOrNew(key, text)
	e.text = value
	if px != 0 {
		e.end = x.now + px
	}
}

// incrBy adds n to a number and keeps its TTL.
func (x *exec) incrBy(key string, n int64) int64 {
	value := int64(0)
	if old, ok := x.get(key); ok {
		value = integer(old)
		if strconv.FormatInt(value, 10) != old {
			panic(notInteger)
		}
	}
	value += n
	x.entryOrNew(key, text).text = strconv.FormatInt(value, 10)
	return value
}

func (x *exec) hget(key, field string) (string, bool) {
	if e := x.entryOf(key, hash); e != nil {
		if i := e.find(field); i >= 0 {
			return e.pairs[i].value, true
		}
	}
	return "", false
}

// hasField reports whether a key is a hash with that field.
func (x *exec) hasField(key, field string) bool {
	if x.isOther(key, hash) {
		return false
	}
	_, ok := x.hget(key, field)
	return ok
}

func (x *exec) hset(key, field, value string) {
	e := x.entryOrNew(key, hash)
	i, found := slices.BinarySearchFunc(e.pairs, field, func(p pair, name string) int { return cmp.Compare(p.name, name) })
	if found {
		e.pairs[i].value = value
		return
	}
	e.pairs = slices.Insert(e.pairs, i, pair{name: field, value: value})
}

// remove removes a field of a hash or a member of a sorted set. A key without fields is
// removed.
func (x *exec) remove(key string, k kind, name string) bool {
	e := x.entryOf(key, k)
	if e == nil {
		return false
	}
	i := e.find(name)
	if i < 0 {
		return false
	}
	e.pairs = slices.Delete(e.pairs, i, i+1)
	if len(e.pairs) == 0 {
		x.del(key)
	}
	return true
}

func (x *exec) hdel(key, field string) bool { return x.remove(key, hash, field) }
func (x *exec) zrem(key, name string) bool  { return x.remove(key, zset, name) }

func (x *exec) hlen(key string) int {
	if e := x.entryOf(key, hash); e != nil {
		return len(e.pairs)
	}
	return 0
}

func (x *exec) zscore(key, name string) (float64, bool) {
	if e := x.entryOf(key, zset); e != nil {
		if i := e.find(name); i >= 0 {
			return e.pairs[i].score, true
		}
	}
	return 0, false
}

func (x *exec) zadd(key, name string, score float64) {
	e := x.entryOrNew(key, zset)
	if i := e.find(name); i >= 0 {
		e.pairs[i].score = score
	} else {
		e.pairs = append(e.pairs, pair{name: name, score: score})
	}
	slices.SortFunc(e.pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
	})
}

// counter returns the number at a key, or 0 if the key does not exist.
func (x *exec) counter(key string) (n int64, there bool) {
	value, ok := x.get(key)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	// INCRBY needs an integer, and Lua reads the number as a float.
	if err != nil || strconv.FormatInt(n, 10) != value || strconv.FormatFloat(float64(n), 'f', 0, 64) != value {
		panic(refusal("WRONGTYPE wheellock: " + key + " is no counter"))
	}
	return n, true
}

var (
	isOwner   = regexp.MustCompile(`:-?[0-9A-Za-z]+$`)
	isCount   = regexp.MustCompile(`^\d+$`)
	isEntries = regexp.MustCompile(`^\d{1,9}$`) // no owner enters a billion times
)

// least returns the least token: ARGV[i], or a token from the server's clock if the script knows
// the clock. A least token of 1 stays, because it belongs to a counter of Redisson, which uses no clock.
func (x *exec) least(i int) float64 {
	least, ok := x.number(i)
	switch {
	case !ok:
		panic(refusal("ERR wheellock: it needs a least token"))
	case least <= 1 || !x.knowsTime:
		return least
	}
	return float64(x.now/1000<<20 + x.now%1000*1000)
}

// lastToken returns the last fencing token, and whether there is one. A counter that can go no
// further is refused.
func (x *exec) lastToken(key string) (last float64, there bool) {
	value, _ := x.get(key)
	last, there = number(value)
	if there && !(last < 1<<53-2) {
		panic(refusal("ERR wheellock: the token counter " + key + " is past 2^53; set it to the seconds of TIME x 2^20, do not delete it"))
	}
	return last, there
}

// mustMint is lastToken for a script that mints at once. If the counter expired, tokens would fall. So
// minting removes the TTL of the counter, even if it is refused.
func (x *exec) mustMint(key string) (last float64, there bool) {
	x.entryOf(key, text)
	x.exhausted = key
	last, there = x.lastToken(key)
	x.exhausted = ""
	return last, there
}

// token mints a fencing token. It is one more than the last, and at least floor. If there is no last
// token, it is one more than all tokens that may have been reserved.
func (x *exec) token(key string, floor float64) int64 { return x.mint(key, floor, 0) }

// tokens mints a token, and reserves ARGV[i] more if these are not far ahead of the time.
func (x *exec) tokens(key string, floor float64, i int) []any {
	wanted, _ := x.number(i)
	more := int64(wanted)
	first := x.mint(key, floor, more)
	if more == 0 || x.isFar(first+more, floor) {
		return ints(first)
	}
	return ints(first, more)
}

// isFar reports whether a token is too far ahead of the time to be reserved.
func (x *exec) isFar(token int64, floor float64) bool {
	return float64(token)-floor > 10485
}

func (x *exec) mint(key string, floor float64, more int64) int64 {
	token := int64(floor)
	if last, there := x.mustMint(key); there && (last >= 1<<49 || floor <= 1<<49) {
		token = max(int64(math.Floor(last))+1, token)
	} else if floor > 1 {
		token += 10486
	}
	if x.isFar(token+more, floor) {
		more = 0
	}
	x.set(key, strconv.FormatInt(token+more, 10), 0)
	return token
}

func (s *server) String() string {
	out := ""
	for _, e := range s.entries {
		out += fmt.Sprintf("%q=%d %q@%d", e.key, e.kind, e.text, e.end)
		for _, p := range e.pairs {
			out += fmt.Sprintf(" %q:%q %v", p.name, p.value, p.score)
		}
		out += "; "
	}
	return out
}
