package hold

import (
	"errors"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// Publisher returns the command that publishes a release of name. It returns nil where that is
// always PUBLISH.
func (k *Engine) Publisher(name string) any {
	if k.cfg.Traits.Slots {
		return k.Network.Publisher(name)
	}
	return nil
}

// releaseCall is the script that gives back a whole hold of that kind or, of a FairMutex, a place
// in the queue. One count alone is given back by a re-entry, which has a time limit.
func (k *Engine) releaseCall(kind Kind, name string, field []byte) wire.Call {
	switch kind {
	case Fair:
		return wire.FairRelease(name, string(field), time.Now(), fairGraceOf(k.cfg.IOTimeout)/2, k.Network.Publisher(name))
	case Read:
		return wire.ReadRelease(name, string(field), k.Publisher(name))
	case Write:
		return wire.WriteRelease(name, string(field), k.Publisher(name))
	case Permits:
		return wire.PermitRelease(name, string(field), k.Publisher(name))
	}
	return wire.Release(name, field, k.Publisher(name))
}

// reenterCall is the script that sets the count of a hold, which must be there, and its least
// lease.
func reenterCall(kind Kind, name, field string, count int32, lease time.Duration) wire.Call {
	switch kind {
	case Read:
		return wire.ReadReenter(name, field, count, lease)
	case Permits:
		return wire.PermitExtend(name, field, lease, time.Now())
	}
	return wire.Reenter(name, field, count, lease)
}

func guardCall(kind Kind, name, field, command string, commandKeys []string, args []any) wire.Call {
	timeout := name
	if kind == Read {
		timeout = keys.RWReader(name, field)
	}
	return wire.Guard(name, timeout, field, command, commandKeys, args)
}

// Force returns the script that deletes holds of that kind. Their fields follow its arguments.
// left describes a key that the script does not touch.
func (k *Engine) Force(kind Kind, name string) (call wire.Call, left string) {
	const notMutex = "is a hash of other things than owners and counts"
	switch kind {
	case Fair:
		return wire.FairForce(name, k.Network.Publisher(name)), notMutex
	case Read, Write:
		return wire.RWForce(name, k.Network.Publisher(name)), "is no read-write lock"
	}
	return wire.Force(name, k.Network.Publisher(name)), notMutex
}

// Outcome says how a call for op ended that Redis refused or did not answer. a.Err is not nil.
func (k *Engine) Outcome(op string, a pipe.Answer) wire.Outcome {
	o := wire.Outcome{Result: wire.Unknown, Op: op, Cause: a.Err}
	_, replied := a.Err.(redis.Error) // otherwise the connection ended, or none was made, because of an answer to another request
	switch {
	case errors.Is(a.Err, k.cfg.Closed) && a.Stamp.IsZero(): // nothing was written
		o.Result = wire.Closed
	case !k.cfg.Traits.Slots && replied && pipe.OfCluster(a.Err), pipe.Definite(a.Err), op == "acquire" && a.Stamp.IsZero() && pipe.Distrusts(a.Err):
		o.Result, o.IsMoved = wire.Denied, pipe.Moved(a.Err)
	case isNotSent(op, a):
		o.Result = wire.NotSent
	}
	return o
}

// isNotSent reports whether it is certain that a request was not sent, and the client does not send
// it later. The outcome of a read is unknown in any case.
func isNotSent(op string, a pipe.Answer) bool {
	var reply redis.Error // with which a dial ended
	return a.Stamp.IsZero() && !a.IsAbandoned && !errors.As(a.Err, &reply) &&
		slices.Contains([]string{"acquire", "drain", "reenter", "guard", "force"}, op)
}

// read says how a call for op ended. The parameter read reads an answer without an error.
func (k *Engine) read(op string, a pipe.Answer, read func(op string, reply resp.Reply) wire.Outcome) wire.Outcome {
	if a.Err != nil {
		return k.Outcome(op, a)
	}
	return read(op, a.Reply)
}

// counterOf returns the key of the counter of a lock's tokens, and the least token. If the server's
// clock is known, it replaces the least token (script/mint.lua). The least token 1 means that the
// counter is Redisson's, and that no clock counts.
func (k *Engine) counterOf(kind Kind, name string) (string, int64) {
	if kind == Fenced {
		return keys.FencedCounter(name), 1
	}
	return k.cfg.Counters.Key(name), wire.LeastToken(time.Now())
}
