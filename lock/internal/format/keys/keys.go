package keys

import (
	"strconv"
	"strings"
)

// The words in names of keys. Check refuses a name of a lock that has such a word at the
// place where a key has it.
const (
	// before the name of the lock
	fencedCounter = "redisson_lock_token"
	fairQueue     = "redisson_lock_queue"
	fairScores    = "redisson_lock_timeout"
	unlockLatch   = "redisson_unlock_latch" // only Redisson uses it
	channel       = "redisson_lock__channel"

	// after the name of the lock
	fairSigns    = "wheellock_waiters"
	polls        = "wheellock_polls"
	rwWriters    = "wheellock_writers"
	permitsTaken = "timeout"
	result       = "wheellock_result"
	rwReader     = ":rwlock_timeout:" // before a number, which ends the key
)

// prefixed returns a name in the slot of name that begins with prefix.
func prefixed(prefix, name string) string {
	var room [128]byte
	return string(appendPrefixed(room[:0], prefix, name))
}

func appendPrefixed(b []byte, prefix, name string) []byte {
	b = append(append(b, prefix...), ':')
	if strings.IndexByte(name, '{') >= 0 {
		return append(b, name...)
	}
	return append(append(append(b, '{'), name...), '}')
}

// suffixed returns a name in the slot of name that ends with suffix.
func suffixed(name, suffix string) string { return Prefix(name) + ":" + suffix }

// Prefix returns the beginning of names in the slot of name that do not begin with a
// word of Redisson.
func Prefix(name string) string {
	if strings.IndexByte(name, '{') >= 0 {
		return name
	}
	return "{" + name + "}"
}

// FencedCounter returns the key of the counter of tokens of a FencedMutex.
func FencedCounter(name string) string { return prefixed(fencedCounter, name) }

// Channel returns the channel for releases of a Mutex, FencedMutex or FairMutex.
func Channel(name string) string { return prefixed(channel, name) }

// AppendChannel appends the Channel of name.
func AppendChannel(b []byte, name string) []byte { return appendPrefixed(b, channel, name) }

// FairChannel returns the channel that wakes the waiter of a FairMutex with that field.
func FairChannel(name, field string) string { return Channel(name) + ":" + field }

// FairQueue returns the list of the waiters of a FairMutex.
func FairQueue(name string) string { return prefixed(fairQueue, name) }

// FairScores returns the sorted set with the time until which each waiter of a FairMutex
// may wait.
func FairScores(name string) string { return prefixed(fairScores, name) }

// FairSigns returns the hash with the signs of life of the waiters of a FairMutex.
func FairSigns(name string) string { return suffixed(name, fairSigns) }

// Polls returns the key that says that a waiter for a Mutex receives no messages. The
// key expires shortly after that waiter's next try.
func Polls(name string) string { return suffixed(name, polls) }

// RWChannel returns the channel for releases of a RWMutex.
func RWChannel(name string) string { return prefixed("redisson_rwlock", name) }

// RWReader returns the key that lives as long as a read hold. Redisson has one key for
// each count of the hold, and the key that lives longest counts. This library has only
// the first one.
func RWReader(name, field string) string { return suffixed(name, field+rwReader+"1") }

// RWWriters returns the hash of the writers that wait for a RWMutex.
func RWWriters(name string) string { return suffixed(name, rwWriters) }

// SemaphoreChannel returns the channel for free permits.
func SemaphoreChannel(name string) string { return prefixed("redisson_sc", name) }

// PermitsTaken returns the sorted set of the permits of a PermitSemaphore that are
// taken.
func PermitsTaken(name string) string { return suffixed(name, permitsTaken) }

// LatchChannel returns the channel for the opening of a CountDownLatch. Unlike
// Redisson's other names it has no colon before the braces. A plain channel always
// has braces. A sharded channel has braces only around a name without a hash tag,
// because it must be in the slot of the latch.
func LatchChannel(name string, sharded bool) string {
	channel := latchPrefix + "{" + name + "}"
	if sharded {
		return ShardedChannel(channel)
	}
	return channel
}

const latchPrefix = "redisson_countdownlatch__channel__"

// ShardedChannel returns the name of a channel where channels have slots. It differs only
// for some latches, see LatchChannel.
func ShardedChannel(channel string) string {
	name, ok := strings.CutPrefix(channel, latchPrefix+"{")
	if !ok || strings.IndexByte(name, '{') < 0 {
		return channel
	}
	return latchPrefix + ":" + strings.TrimSuffix(name, "}")
}

// PlainChannel undoes ShardedChannel.
func PlainChannel(channel string) string {
	if name, ok := strings.CutPrefix(channel, latchPrefix+":"); ok {
		return latchPrefix + "{" + name + "}"
	}
	return channel
}

// Result returns the key under which the server remembers the result of a request of a
// semaphore or a latch. client and number identify the request.
func Result(name, client string, number uint64) string {
	return suffixed(name, client+":"+strconv.FormatUint(number, 10)+":"+result)
}

// besides has the ends of names of hashes that a lock has in addition to its own.
var besides = []string{":" + fairSigns, ":" + rwWriters}

// IsBeside reports whether key is such an additional hash, and not a lock.
func IsBeside(key string) bool {
	for _, end := range besides {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

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
