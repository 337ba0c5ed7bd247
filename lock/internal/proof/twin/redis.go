package twin

import (
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/script"
)

// Redis is a server that carries out this project's scripts, by their twins, at the times
// that its caller passes. It is a value, so a copy is independent. It is not safe for concurrent use.
type Redis struct {
	s *server
}

// Message is a message that a script has published.
type Message struct{ Channel, Text string }

// Refusal is an error reply.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// Run carries out a script at the time now by the server's clock. The first keys of args are keys. The
// script is not carried out after last, unless last is zero. hear returns how many subscribers a channel
// has. leaving says that the slot of the keys is moving to another server of a Cluster, key by key. Then a
// key that is not named in args and is not here may be at the other server, and that ends the script. The
// reply is nil, an int64, a []byte or a []any, as a client reads it from a real server. The error is a
// Refusal, or says that there are fewer args than keys.
func (r *Redis) Run(now time.Time, s *script.Script, keys int, args []any, last time.Time, leaving bool, hear func(channel string) int64) (reply any, told []Message, err error) {
	if keys > len(args) {
		return nil, nil, errors.New("twin: fewer arguments than keys")
	}
	c := call{script: s, isSlotLeaving: leaving}
	for i, a := range args {
		if i < keys {
			c.keys = append(c.keys, argument(a))
		} else {
			c.args = append(c.args, argument(a))
		}
	}
	if !last.IsZero() {
		c.notAfter = last.UnixMilli()
	}
	if r.s == nil {
		r.s = &server{}
	}
	after, answer, messages := run(r.s, now.UnixMilli(), c, hear)
	r.s = after
	for _, m := range messages {
		told = append(told, Message{m.channel, m.text})
	}
	if no, ok := answer.(refusal); ok {
		return nil, told, Refusal(no)
	}
	return received(answer), told, nil
}

// argument returns the text of an argument as a server gets it.
func argument(a any) string {
	if b, ok := a.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(a)
}

// received returns an answer as a client reads it.
func received(answer any) any {
	switch v := answer.(type) {
	case string:
		return []byte(v)
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = received(e)
		}
		return all
	}
	return answer
}

// Delete deletes a key, and reports whether it was there.
func (r *Redis) Delete(now time.Time, key string) bool {
	if r.s == nil {
		return false
	}
	x := &exec{s: r.s.clone(now.UnixMilli()), now: now.UnixMilli()}
	there := x.del(key)
	r.s = x.s
	return there
}

// Carry moves all keys for which has returns true to another server, with their values and the rest
// of their TTLs. there is the present time by the other server's clock.
func (r *Redis) Carry(now time.Time, to *Redis, there time.Time, has func(key string) bool) {
	if r.s == nil {
		return
	}
	if to.s == nil {
		to.s = &server{}
	}
	stay, move := &server{}, to.s.clone(there.UnixMilli())
	for _, e := range r.s.clone(now.UnixMilli()).entries {
		if !has(e.key) {
			stay.entries = append(stay.entries, e)
			continue
		}
		if e.end != 0 {
			e.end += there.UnixMilli() - now.UnixMilli()
		}
		x := &exec{s: move, now: there.UnixMilli()}
		x.del(e.key)
		*x.entryOrNew(e.key, e.kind) = e
	}
	r.s, to.s = stay, move
}

// SetText sets a key to a text without a TTL.
func (r *Redis) SetText(now time.Time, key, value string) {
	if r.s == nil {
		r.s = &server{}
	}
	x := &exec{s: r.s.clone(now.UnixMilli()), now: now.UnixMilli()}
	x.del(key)
	x.set(key, value, 0)
	r.s = x.s
}

// SetNew sets a key to a text with a TTL, unless the key exists. It reports whether it did. Libraries
// without owners take a lock in this way.
func (r *Redis) SetNew(now time.Time, key, value string, end time.Duration) bool {
	if r.Exists(now, key) {
		return false
	}
	r.SetText(now, key, value)
	(&exec{s: r.s, now: now.UnixMilli()}).pexpire(key, end.Milliseconds())
	return true
}

// Enter takes a lock as a client of Redisson does: it makes a hash with a field and a TTL. It returns 0, or
// the TTL of the lock that another client holds.
func (r *Redis) Enter(now time.Time, key, field string, lease time.Duration) time.Duration {
	if r.s == nil {
		r.s = &server{}
	}
	x := &exec{s: r.s.clone(now.UnixMilli()), now: now.UnixMilli()}
	if x.exists(key) {
		return max(1, time.Duration(x.pttl(key))) * time.Millisecond
	}
	x.hset(key, field, "1")
	x.pexpire(key, lease.Milliseconds())
	r.s = x.s
	return 0
}

// Leave releases a lock that Enter took, and reports whether the lock still had the field. It publishes
// nothing; the caller does.
func (r *Redis) Leave(now time.Time, key, field string) bool {
	if e := r.at(now, key); e == nil || e.find(field) < 0 {
		return false
	}
	return r.Delete(now, key)
}

// Text returns the text of a key, or "" if there is none.
func (r *Redis) Text(now time.Time, key string) string {
	if e := r.at(now, key); e != nil {
		return e.text
	}
	return ""
}

// Fields returns the fields of a hash, the members of a sorted set or the elements of a list, in their
// order, and the TTL of the key. The TTL is negative if the key has none or does not exist.
func (r *Redis) Fields(now time.Time, key string) (fields []string, ttl time.Duration) {
	e := r.at(now, key)
	if e == nil {
		return nil, -1
	}
	for _, p := range e.pairs {
		fields = append(fields, p.name)
	}
	if e.end == 0 {
		return fields, -1
	}
	return fields, time.Duration(e.end-now.UnixMilli()) * time.Millisecond
}

// Keys returns all keys, by name.
func (r *Redis) Keys(now time.Time) (names []string) {
	if r.s == nil {
		return nil
	}
	for _, e := range r.s.clone(now.UnixMilli()).entries {
		names = append(names, e.key)
	}
	return names
}

// Exists reports whether there is such a key.
func (r *Redis) Exists(now time.Time, key string) bool { return r.at(now, key) != nil }

// Score returns the score of a member of a sorted set, or 0 if it has none.
func (r *Redis) Score(now time.Time, key, member string) float64 {
	if e := r.at(now, key); e != nil {
		if i := e.find(member); i >= 0 {
			return e.pairs[i].score
		}
	}
	return 0
}

func (r *Redis) at(now time.Time, key string) *entry {
	if r.s == nil {
		return nil
	}
	return r.s.entryAt(key, now.UnixMilli())
}

// String shows all keys with their values.
func (r *Redis) String() string {
	if r.s == nil {
		return ""
	}
	return r.s.String()
}
