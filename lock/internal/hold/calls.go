package hold

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/network"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// calls has what script calls need beyond the holds: which script belongs to a kind, and what its
// answer means. Package wire has the arguments.
type calls struct {
	// immutable after New
	network   network.Network
	slots     bool          // keys live in the slots of a Cluster
	counters  keys.Counters // of tokens
	ioTimeout time.Duration
	errors    Errors
}

// publisher is publish where that may be another command than PUBLISH, and nil elsewhere.
func (s *calls) publisher(name string) any {
	if s.slots {
		return s.publish(name)
	}
	return nil
}

// publish is the command that publishes a release of name.
func (s *calls) publish(name string) any { return s.network.Publisher(name) }

// release is the script that gives back a whole hold of that kind or, of a FairMutex, a place
// in the queue. One count alone is given back by a re-entry, which has a time limit.
func (s *calls) release(k Kind, name string, field []byte) wire.Call {
	switch k {
	case Fair:
		return wire.FairRelease(name, string(field), time.Now(), fairGraceOf(s.ioTimeout)/2, s.publish(name))
	case Read:
		return wire.ReadRelease(name, string(field), s.publisher(name))
	case Write:
		return wire.WriteRelease(name, string(field), s.publisher(name))
	case Permits:
		return wire.PermitRelease(name, string(field), s.publisher(name))
	}
	return wire.Release(name, field, s.publisher(name))
}

// reenter is the script that sets the count of a hold, which must be there, and its least
// lease.
func (s *calls) reenter(k Kind, name, field string, count int32, lease time.Duration) wire.Call {
	switch k {
	case Read:
		return wire.ReadReenter(name, field, count, lease)
	case Permits:
		return wire.PermitExtend(name, field, lease, time.Now())
	}
	return wire.Reenter(name, field, count, lease)
}

// force is the script that deletes holds, whose fields come behind the arguments. left is what
// a key is that it leaves alone.
func (s *calls) force(k Kind, name string) (call wire.Call, left string) {
	const notMutex = "is a hash of other things than owners and counts"
	switch k {
	case Fair:
		return wire.FairForce(name, s.publish(name)), notMutex
	case Read, Write:
		return wire.RWForce(name, s.publish(name)), "is no read-write lock"
	}
	return wire.Force(name, s.publish(name)), notMutex
}

// readAcquire reads the answer of a script that takes a lock: what was granted or, without an
// error and a token, who else holds the lock.
func (s *calls) readAcquire(name string, a pipe.Answer) (g wire.Granted, other wire.Refusal, err error) {
	if a.Err != nil {
		return g, other, s.errors.Call("acquire", name, a)
	}
	g, other, ok := wire.ReadAcquire(a.Reply)
	if !ok {
		return g, other, s.errors.BadReply("acquire", name, a.Reply.Any())
	}
	return g, other, nil
}

// readFair reads the answer of fair_take: token is 0 if the lock is not acquired, and then
// other says why.
func (s *calls) readFair(name string, a pipe.Answer) (token int64, other wire.FairRefusal, err error) {
	if a.Err != nil {
		return 0, other, s.errors.Call("acquire", name, a)
	}
	token, other, ok := wire.ReadFair(a.Reply)
	if !ok {
		return 0, other, s.errors.BadReply("acquire", name, a.Reply.Any())
	}
	return token, other, nil
}

// readFairSign reads the answer of fair_sign for n waiters: who is the first in the queue, and for
// which of them nothing was done.
func (s *calls) readFairSign(name string, a pipe.Answer, n int) (other wire.FairRefusal, left []bool, err error) {
	if a.Err != nil {
		return other, nil, s.errors.Call("acquire", name, a)
	}
	other, left, ok := wire.ReadFairSign(a.Reply, n)
	if !ok {
		return other, nil, s.errors.BadReply("acquire", name, a.Reply.Any())
	}
	return other, left, nil
}

// readPermits reads the answer of permit_take; next is how long until a permit
// expires, 0 if none does.
func (s *calls) readPermits(name string, a pipe.Answer) (taken, free int64, next time.Duration, err error) {
	if a.Err != nil {
		return 0, 0, 0, s.errors.Call("acquire", name, a)
	}
	taken, free, next, ok := wire.ReadPermits(a.Reply)
	if !ok {
		return 0, 0, 0, s.errors.BadReply("acquire", name, a.Reply.Any())
	}
	return taken, free, next, nil
}

// mayHaveRun reports whether a request that ended with err may have been carried out, or
// may still be carried out. A request that was never written cannot.
func (s *calls) mayHaveRun(a pipe.Answer, err error) bool {
	return !a.Stamp.IsZero() && err != nil && s.errors.Verdict(err) == locktable.Unknown
}

// counterOf returns the key of the counter that mints the tokens of a lock, and
// the least token, in whose place the server's clock stands where it is known
// (script/mint.lua). 1: the counter is Redisson's, and no clock counts.
func (s *calls) counterOf(k Kind, name string) (string, int64) {
	if k == Fenced {
		return keys.FencedCounter(name), 1
	}
	return s.counters.Key(name), wire.LeastToken(time.Now())
}
