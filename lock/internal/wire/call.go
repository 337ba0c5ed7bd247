package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/script"
)

// Call is a script with its arguments, the first of which are its keys.
type Call struct {
	Script *script.Script
	Keys   int
	Args   []any
	Last   time.Time // it is not to be carried out after that; zero without such a time
	// Least is the least token of a script that mints one, and that can take the lock
	// without its counter, the second key; 0 of others.
	Least int64
}

// With appends the fields that a script removes, because nobody holds them any more.
func (c Call) With(fields []string) Call {
	for _, f := range fields {
		c.Args = append(c.Args, f)
	}
	return c
}

// Alone is a call that mints without the counter and the other keys behind the lock.
func (c Call) Alone() Call {
	args := make([]any, 0, len(c.Args)-c.Keys+1)
	c.Args, c.Keys = append(append(args, c.Args[0]), c.Args[c.Keys:]...), 1
	return c
}

// published appends the command that publishes, unless it is PUBLISH: nil.
func published(args []any, publish any) []any {
	if publish == nil {
		return args
	}
	return append(args, publish)
}

// Milliseconds is a duration as scripts take it.
func Milliseconds(d time.Duration) int64 { return int64(d / time.Millisecond) }

// TTL is what PTTL has said of a key that is there; -1 of one that never expires.
func TTL(pttl int64) time.Duration {
	if pttl < 0 {
		return -1
	}
	return time.Duration(pttl) * time.Millisecond
}

// LeastToken is what a client's clock says, in the unit of script/mint.lua. It stays below
// 2^53 until the year 2242.
func LeastToken(now time.Time) int64 {
	return min(max(now.Unix(), 0), 1<<33-2)<<20 + int64(now.Nanosecond()/1000)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// numbers reads an answer of so many integers.
func numbers(reply any, into ...*int64) bool {
	values, ok := reply.([]any)
	if !ok || len(values) != len(into) {
		return false
	}
	for i, v := range values {
		if *into[i], ok = v.(int64); !ok {
			return false
		}
	}
	return true
}
