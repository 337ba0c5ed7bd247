package diagnosis

import "github.com/wheellock/wheellock/lock/internal/keys"

// Group is a set of rights, as README.md has it.
type Group int

const (
	Core   Group = iota // for Mutex, MultiLock and RedLock
	Family              // for all other objects, beside Core
	groups
)

// Call is one call of a command by a script.
type Call struct {
	Group Group
	// Words are the command and its arguments. None stand for the removal of the scratch
	// key.
	Words []string
	// Channel is where it publishes; without a name if it does not. It has a group of its own.
	Channel Key
	// Newer says that an older server does not know the command. Scripts do without it there.
	Newer bool
	// Undetermined says that what the removal behind it is answered depends on it: Redis 5
	// and 6 may refuse to write after it.
	Undetermined bool
}

// Command is the command's name.
func (c Call) Command() string {
	if len(c.Words) == 0 {
		return "del"
	}
	return c.Words[0]
}

// Key is one that scripts use beside a lock's own, or a channel.
type Key struct {
	Group Group
	Name  string
}

// Names are the names of locks that are tried. Derived names have another form where the
// name has a hash tag, so they need other rights.
type Names struct {
	Name   string
	Tagged string // one with a hash tag, in the slot of Name; the same if Name has one
}

// all are the different ones.
func (n Names) all() []string {
	if n.Name == n.Tagged {
		return []string{n.Name}
	}
	return []string{n.Name, n.Tagged}
}

// Keys are those that belong to locks of these names; counter is the one of their tokens.
// Those that begin with the name of a lock itself are tried once.
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

// Channels are those of the locks and other objects of these names.
func Channels(n Names, sharded bool) (found []Key) {
	for _, name := range n.all() {
		found = append(found,
			Key{Core, keys.Channel(name)},
			Key{Family, keys.RWChannel(name)},
			Key{Family, keys.SemaphoreChannel(name)},
			Key{Family, keys.LatchChannel(name, sharded)},
		)
	}
	return found
}

// Calls are the commands that scripts call, on the key of n.Name, which has a string.
// Script check calls SET before them.
func Calls(n Names, sharded bool) []Call {
	name := n.Name
	core := [][]string{
		{"exists", name},
		{"get", name},
		{"getset", name, "1"},
		{"hdel", name, "f"},
		{"hexists", name, "f"},
		{"hgetall", name},
		{"hlen", name},
		{"hset", name, "f", "1"},
		{"pexpire", name, scratchTTL},
	}
	family := [][]string{
		{"decr", name},
		{"decrby", name, "1"},
		{"hget", name, "f"},
		{"incrby", name, "1"},
		{"lindex", name, "0"},
		{"linsert", name, "before", "a", "b"},
		{"llen", name},
		{"lpop", name},
		{"lrange", name, "0", "0"},
		{"lrem", name, "1", "a"},
		{"persist", name},
		{"rpush", name, "a"},
		{"zadd", name, "1", "a"},
		{"zcard", name},
		{"zcount", name, "0", "1"},
		{"zrange", name, "0", "0"},
		{"zrangebyscore", name, "0", "1"},
		{"zrem", name, "a"},
		{"zscore", name, "a"},
	}
	newer := [][]string{
		{"zmscore", name, "a"},
	}
	var calls []Call
	for _, words := range core {
		calls = append(calls, Call{Group: Core, Words: words})
	}
	for _, words := range family {
		calls = append(calls, Call{Group: Family, Words: words})
	}
	for _, words := range newer {
		calls = append(calls, Call{Group: Family, Words: words, Newer: true})
	}
	publish := "publish"
	if sharded {
		publish = "spublish"
	}
	for _, channel := range Channels(n, sharded) {
		calls = append(calls, Call{Group: Core, Words: []string{publish, channel.Name, "0"}, Channel: channel})
	}
	// Last those whose answers differ from time to time: old servers refuse to write behind them.
	return append(calls,
		Call{Group: Core},
		Call{Group: Core, Words: []string{"pttl", name}},
		Call{Group: Core, Words: []string{"info", "server"}},
		Call{Group: Family, Words: []string{"hrandfield", name, "1"}, Newer: true},
		Call{Group: Family, Words: []string{"hscan", name, "0"}},
		Call{Group: Core, Undetermined: true},
	)
}

// scratchTTL is how many ms the scratch key lives if it may not be removed.
const scratchTTL = "10000"

// Args are the arguments of script check that make it call these.
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
