package keys

import (
	"fmt"
	"strconv"
	"strings"
)

// Counter is the name of a counter of fencing tokens, behind the prefix of its client. In a
// Cluster the number of a slot may follow.
const Counter = "wheellock_token"

// Counters names the counters of fencing tokens of the clients with one prefix. No other
// prefix shares a counter with it. So a Redis user with rights to one prefix cannot change
// the tokens of another prefix.
type Counters struct {
	one    string // the counter of all names; "" if each slot has its own
	prefix string
}

// CountersOf returns the Counters of a prefix that CheckPrefix accepts. slots says that keys
// have slots, as in a Redis Cluster.
func CountersOf(prefix string, slots bool) Counters {
	if slots && strings.IndexByte(prefix, '{') < 0 {
		return Counters{prefix: prefix}
	}
	return Counters{one: prefix + Counter} // the prefix decides the slot of all its keys
}

// Key returns the counter of the lock of that name. The name begins with the prefix.
func (c Counters) Key(name string) string {
	if c.one != "" {
		return c.one
	}
	return c.prefix + Counter + ":{" + strconv.Itoa(int(slotTags()[Slot(name)])) + "}"
}

// isCounter reports whether key is a counter of any prefix.
func isCounter(key string) bool {
	if strings.HasSuffix(key, Counter) {
		return true
	}
	i := strings.LastIndexByte(key, '{')
	if i < 0 || !strings.HasSuffix(key, "}") {
		return false
	}
	before, tag := key[:i], key[i+1:len(key)-1]
	return strings.HasSuffix(before, Counter+":") && tag != "" && strings.Trim(tag, digits) == ""
}

const digits = "0123456789"

// CheckPrefix refuses a prefix with a brace that does not decide the slot of all its names,
// because these names would have no counter in common.
func CheckPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") && (strings.IndexByte(prefix, '{') < 0 || CheckSlot(prefix) != nil) {
		return fmt.Errorf("lock: Config.KeyPrefix %.100q has a brace and no hash tag: write the tag as in \"{app}:\", or leave the braces out", prefix)
	}
	return nil
}
