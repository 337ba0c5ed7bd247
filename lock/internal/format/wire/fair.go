package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// The values that fair_take answers in place of the time that is left of the holder's lease. That
// time may be 0, if the lease ends in the same millisecond.
const (
	FairNoTTL = -1 // the lock is held and has no TTL
	FairFree  = -2 // nobody holds it, and it is the turn of the first in the queue
)

// FairPatience is how long Redisson waits for the first waiter, its threadWaitTime.
const FairPatience = 300 * time.Second

// FairTake takes a fair lock, or a place in its queue.
type FairTake struct {
	Name, Counter, Field string
	Lease                time.Duration
	Least                int64 // token
	Now                  time.Time
	Sign                 string        // of life; "": it does not stand in the queue
	Dead, DeadSign       string        // the first in the queue if it is dead, and its last sign
	Queue                time.Duration // for how long the queue lives without a sign
	Grace                time.Duration // for how long Redisson waits for a sign
	Publish              any
	Past                 []string // earlier fields of this waiter, whose place it takes
}

// Call returns the call of fair_take, without the fields whose release is pending.
func (f FairTake) Call() Call {
	return Call{Script: script.FairTake, Keys: 5, Args: resp.ArgsOf(
		f.Name, keys.FairQueue(f.Name), keys.FairScores(f.Name), keys.FairSigns(f.Name), f.Counter,
		f.Field, Milliseconds(f.Lease), f.Least, f.Now.UnixMilli(), Milliseconds(FairPatience), f.Sign, f.Dead, f.DeadSign,
		Milliseconds(f.Queue), keys.Channel(f.Name),
	).AddAny(f.Publish).Add(Milliseconds(f.Grace), len(f.Past))}.With(f.Past)
}

// FairQueue is what an answer of fair_take or fair_sign says of the queue.
type FairQueue struct {
	TTL         time.Duration // what is left of the holder's lease, FairNoTTL or FairFree
	First, Sign string        // the first field in the queue, and its sign of life
	Foreign     bool          // the holder is another library's
}

// Refusal is the Outcome of a call that does not get the lock. It does not say when the lock may be
// free, because only the first in the queue needs that.
func (q FairQueue) Refusal() Outcome {
	o := Outcome{Result: Refused, TTL: q.TTL, Next: -1}
	if q.TTL == FairFree {
		o.TTL = 0 // only the waiters in the queue keep the call from the lock
	}
	if q.Foreign {
		o.By = Foreign
	}
	return o
}

// ReadFair reads the answer of fair_take. If it did not acquire the lock, q says more.
func ReadFair(reply resp.Reply) (o Outcome, q FairQueue) {
	var taken, token int64
	if numbers(reply, &taken, &token) && taken == 1 && token > 0 {
		return Outcome{Result: Granted, Token: token}, q
	}
	values, _ := reply.Other().([]any)
	if len(values) != 5 {
		return OddAnswer("acquire", reply.Any()), q
	}
	acquired, ok1 := values[0].(int64)
	q, ok2 := readFirst(values[1:4])
	foreign, ok3 := values[4].(int64)
	if !ok1 || !ok2 || !ok3 || acquired != 0 {
		return OddAnswer("acquire", reply.Any()), FairQueue{}
	}
	q.Foreign = foreign == 1
	return q.Refusal(), q
}

// readFirst reads the remaining lease of the holder, and the first waiter in the queue.
func readFirst(values []any) (q FairQueue, ok bool) {
	pttl, ok1 := values[0].(int64)
	who, ok2 := values[1].([]byte)
	what, ok3 := values[2].([]byte)
	q = FairQueue{TTL: time.Duration(pttl), First: string(who), Sign: string(what)}
	if pttl >= 0 {
		q.TTL = TTL(pttl)
	}
	return q, ok1 && ok2 && ok3
}

// FairSign gives signs of life for waiters of one client.
type FairSign struct {
	Name   string
	Now    time.Time
	Queue  time.Duration // as of FairTake
	Grace  time.Duration // as of FairTake
	Period time.Duration // after which others may miss the next sign
	Places []FairPlace
}

// FairPlace is a waiter of FairSign: its field, and the number of its sign of life.
type FairPlace struct {
	Field  string
	Number uint64
}

// Call returns the call of fair_sign.
func (f FairSign) Call() Call {
	args := resp.ArgsOf(
		f.Name, keys.FairQueue(f.Name), keys.FairScores(f.Name), keys.FairSigns(f.Name),
		f.Now.UnixMilli(), Milliseconds(FairPatience), Milliseconds(f.Queue), Milliseconds(f.Grace), rest(f.Period),
	)
	for _, p := range f.Places {
		args = args.Add(p.Field, int64(p.Number))
	}
	return Call{Script: script.FairSign, Keys: 4, Args: args}
}

// ReadFairSign reads the answer of fair_sign for n waiters, which is Refused or Unknown. left has,
// for each of them, whether nothing was done for it, so that it must send fair_take.
func ReadFairSign(reply resp.Reply, n int) (o Outcome, q FairQueue, left []bool) {
	values, _ := reply.Other().([]any)
	if len(values) != 4 {
		return OddAnswer("acquire", reply.Any()), q, nil
	}
	q, ok1 := readFirst(values[:3])
	text, ok2 := values[3].([]byte)
	if !ok1 || !ok2 || len(text) != n {
		return OddAnswer("acquire", reply.Any()), FairQueue{}, nil
	}
	left = make([]bool, n)
	for i, digit := range text {
		left[i] = digit == '1'
	}
	return q.Refusal(), q, left
}

// FairRelease releases a hold, or a place in the queue.
func FairRelease(name, field string, now time.Time, grace time.Duration, publish any) Call {
	return Call{Script: script.FairRelease, Keys: 4, Args: resp.ArgsOf(
		name, keys.FairQueue(name), keys.FairScores(name), keys.FairSigns(name),
		field, keys.Channel(name), now.UnixMilli(), Milliseconds(grace),
	).AddAny(publish)}
}

// FairForce is Force of a fair lock.
func FairForce(name string, publish any) Call {
	return Call{Script: script.FairForce, Keys: 2, Args: resp.ArgsOf(name, keys.FairQueue(name), keys.Channel(name)).AddAny(publish)}
}

// Sign is the n-th sign of life of a waiter. It names the period after which others may miss
// the next one.
func Sign(n uint64, period time.Duration) string {
	return strconv.FormatUint(n, 10) + rest(period)
}

// rest returns the part of a sign of life behind the number.
func rest(period time.Duration) string { return "/" + strconv.FormatInt(Milliseconds(period), 10) }

// PeriodOf is the period that a sign names: from 1 ms to longest, and longest if it names none.
func PeriodOf(sign string, longest time.Duration) time.Duration {
	_, text, _ := strings.Cut(sign, "/")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return longest
	}
	return time.Duration(min(max(n, 1), Milliseconds(longest))) * time.Millisecond
}
