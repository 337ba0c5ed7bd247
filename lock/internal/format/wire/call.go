package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// Call is a script with its arguments. The first arguments are its keys.
type Call struct {
	Script *script.Script
	Keys   int
	Args   resp.Args
	Last   time.Time // the call must not be carried out later; zero if there is no such time
	// Least is the smallest token that the script may mint. It is above 0 only for a script
	// that can also take the lock without its counter, which is the second key.
	Least int64
}

// With appends the fields that a script removes, because their holds have ended.
func (c Call) With(fields []string) Call {
	c.Args = c.Args.AddStrings(fields)
	return c
}

// Alone is a call that mints without the counter and the other keys behind the lock.
func (c Call) Alone() Call {
	c.Args, c.Keys = resp.ArgsOf(c.Args.First()).Append(c.Args.Behind(c.Keys)), 1
	return c
}

// published appends the command that publishes: a string, or a resp.Argument, which chooses the text when it is
// written. nil stands for PUBLISH, which is not appended.
func published(all resp.Args, publish any) resp.Args {
	if publish == nil {
		return all
	}
	return all.AddAny(publish)
}

// Milliseconds returns a duration in the form for scripts.
func Milliseconds(d time.Duration) int64 { return int64(d / time.Millisecond) }

// longestTTL is 291 years. A Duration ends a year later, so there is room to add to it. Redis has TTLs
// that are longer.
const longestTTL = 291 * 365 * 24 * time.Hour

// TTL converts the answer of PTTL about an existing key. It is -1 for a key that never expires, and
// at most longestTTL.
func TTL(pttl int64) time.Duration {
	if pttl < 0 {
		return -1
	}
	return time.Duration(min(pttl, Milliseconds(longestTTL))) * time.Millisecond
}

// LeastToken returns the time on the client's clock, in the unit of script/mint.lua. It stays
// below 2^53 until the year 2242.
func LeastToken(now time.Time) int64 {
	return min(max(now.Unix(), 0), 1<<33-2)<<20 + int64(now.Nanosecond()/1000)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// numbers reads an answer of len(into) integers. It returns false for another answer.
func numbers(reply resp.Reply, into ...*int64) bool {
	values := reply.Numbers()
	if len(values) != len(into) {
		return false
	}
	for i, n := range values {
		*into[i] = n
	}
	return true
}
