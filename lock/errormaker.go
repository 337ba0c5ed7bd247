package lock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/hold"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// errorMaker makes the errors of this package for what is below it, which cannot know them.
type errorMaker struct{ slots bool } // keys live in the slots of a Cluster

var _ hold.Errors = errorMaker{}

// Call implements hold.Errors.
func (m errorMaker) Call(op, name string, a pipe.Answer) error {
	switch {
	case errors.Is(a.Err, ErrClosed) && a.Stamp.IsZero(): // nothing was written
		return closedError(name)
	case !m.slots && pipe.OfCluster(a.Err):
		return clusterError(op, name, a.Err)
	case pipe.Definite(a.Err):
		return redisError(op, name, a.Err)
	case op == "acquire" && a.Stamp.IsZero() && distrusted(a.Err): // nothing was sent, and it would not be next time
		return fmt.Errorf("lock: %s of %q: the server's certificate is not accepted: %w: set the CA that signed it, or the name that it is for, "+
			"in Endpoint.TLS or in the dial options of the pool", op, name, a.Err)
	case notSent(op, a):
		return &NotSentError{Op: op, Name: name, Err: a.Err}
	}
	return &UnknownError{Op: op, Name: name, Err: a.Err}
}

// notSent reports whether it is certain that a request was not sent, and the client does not send
// it later. The outcome of a read is unknown in any case.
func notSent(op string, a pipe.Answer) bool {
	var reply redis.Error // with which a dial ended
	return a.Stamp.IsZero() && !a.Left && !errors.As(a.Err, &reply) &&
		slices.Contains([]string{"acquire", "drain", "reenter", "guard", "force"}, op)
}

// distrusted reports whether a connection was not made because of the server's certificate.
func distrusted(err error) bool {
	var bad *tls.CertificateVerificationError
	return errors.As(err, &bad)
}

// BadReply implements hold.Errors.
func (errorMaker) BadReply(op, name string, reply any) error { return badReply(op, name, reply) }

func badReply(op, name string, reply any) error {
	return &UnknownError{Op: op, Name: name, Err: fmt.Errorf("unexpected answer %.100q", fmt.Sprint(reply))}
}

// Unknown implements hold.Errors.
func (errorMaker) Unknown(op, name string, err error) error {
	return &UnknownError{Op: op, Name: name, Err: err}
}

// Held implements hold.Errors.
func (errorMaker) Held(name string, ttl time.Duration, by hold.Holder) error {
	return &HeldError{Name: name, TTL: ttl, Foreign: by == hold.Foreign, Own: by == hold.Ours}
}

// Few implements hold.Errors.
func (errorMaker) Few(name string, wanted, free int64) error {
	return &PermitsError{Name: name, Wanted: wanted, Free: free}
}

// NotReplicated implements hold.Errors.
func (errorMaker) NotReplicated(name string, wanted, acknowledged int) error {
	return &ReplicationError{Name: name, Wanted: wanted, Acknowledged: acknowledged}
}

// Upgrade implements hold.Errors.
func (errorMaker) Upgrade(name string) error {
	return fmt.Errorf("%w and cannot also write, because it would wait for itself: unlock the read lock of %q first", ErrUpgrade, name)
}

// Closed implements hold.Errors.
func (errorMaker) Closed(name string, last error) error {
	if errors.Is(last, ErrClosed) { // it also says whether Redis may carry out what was cut off
		return last
	}
	return closedError(name)
}

// Ended implements hold.Errors.
func (errorMaker) Ended(ctx context.Context, name string, last error) error {
	return newWaitError(ctx, name, last)
}

// NotHeld implements hold.Errors.
func (errorMaker) NotHeld(name string) error { return notHeldError(name) }

// Lost implements hold.Errors.
func (errorMaker) Lost(name string, why Reason, token int64, refusal error) error {
	return &LostError{Name: name, Reason: why, Token: token, Err: refusal}
}

// Verdict implements hold.Errors.
func (errorMaker) Verdict(err error) locktable.Verdict { return verdictOf(err) }

func verdictOf(err error) locktable.Verdict {
	switch {
	case err == nil:
		return locktable.Got
	case errors.Is(err, ErrNotAcquired):
		return locktable.Refused
	case gotNoAnswer(err):
		return locktable.Unknown
	}
	return locktable.Denied
}

// Advice implements hold.Errors.
func (errorMaker) Advice(refusal error) string {
	switch {
	case pipe.RefusesWrites(refusal):
		return stateAdvice(refusal)
	case pipe.Definite(refusal):
		return "give the user the rights that lock/SERVERS.md lists"
	}
	return ""
}
