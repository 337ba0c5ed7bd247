package diagnosis

import (
	"strings"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// Group is a set of rights, as lock/SERVERS.md has it.
type Group int

const (
	Core   Group = iota // for Mutex, MultiLock and RedLock
	Family              // for all other objects, beside Core
	groups
)

// Call is one call of a command by a script.
type Call struct {
	Group Group
	// Words has the command and its arguments. No words stand for the removal of the
	// scratch key.
	Words []string
	// Channel is where the call publishes. It has no name if the call does not publish. It has
	// a group of its own.
	Channel Key
	// Newer says that older servers do not know the command. Scripts work without it there.
	Newer bool
	// Undetermined marks a removal after commands whose answers are not deterministic. Redis 5
	// and 6 may refuse to write then, and only that counts of the answer.
	Undetermined bool
}

// Command is the command's name.
func (c Call) Command() string {
	if len(c.Words) == 0 {
		return "del"
	}
	return c.Words[0]
}

// Key is a channel, or a key that scripts use in addition to a lock's own key.
type Key struct {
	Group Group
	Name  string
}

// Names has the names of locks that are tried. Names that are derived from a name with a
// hash tag have another form, so they need other rights.
type Names struct {
	Name   string
	Tagged string // a name with a hash tag, in the slot of Name; equal to Name if Name has one
}

// all returns the different names.
func (n Names) all() []string {
	if n.Name == n.Tagged {
		return []string{n.Name}
	}
	return []string{n.Name, n.Tagged}
}

// Keys returns the keys that belong to locks of these names. counter is the counter of
// their tokens. Keys that begin with the name of a lock itself are tried once.
func Keys(n Names, counter string) []Key {
	found := []Key{{Core, counter}, {Core, keys.Polls(n.Name)}}
	for _, name := range n.all() {
		found = append(found, Key{Family, keys.FencedCounter(name)}, Key{Family, keys.FairQueue(name)}, Key{Family, keys.FairScores(name)})
	}
	return append(found,
		Key{Family, keys.FairSigns(n.Name)},
		Key{Family, keys.RWWriters(n.Name)},
		Key{Family, keys.RWReader(n.Name, "check:1")},
		Key{Family, keys.PermitsTaken(n.Name)},
		Key{Family, keys.Result(n.Name, "check", 1)},
	)
}

// Channels returns the channels of the locks and other objects of these names.
func Channels(n Names, sharded bool) (found []Key) {
	for _, name := range n.all() {
		found = append(found,
			Key{Core, keys.Channel(name)},
			Key{Family, keys.FairChannel(name, "check:1:1")}, // which has more text after the name
			Key{Family, keys.RWChannel(name)},
			Key{Family, keys.SemaphoreChannel(name)},
			Key{Family, keys.LatchChannel(name, sharded)},
		)
	}
	return found
}

// Calls returns the commands that scripts call, on the key n.Name, which has a string.
// Script check calls SET before them.
func Calls(n Names, sharded bool) []Call {
	name := n.Name
	var calls []Call
	add := func(g Group, isNewer bool, commands string) {
		for command := range strings.SplitSeq(commands, ", ") {
			words := strings.Fields(command)
			words[1] = name
			calls = append(calls, Call{Group: g, Words: words, Newer: isNewer})
		}
	}
	add(Core, false, "exists K, get K, getset K 1, hdel K f, hexists K f, hgetall K, hlen K, hset K f 1, pexpire K "+scratchTTL)
	add(Family, false, "decr K, decrby K 1, hget K f, incrby K 1, lindex K 0, linsert K before a b, llen K, lpop K, lrange K 0 0, lrem K 1 a, persist K, "+
		"rpush K a, zadd K 1 a, zcard K, zcount K 0 1, zrange K 0 0, zrangebyscore K 0 1, zrem K a, zscore K a")
	add(Family, true, "zmscore K a")
	publish := "publish"
	if sharded {
		publish = "spublish"
	}
	for _, channel := range Channels(n, sharded) {
		calls = append(calls, Call{Group: Core, Words: []string{publish, channel.Name, "0"}, Channel: channel})
	}
	// Commands whose answers are not deterministic come last, because old servers refuse to write
	// after them.
	return append(calls,
		Call{Group: Core},
		Call{Group: Core, Words: []string{"pttl", name}},
		Call{Group: Core, Words: []string{"info", "server"}},
		Call{Group: Family, Words: []string{"hrandfield", name, "1"}, Newer: true},
		Call{Group: Family, Words: []string{"hscan", name, "0"}},
		Call{Group: Core, Undetermined: true},
	)
}

// scratchTTL is the TTL of the scratch key in ms, in case the user may not remove it.
const scratchTTL = "10000"

// Args returns the arguments with which script check makes these calls.
func Args(calls []Call) []any {
	args := []any{scratchTTL}
	for _, call := range calls {
		args = append(args, len(call.Words))
		for _, word := range call.Words {
			args = append(args, word)
		}
	}
	return args
}
