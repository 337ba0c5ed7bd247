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

// Keys are those that belong to the lock of that name; counter is the one of its tokens.
func Keys(name, counter string) []Key {
	return []Key{
		{Core, counter},
		{Core, keys.Polls(name)},
		{Family, keys.FencedCounter(name)},
		{Family, keys.FairQueue(name)},
		{Family, keys.FairScores(name)},
		{Family, keys.FairSigns(name)},
		{Family, keys.RWWriters(name)},
		{Family, keys.RWReader(name, "check:1")},
		{Family, keys.PermitsTaken(name)},
		{Family, keys.Result(name, "check", 1)},
	}
}

// Channels are those of the locks and other objects of that name.
func Channels(name string, sharded bool) []Key {
	return []Key{
		{Core, keys.Channel(name)},
		{Family, keys.RWChannel(name)},
		{Family, keys.SemaphoreChannel(name)},
		{Family, keys.LatchChannel(name, sharded)},
	}
}

// Calls are the commands that scripts call, on the key of that name, which has a string.
// Script check calls SET before them.
func Calls(name string, sharded bool) []Call {
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
	var calls []Call
	for _, words := range core {
		calls = append(calls, Call{Group: Core, Words: words})
	}
	for _, words := range family {
		calls = append(calls, Call{Group: Family, Words: words})
	}
	publish := "publish"
	if sharded {
		publish = "spublish"
	}
	for _, channel := range Channels(name, sharded) {
		calls = append(calls, Call{Group: Core, Words: []string{publish, channel.Name, "0"}, Channel: channel})
	}
	// Last those whose answers differ from time to time: old servers refuse to write behind them.
	return append(calls,
		Call{Group: Core},
		Call{Group: Core, Words: []string{"pttl", name}},
		Call{Group: Core, Words: []string{"info", "server"}},
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
