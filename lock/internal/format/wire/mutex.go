package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// Acquire takes a lock of one owner.
type Acquire struct {
	Name, Counter string
	Field         []byte // which Call copies
	Lease         time.Duration
	Least         int64         // token
	More          int64         // tokens that are reserved for later holders
	Again         time.Duration // a caller that no message reaches tries again in that time; 0: messages reach it
}

// Call is acquire.
func (a Acquire) Call() Call {
	c := Call{Script: script.Acquire, Keys: 2, Args: resp.ArgsOf(a.Name, a.Counter), Least: a.Least}
	if a.Again > 0 {
		c.Keys = 3
		c.Args = c.Args.Add(keys.Polls(a.Name))
	}
	c.Args = c.Args.AddBytes(a.Field).Add(Milliseconds(a.Lease), a.Least, a.More, Milliseconds(a.Again))
	return c
}

// byStranger is the third value of the answer of a script that does not take a lock,
// because Redisson holds it.
const byStranger = 2

// ReadAcquire reads the answer of acquire, handoff, rw_read and rw_write. An error names op as the
// operation that Redis was asked for.
func ReadAcquire(op string, reply resp.Reply) Outcome {
	values := reply.Numbers()
	if len(values) != 2 && len(values) != 3 {
		return OddAnswer(op, reply.Any())
	}
	acquired, value, third := values[0], values[1], len(values) == 3
	switch {
	case acquired == 1 && value > 0 && (!third || values[2] >= 0):
		o := Outcome{Result: Granted, Token: value}
		if third {
			o.Reserved = values[2]
		}
		return o
	case acquired == 0:
		o := Outcome{Result: Refused, TTL: TTL(value)}
		if o.Next = o.TTL; third {
			if o.By = Foreign; values[2] == byStranger {
				o.By = Stranger
			}
		}
		return o
	}
	return OddAnswer(op, reply.Any())
}

// TakenWithoutToken reports whether an Alone call with this answer took the lock.
func TakenWithoutToken(reply resp.Reply) bool {
	pair := reply.Numbers()
	return len(pair) == 2 && pair[0] == 1
}

// Handoff gives a lock from one hold to the next.
type Handoff struct {
	Name, Counter, From, To string
	Lease                   time.Duration
	Least, More             int64 // tokens
	End                     *EndOfRun
}

// EndOfRun says that a hand-over is the last of a run. The script then releases the lock instead
// if others wait.
type EndOfRun struct {
	Ours    int64 // this client's own subscriptions, which do not count
	Publish any
	Await   time.Duration // the longest wait for a waiter that no message reaches
	Anyway  bool          // the lock is released in any case
}

// Call is handoff.
func (h Handoff) Call() Call {
	c := Call{Script: script.Handoff, Keys: 2, Args: resp.ArgsOf(h.Name, h.Counter), Least: h.Least}
	if h.End != nil {
		c.Keys = 3
		c.Args = c.Args.Add(keys.Polls(h.Name))
	}
	c.Args = c.Args.Add(h.From, h.To, Milliseconds(h.Lease), h.Least, h.More)
	if e := h.End; e != nil {
		c.Args = c.Args.Add(keys.Channel(h.Name), e.Ours).AddAny(e.Publish).Add(Milliseconds(e.Await), flag(e.Anyway))
	}
	return c
}

// ReadReleased reads the answer of a handoff that has released the lock. told is how many
// subscribers were told, and a waiter without a subscription tries in wait. ReadAcquire reads
// the answers of other handoffs.
func ReadReleased(reply resp.Reply) (told int64, wait time.Duration, released bool) {
	var what, left int64
	if !numbers(reply, &what, &told, &left) || what != 2 {
		return 0, 0, false
	}
	return told, max(TTL(left), 0), true
}

// Token mints a token for a lock that was taken without one.
func Token(counter string, least int64) Call {
	return Call{Script: script.Token, Keys: 1, Args: resp.ArgsOf(counter, least)}
}

// Reenter sets the count of an existing hold, and its least lease.
func Reenter(name, field string, count int32, lease time.Duration) Call {
	return Call{Script: script.Reenter, Keys: 1, Args: resp.ArgsOf(name, field, count, Milliseconds(lease))}
}

// Release releases a hold with all its counts. It copies field.
func Release(name string, field []byte, publish any) Call {
	var room [128]byte
	all := resp.ArgsOf(name).AddBytes(field).AddBytes(keys.AppendChannel(room[:0], name))
	return Call{Script: script.Release, Keys: 1, Args: published(all, publish)}
}

// Force deletes the holds whose fields follow the arguments.
func Force(name string, publish any) Call {
	return Call{Script: script.Force, Keys: 1, Args: resp.ArgsOf(name, keys.Channel(name)).AddAny(publish)}
}

// Guard runs a command if a hold has its lock. timeout is the key that lives as long as a read hold, and name
// for another hold.
func Guard(name, timeout, field, command string, keys []string, more []any) Call {
	all := resp.ArgsOf(name, timeout).AddStrings(keys).Add(field, command).AddAny(more...)
	return Call{Script: script.Guard, Keys: 2 + len(keys), Args: all}
}

// ReadGuard reads the answer of guard: the command's, unless the hold was gone.
func ReadGuard(reply any) (answer any, there, ok bool) {
	values, _ := reply.([]any)
	if len(values) == 0 {
		return nil, false, false
	}
	n, ok := values[0].(int64)
	if !ok || n != 0 && n != 1 {
		return nil, false, false
	}
	if len(values) > 1 {
		answer = values[1]
	}
	return answer, n == 1, true // a nil answer ends a Lua table
}
