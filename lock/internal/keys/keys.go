package keys

import (
	"strconv"
	"strings"
)

// The words of keys' names. Check refuses names of locks that have one of them where a
// key has it.
const (
	// before the name of the lock
	fencedCounter = "redisson_lock_token"
	fairQueue     = "redisson_lock_queue"
	fairScores    = "redisson_lock_timeout"
	unlockLatch   = "redisson_unlock_latch" // Redisson's alone

	// behind the name of the lock
	fairSigns    = "wheellock_waiters"
	polls        = "wheellock_polls"
	rwWriters    = "wheellock_writers"
	permitsTaken = "timeout"
	result       = "wheellock_result"
	rwReader     = ":rwlock_timeout:" // before a number, which ends the key
)

// prefixed is a name in the slot of name that begins with prefix.
func prefixed(prefix, name string) string {
	if strings.IndexByte(name, '{') >= 0 {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// suffixed is a name in the slot of name that ends with suffix.
func suffixed(name, suffix string) string { return Prefix(name) + ":" + suffix }

// Prefix is what names in the slot of name begin with when they do not begin with
// a word of Redisson's.
func Prefix(name string) string {
	if strings.IndexByte(name, '{') >= 0 {
		return name
	}
	return "{" + name + "}"
}

// FencedCounter is the key of the tokens of a FencedMutex.
func FencedCounter(name string) string { return prefixed(fencedCounter, name) }

// Channel is where the release of a Mutex, FencedMutex or FairMutex is published.
func Channel(name string) string { return prefixed("redisson_lock__channel", name) }

// FairChannel is where the waiter of a FairMutex with that field is woken.
func FairChannel(name, field string) string { return Channel(name) + ":" + field }

// FairQueue is the list of those who wait for a FairMutex.
func FairQueue(name string) string { return prefixed(fairQueue, name) }

// FairScores is the sorted set of until when each of them may wait.
func FairScores(name string) string { return prefixed(fairScores, name) }

// FairSigns is the hash of their signs of life.
func FairSigns(name string) string { return suffixed(name, fairSigns) }

// Polls is a key that lives until shortly after a waiter looks for a Mutex whom
// messages do not reach.
func Polls(name string) string { return suffixed(name, polls) }

// RWChannel is where the releases of a RWMutex are published.
func RWChannel(name string) string { return prefixed("redisson_rwlock", name) }

// RWReader is the key that lives as long as a read hold. Redisson has one for each
// count and believes the one that lives longest; ours is the first.
func RWReader(name, field string) string { return suffixed(name, field+rwReader+"1") }

// RWWriters is the hash of the writers that wait for a RWMutex.
func RWWriters(name string) string { return suffixed(name, rwWriters) }

// SemaphoreChannel is where free permits are published.
func SemaphoreChannel(name string) string { return prefixed("redisson_sc", name) }

// PermitsTaken is the sorted set of the permits of a PermitSemaphore that are
// taken.
func PermitsTaken(name string) string { return suffixed(name, permitsTaken) }

// LatchChannel is where the opening of a CountDownLatch is published. Unlike
// Redisson's other names it has no colon before the braces. Plain channels have
// braces always; a sharded one has them only round a name without a hash tag,
// because it must share the latch's slot.
func LatchChannel(name string, sharded bool) string {
	channel := latchPrefix + "{" + name + "}"
	if sharded {
		return ShardedChannel(channel)
	}
	return channel
}

const latchPrefix = "redisson_countdownlatch__channel__"

// ShardedChannel is what a channel is called where channels have slots. It is the same
// for all but some latches, see LatchChannel.
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

// Result is the key under which the server remembers what a request of a semaphore
// or a latch brought. client and number are those of the request.
func Result(name, client string, number uint64) string {
	return suffixed(name, client+":"+strconv.FormatUint(number, 10)+":"+result)
}

// besides end the names of hashes that stand beside a lock's own.
var besides = []string{":" + fairSigns, ":" + rwWriters}

// IsBeside reports whether key is a hash that stands beside a lock's own, and no
// lock.
func IsBeside(key string) bool {
	for _, end := range besides {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}
