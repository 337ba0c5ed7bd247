package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// PermitTake takes permits whose leases end.
type PermitTake struct {
	Name, IDs string // IDs is the beginning of the permits' ids
	N         int64
	Fewer     bool // as many as are free will do
	Lease     time.Duration
	Now       time.Time
	Publish   any
}

// Call returns the call of permit_take, without the fields whose release is pending.
func (p PermitTake) Call() Call {
	now := p.Now.UnixMilli()
	return Call{Script: script.PermitTake, Keys: 2, Args: resp.ArgsOf(
		p.Name, keys.PermitsTaken(p.Name), p.IDs, p.N, flag(p.Fewer), now+Milliseconds(p.Lease), now, keys.SemaphoreChannel(p.Name),
	).AddAny(p.Publish)}
}

// ReadPermits reads the answer of permit_take.
func ReadPermits(op string, reply resp.Reply) Outcome {
	o, left := Outcome{Result: Refused, Next: -1}, int64(0)
	if !numbers(reply, &o.Taken, &o.Free, &left) {
		return OddAnswer(op, reply.Any())
	}
	if left >= 0 {
		o.Next = TTL(left) + time.Millisecond
	}
	if o.Taken > 0 {
		o.Result = Granted
	}
	return o
}

// PermitRelease releases the permits of a hold.
func PermitRelease(name, field string, publish any) Call {
	return Call{Script: script.PermitRelease, Keys: 2, Args: published(resp.ArgsOf(name, keys.PermitsTaken(name), field, keys.SemaphoreChannel(name)), publish)}
}

// PermitExtend is Reenter of a hold of permits, which has no count.
func PermitExtend(name, field string, lease time.Duration, now time.Time) Call {
	at := now.UnixMilli()
	return Call{Script: script.PermitExtend, Keys: 1, Args: resp.ArgsOf(keys.PermitsTaken(name), field, at+Milliseconds(lease), at)}
}

// PermitInspect asks what Redis knows about permits.
func PermitInspect(name string, now time.Time) Call {
	return Call{Script: script.PermitInspect, Keys: 2, Args: resp.ArgsOf(name, keys.PermitsTaken(name), now.UnixMilli())}
}

// ReadPermitInfo reads the answer of permit_inspect.
func ReadPermitInfo(reply any) (exists bool, free, taken int64, ok bool) {
	var there int64
	ok = numbers(resp.ReplyOf(reply), &there, &free, &taken)
	return there == 1, free, taken, ok
}

// PermitDeadline asks when the lease of a permit ends.
func PermitDeadline(name, id string) Call {
	return Call{Script: script.PermitDeadline, Keys: 1, Args: resp.ArgsOf(keys.PermitsTaken(name), id)}
}
