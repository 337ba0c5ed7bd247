package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/script"
)

// counter returns the key of the fencing-token counter for a lock's name.
func (s *scripts) counter(name string) string {
	if !s.traits.Slots {
		return keys.Counter
	}
	return keys.SlotCounter(name)
}

// counterOf returns the key of the counter that mints the tokens of a lock, and
// the least token, in whose place the server's clock stands where it is known
// (script/mint.lua). 1: the counter is Redisson's, and no clock counts.
func (s *scripts) counterOf(k kind, name string) (string, int64) {
	if k == fencedKind {
		return keys.FencedCounter(name), 1
	}
	return s.counter(name), leastToken(time.Now())
}

// leastToken is what this client's clock says, in the unit of script/mint.lua. It stays
// below 2^53 until the year 2242.
func leastToken(now time.Time) int64 {
	return min(max(now.Unix(), 0), 1<<33-2)<<20 + int64(now.Nanosecond()/1000)
}

// callToken sends acquire or handoff, whose first keys are the lock and the
// counter. least is the least token. While their slot moves from one server to
// another, the lock and the counter may be on different servers for any time,
// and no script reaches both. Then the lock is taken without a token, and its
// holder mints the token afterwards. So tokens rise from holder to holder as
// always.
func (s *scripts) callToken(ctx context.Context, code *script.Script, late func(pipe.Answer), least int64, keys int, args ...any) pipe.Answer {
	name, counter := args[0].(string), args[1].(string)
	a := s.callKeys(ctx, name, code, keys, late, args...)
	if !pipe.TryAgain(a.Err) {
		return a
	}
	alone := append([]any{name}, args[keys:]...)
	a = s.callKeys(ctx, name, code, 1, late, alone...)
	pair, _ := a.Reply.([]any)
	if a.Err != nil || len(pair) != 2 || pair[0] != int64(1) {
		return a
	}
	t := s.call(ctx, counter, script.Token, nil, counter, least)
	token, ok := t.Reply.(int64)
	switch {
	case t.Err != nil:
		// The lock may be taken: what is not known stays unknown.
		a.Err = &mintError{t.Err}
	case !ok:
		a.Err = &mintError{errors.New("the answer is no number")}
	}
	a.Reply = []any{int64(1), token}
	return a
}

// mintError says why a lock that was taken got no token. It hides a reply of
// Redis, which would read as a refusal of the lock.
type mintError struct{ err error }

func (e *mintError) Error() string { return "minting the token: " + e.err.Error() }
