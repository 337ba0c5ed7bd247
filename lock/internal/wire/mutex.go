package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// Acquire takes a lock of one owner.
type Acquire struct {
	Name, Counter, Field string
	Lease                time.Duration
	Least                int64         // token
	More                 int64         // tokens that are reserved for later holders
	Again                time.Duration // a caller that hears of no release tries again in that time; 0: it hears
}

// Call is acquire.
func (a Acquire) Call() Call {
	c := Call{Script: script.Acquire, Keys: 2, Args: make([]any, 0, 8), Least: a.Least}
	c.Args = append(c.Args, a.Name, a.Counter)
	if a.Again > 0 {
		c.Keys = 3
		c.Args = append(c.Args, keys.Polls(a.Name))
	}
	c.Args = append(c.Args, a.Field, Milliseconds(a.Lease), a.Least, a.More, Milliseconds(a.Again))
	return c
}

// Granted is what a script that takes a lock has brought.
type Granted struct {
	Token int64 // 0: it was not taken
	More  int64 // tokens that are reserved behind it
}

// Refusal is why a lock was not taken.
type Refusal struct {
	TTL      time.Duration // of the key; -1 if it never expires
	Foreign  bool          // another library holds it
	Stranger bool          // Redisson holds it
}

// byStranger is the third value of the answer of a script that does not take a lock,
// because Redisson holds it.
const byStranger = 2

// ReadAcquire reads the answer of acquire, handoff, rw_read and rw_write. Either g.Token is
// above 0, or r says why it was not taken.
func ReadAcquire(reply any) (g Granted, r Refusal, ok bool) {
	values, ok := reply.([]any)
	if !ok || len(values) != 2 && len(values) != 3 {
		return g, r, false
	}
	acquired, ok1 := values[0].(int64)
	value, ok2 := values[1].(int64)
	switch {
	case ok1 && ok2 && acquired == 1 && value > 0:
		if len(values) == 3 {
			g.More, ok1 = values[2].(int64)
		}
		if ok1 && g.More >= 0 {
			g.Token = value
			return g, r, true
		}
	case ok1 && ok2 && acquired == 0:
		r.TTL = TTL(value)
		if len(values) == 3 {
			r.Stranger = values[2] == any(int64(byStranger))
			r.Foreign = !r.Stranger
		}
		return g, r, true
	}
	return Granted{}, Refusal{}, false
}

// TakenWithoutToken reports whether that is the answer of an Alone call that took the lock.
func TakenWithoutToken(reply any) bool {
	pair, _ := reply.([]any)
	return len(pair) == 2 && pair[0] == any(int64(1))
}

// Handoff gives a lock from one hold to the next.
type Handoff struct {
	Name, Counter, From, To string
	Lease                   time.Duration
	Least, More             int64 // tokens
	End                     *EndOfRun
}

// EndOfRun says that a hand-over is the last of a run: the lock is released instead if others
// wait.
type EndOfRun struct {
	Ours    int64 // subscriptions of this client's own, which do not count
	Publish any
	Await   time.Duration // for how long one that no message reaches is waited for
	Anyway  bool          // it is released whoever waits
}

// Call is handoff.
func (h Handoff) Call() Call {
	c := Call{Script: script.Handoff, Keys: 2, Args: make([]any, 0, 13), Least: h.Least}
	c.Args = append(c.Args, h.Name, h.Counter)
	if h.End != nil {
		c.Keys = 3
		c.Args = append(c.Args, keys.Polls(h.Name))
	}
	c.Args = append(c.Args, h.From, h.To, Milliseconds(h.Lease), h.Least, h.More)
	if e := h.End; e != nil {
		c.Args = append(c.Args, keys.Channel(h.Name), e.Ours, e.Publish, Milliseconds(e.Await), flag(e.Anyway))
	}
	return c
}

// ReadReleased reads the answer of a handoff that has released the lock: so many subscribers
// were told, and one that was not tries in wait. The answers of others ReadAcquire reads.
func ReadReleased(reply any) (told int64, wait time.Duration, released bool) {
	var what, left int64
	if !numbers(reply, &what, &told, &left) || what != 2 {
		return 0, 0, false
	}
	return told, time.Duration(left) * time.Millisecond, true
}

// Token mints a token for a lock that was taken without one.
func Token(counter string, least int64) Call {
	return Call{Script: script.Token, Keys: 1, Args: []any{counter, least}}
}

// Reenter sets the count of a hold, which must be there, and its least lease.
func Reenter(name, field string, count int32, lease time.Duration) Call {
	return Call{Script: script.Reenter, Keys: 1, Args: []any{name, field, count, Milliseconds(lease)}}
}

// Release gives a whole hold back.
func Release(name, field string, publish any) Call {
	return Call{Script: script.Release, Keys: 1, Args: published([]any{name, field, keys.Channel(name)}, publish)}
}

// Force deletes the holds whose fields come behind the arguments.
func Force(name string, publish any) Call {
	return Call{Script: script.Force, Keys: 1, Args: []any{name, keys.Channel(name), publish}}
}
