package wire

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// MaxInspected is how many fields inspect answers at most.
const MaxInspected = 1024

// Inspect asks for the content of a lock's key.
func Inspect(name string) Call { return Call{Script: script.Inspect, Keys: 1, Args: resp.ArgsOf(name)} }

// KeyTTL asks how long a lock's key still lives.
func KeyTTL(name string) Call { return Call{Script: script.TTL, Keys: 1, Args: resp.ArgsOf(name)} }

// ReadKeyTTL reads the answer of ttl: 0 if there is no key, -1 if it never expires.
func ReadKeyTTL(reply resp.Reply) (ttl time.Duration, ok bool) {
	pttl, ok := reply.Number()
	if !ok || pttl < -2 {
		return 0, false
	}
	if pttl == -2 {
		return 0, true
	}
	return TTL(pttl), true
}

// Key is the content of a lock's key.
type Key struct {
	There   bool
	TTL     time.Duration // -1 if it never expires
	Foreign bool          // it is a string with a TTL, the lock of another library
	Fields  []Field       // of a hash, in Redis' order
	More    bool          // there may be more: these were drawn at random
}

// Field is a field of a hash.
type Field struct{ Name, Value string }

// Holders returns the names of the fields, without the field for the mode of a RWMutex.
func (k Key) Holders() []string {
	var names []string
	for _, f := range k.Fields {
		if f.Name != "mode" {
			names = append(names, f.Name)
		}
	}
	return names
}

// ReadKey reads the answer of inspect.
func ReadKey(reply any) (k Key, ok bool) {
	values, ok := reply.([]any)
	if !ok || len(values) == 0 {
		return k, false
	}
	pttl, ok := values[0].(int64)
	switch {
	case ok && pttl >= 0 && len(values) == 2:
		return Key{There: true, Foreign: true, TTL: TTL(pttl)}, true
	case !ok || len(values)%2 == 0:
		return k, false
	case pttl == -2 || len(values) == 1:
		return k, true
	}
	k = Key{There: true, TTL: TTL(pttl), Fields: make([]Field, 0, len(values)/2), More: len(values) > 2*MaxInspected}
	for i := 1; i < len(values); i += 2 {
		name, err1 := redis.String(values[i], nil)
		value, err2 := redis.String(values[i+1], nil)
		if err1 != nil || err2 != nil {
			return Key{}, false
		}
		k.Fields = append(k.Fields, Field{name, value})
	}
	return k, true
}

// Uptime asks how long the server of a lock has been up, and whether it was ever a replica.
func Uptime(name string) Call { return Call{Script: script.Uptime, Keys: 1, Args: resp.ArgsOf(name)} }

// State is the role of a server.
type State int64

const (
	Heir    State = 1 // a master that was a replica, or has loaded the file of another run
	Replica State = 2
)

// UptimeAnswer is the answer of uptime.
type UptimeAnswer struct {
	Up          time.Duration // in whole seconds
	Server      string        // the run id
	Replication string        // the replication id
	State       State
}

// ReadUptime reads the answer of uptime.
func ReadUptime(reply any) (u UptimeAnswer, ok bool) {
	values, ok := reply.([]any)
	if !ok || len(values) != 4 {
		return u, false
	}
	seconds, ok1 := values[0].(int64)
	state, ok2 := values[3].(int64)
	id, err1 := redis.String(values[1], nil)
	replication, err2 := redis.String(values[2], nil)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return u, false
	}
	return UptimeAnswer{Up: time.Duration(seconds) * time.Second, Server: id, Replication: replication, State: State(state)}, true
}
