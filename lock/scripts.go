package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/lock/topology"
)

// scripts sends scripts to the servers that have their keys, and says what their
// answers mean.
type scripts struct {
	// immutable after New
	router    *servers.Router
	traits    topology.Traits // none of a pool
	ioTimeout time.Duration

	requests pipe.Requests

	unanswered atomic.Uint64 // requests to which no answer came, see Stats
}

// call sends one script whose first argument is its key and waits for the
// answer until ctx ends. If the answer comes after that, late gets it.
func (s *scripts) call(ctx context.Context, key string, code *script.Script, late func(pipe.Answer), args ...any) pipe.Answer {
	return s.callKeys(ctx, key, code, 1, late, args...)
}

func (s *scripts) callKeys(ctx context.Context, key string, code *script.Script, keys int, late func(pipe.Answer), args ...any) pipe.Answer {
	return s.send(ctx, key, command{script: code, keys: keys, args: args}, late)
}

// send sends one script and waits for the answer until ctx ends. If the answer comes
// after that, late gets it.
func (s *scripts) send(ctx context.Context, key string, cmd command, late func(pipe.Answer)) pipe.Answer {
	r := s.request(key, cmd, late)
	s.router.Send(ctx, key, r)
	a := s.requests.Await(ctx, r)
	if s.silent(a) {
		s.unanswered.Add(1)
	}
	return a
}

// silent reports whether a is no answer, for another reason than that its caller has
// left or that the client is closed.
func (s *scripts) silent(a pipe.Answer) bool {
	_, reply := a.Err.(redis.Error)
	return a.Err != nil && !reply && !a.Left && !errors.Is(a.Err, ErrClosed)
}

func (s *scripts) request(key string, cmd command, late func(pipe.Answer)) *pipe.Request {
	r := s.requests.New(key, cmd.script, cmd.keys, late, cmd.args)
	if !cmd.last.IsZero() {
		r.Within(cmd.last)
	}
	return r
}

// post sends one script; the answer goes to late.
func (s *scripts) post(key string, cmd command, late func(pipe.Answer)) {
	r := s.request(key, cmd, late)
	r.Post()
	s.router.Server(key).Put(r) // nobody waits, for a server to be known neither
}

// publishing appends the command that publishes a release of name to a script's
// arguments, if that may be another one than PUBLISH.
func (s *scripts) publishing(name string, args []any) []any {
	if s.traits.Slots {
		args = append(args, s.publish(name))
	}
	return args
}

// publish is the command that publishes a release of name.
func (s *scripts) publish(name string) any { return s.router.Publisher(name) }

// granted is what a script that takes a lock brought.
type granted struct {
	token int64 // 0: it was not taken
	more  int64 // tokens that are reserved behind it
}

// parseAcquire reads the answer of a script that takes a lock: what was
// granted, or who else holds the lock.
func (s *scripts) parseAcquire(name string, a pipe.Answer) (g granted, other *HeldError, err error) {
	if a.Err != nil {
		return g, nil, s.callError("acquire", name, a)
	}
	if values, ok := a.Reply.([]any); ok && (len(values) == 2 || len(values) == 3) {
		acquired, ok1 := values[0].(int64)
		value, ok2 := values[1].(int64)
		switch {
		case ok1 && ok2 && acquired == 1 && value > 0:
			g.token = value
			if len(values) == 3 {
				g.more, ok1 = values[2].(int64)
			}
			if ok1 && g.more >= 0 {
				return g, nil, nil
			}
		case ok1 && ok2 && acquired == 0:
			return g, &HeldError{Name: name, TTL: ttlOf(value), Foreign: len(values) == 3}, nil
		}
	}
	return granted{}, nil, badReply("acquire", name, a.Reply)
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

// ttlOf is what PTTL has said of a key that is there.
func ttlOf(pttl int64) time.Duration {
	if pttl < 0 {
		return -1
	}
	return time.Duration(pttl) * time.Millisecond
}

func ms(d time.Duration) int64 { return int64(d / time.Millisecond) }
