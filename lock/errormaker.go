package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// errorMaker makes errors of this package from the outcomes that the packages below it return. Those
// packages do not know the errors.
type errorMaker struct{ slots bool } // keys live in the slots of a Cluster

var _ hold.Errors = errorMaker{}

// Of implements hold.Errors.
func (m errorMaker) Of(ctx context.Context, name string, o wire.Outcome) error {
	err := m.ofLastTry(name, o)
	switch {
	case o.End == wire.ByContext:
		return newWaitError(ctx, name, err)
	case o.End == wire.ByClose && !errors.Is(err, ErrClosed): // else err also says whether Redis may carry out the request
		return closedError(name)
	}
	return err
}

// ofLastTry is Of, whatever has ended a wait.
func (m errorMaker) ofLastTry(name string, o wire.Outcome) error {
	switch o.Result {
	case wire.NotTried, wire.Granted:
		return nil
	case wire.Closed:
		return closedError(name)
	case wire.NotReplicated:
		return &ReplicationError{Name: name, Wanted: int(o.Wanted), Acknowledged: int(o.Taken)}
	case wire.Upgrade:
		return fmt.Errorf("%w and cannot also write, because it would wait for itself: unlock the read lock of %q first", ErrUpgrade, name)
	case wire.Refused:
		switch {
		case o.Cause != nil:
			return o.Cause
		case o.Wanted > 0:
			return &PermitsError{Name: name, Wanted: o.Wanted, Free: o.Free, OthersWait: o.OthersWait}
		}
		return &HeldError{Name: name, TTL: o.TTL, Foreign: o.By == wire.Foreign, Own: o.By == wire.Ours, OthersWait: o.OthersWait}
	}
	switch {
	case o.Op == "":
		return o.Cause
	case o.Result == wire.Unknown:
		return &UnknownError{Op: o.Op, Name: name, Err: o.Cause}
	case o.Result == wire.NotSent:
		return &NotSentError{Op: o.Op, Name: name, Err: o.Cause}
	case !m.slots && pipe.OfCluster(o.Cause):
		return clusterError(o.Op, name, o.Cause)
	case pipe.Distrusts(o.Cause): // it would not be sent next time either
		return fmt.Errorf("lock: %s of %q: the server's certificate is not accepted: %w: set the CA that signed it, or the name that it is for, "+
			"in Endpoint.TLS or in the dial options of the pool", o.Op, name, o.Cause)
	}
	return redisError(o.Op, name, o.Cause)
}

// NotHeld implements hold.Errors.
func (errorMaker) NotHeld(name string) error { return notHeldError(name) }

// Lost implements hold.Errors.
func (errorMaker) Lost(name string, why Reason, token int64, refusal error) error {
	return &LostError{Name: name, Reason: why, Token: token, Err: refusal}
}

func badReply(op, name string, reply any) error {
	return &UnknownError{Op: op, Name: name, Err: wire.OddAnswer(op, reply).Cause}
}

// adviceOn returns what to do about a server that refuses to renew, or "" if the refusal ends by
// itself.
func adviceOn(refusal error) string {
	switch {
	case pipe.RefusesWrites(refusal):
		return stateAdvice(refusal)
	case pipe.Definite(refusal):
		return "give the user the rights that lock/SERVERS.md lists"
	}
	return ""
}
