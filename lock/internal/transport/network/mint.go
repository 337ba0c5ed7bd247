package network

import (
	"context"
	"errors"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// Mint sends a call of the script acquire or handoff. The first keys of the call are the lock, which
// is name, and the counter of tokens. While the slot moves, these two may be on different servers, and
// no script reaches both. Then Mint takes the lock without a token and asks for the token afterwards,
// while it has the lock. So tokens still rise from holder to holder.
func Mint(ctx context.Context, s Sender, name string, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	a := s.Send(ctx, name, call, late)
	if a.Err == nil || !pipe.TryAgain(a.Err) {
		return a
	}
	a = s.Send(ctx, name, call.Alone(), late)
	if a.Err != nil || !wire.TakenWithoutToken(a.Reply) {
		return a
	}
	counter := call.Args.Behind(1).First()
	t := s.Send(ctx, counter, wire.Token(counter, call.Least), nil)
	token, ok := t.Reply.Number()
	switch {
	case t.Err != nil:
		// The lock may be taken, so the outcome stays unknown.
		a.Err = &mintError{t.Err}
	case !ok:
		a.Err = &mintError{errors.New("the answer is no number")}
	}
	a.Reply = resp.ReplyOf([]any{int64(1), token})
	return a
}

// mintError says why a lock that was taken got no token. It does not unwrap to an error of
// Redis, because callers would take that for a refusal of the lock.
type mintError struct{ err error }

func (e *mintError) Error() string { return "minting the token: " + e.err.Error() }
