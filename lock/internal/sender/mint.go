package sender

import (
	"context"
	"errors"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// Mint sends acquire or handoff, whose first keys are the lock and the counter. While their
// slot moves from one server to another, the lock and the counter may be on different servers
// for any time, and no script reaches both. Then the lock is taken without a token, and its
// holder mints the token afterwards. So tokens rise from holder to holder as always.
func Mint(ctx context.Context, s Sender, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	name, counter := call.Args[0].(string), call.Args[1].(string)
	a := s.Send(ctx, name, call, late)
	if !pipe.TryAgain(a.Err) {
		return a
	}
	a = s.Send(ctx, name, call.Alone(), late)
	if a.Err != nil || !wire.TakenWithoutToken(a.Reply) {
		return a
	}
	t := s.Send(ctx, counter, wire.Token(counter, call.Least), nil)
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
