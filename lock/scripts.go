package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/lock/topology"
)

// scripts knows what calls of scripts need that holds do not, and says what their answers mean.
type scripts struct {
	// immutable after New
	router    *servers.Router
	traits    topology.Traits // none of a pool
	counters  keys.Counters   // of tokens
	ioTimeout time.Duration
}

// publisher is publish where that may be another command than PUBLISH, and nil elsewhere.
func (s *scripts) publisher(name string) any {
	if s.traits.Slots {
		return s.publish(name)
	}
	return nil
}

// publish is the command that publishes a release of name.
func (s *scripts) publish(name string) any { return s.router.Publisher(name) }

// readAcquire reads the answer of a script that takes a lock: what was granted, or who else
// holds the lock.
func (s *scripts) readAcquire(name string, a pipe.Answer) (g wire.Granted, other *wire.Refusal, err error) {
	if a.Err != nil {
		return g, nil, s.callError("acquire", name, a)
	}
	g, r, ok := wire.ReadAcquire(a.Reply)
	switch {
	case !ok:
		return g, nil, badReply("acquire", name, a.Reply)
	case g.Token == 0:
		return g, &r, nil
	}
	return g, nil, nil
}

// callError makes of an unanswered or refused call what the user gets.
func (s *scripts) callError(op, name string, a pipe.Answer) error {
	switch {
	case errors.Is(a.Err, ErrClosed):
		return closedError(name)
	case !s.traits.Slots && pipe.OfCluster(a.Err):
		return clusterError(op, name, a.Err)
	case pipe.Definite(a.Err):
		return redisError(op, name, a.Err)
	}
	return &UnknownError{Op: op, Name: name, Err: a.Err}
}

func badReply(op, name string, reply any) error {
	return &UnknownError{Op: op, Name: name, Err: fmt.Errorf("unexpected answer %.100q", fmt.Sprint(reply))}
}

// mayHaveRun reports whether a request that ended with err may have been, or may
// still be, carried out. One that was never written cannot.
func mayHaveRun(a pipe.Answer, err error) bool {
	return errors.Is(err, ErrUnknown) && !a.Stamp.IsZero()
}

// counterOf returns the key of the counter that mints the tokens of a lock, and
// the least token, in whose place the server's clock stands where it is known
// (script/mint.lua). 1: the counter is Redisson's, and no clock counts.
func (s *scripts) counterOf(k kind, name string) (string, int64) {
	if k == fencedKind {
		return keys.FencedCounter(name), 1
	}
	return s.counters.Key(name), wire.LeastToken(time.Now())
}
