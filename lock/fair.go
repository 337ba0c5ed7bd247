package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

const (
	// fairGrace, and an IOTimeout, is how far ahead of the clock the score of a
	// waiter is after each sign of life, so how long Redisson waits for one that
	// died. It has room for a lost request and for clocks that differ by some
	// seconds, whatever MaxPoll is. To that come wire.FairPatience for each waiter of
	// Redisson's ahead, because each of those takes as much away once, when it gets
	// the lock or leaves. Ours change the scores of others only upwards: those
	// behind one that lives stay at least wire.FairPatience behind it, if they are
	// Redisson's, so a long wait drops nobody.
	fairGrace = (fairMissed + 2) * fairPeriod
	// fairPeriod is the longest time between two signs of life, and what is
	// believed of a sign that names none.
	fairPeriod = 2 * time.Second
	// fairMissed is how many missing signs make a waiter dead.
	fairMissed = 3
)

// FairMutex returns a Mutex that serves its waiters in the order in which they
// came, over all processes. It has the format of Redisson's RFairLock: besides
// the lock's hash there are a list of the waiters and a sorted set of times
// until which each may stay in the list. FairMutex does no I/O and keeps
// nothing; the first call that uses a bad name returns an error.
//
// It is slower than a plain Mutex under contention, because it is never handed
// on inside a process. A plain Mutex is fair enough for most uses.
//
// Each waiter has a place in Redis and gives a sign of life every 2 s, or every
// Config.MaxPoll if that is less. The sign says when the next one is due. If
// the first waiter is one of this package and gives no sign for three of its
// periods, it is passed over. So a waiter that has died costs some seconds, and
// a live waiter whose process was paused for that long goes to the end. A
// waiter that leaves gives up its place at once. A queue whose waiters have all
// died ends by itself. TryLock takes the lock only if nobody waits. ForceUnlock
// leaves the queue, and its first waiter gets its turn.
//
// The times in the queue are times of day, by the server's clock. Java
// processes, and clients whose user has no right to TIME, use their own clocks.
// One that is 8 s ahead considers a live waiter dead, and that waiter goes to
// the end. A waiter of Redisson is waited for as Redisson does, for up to 300 s
// after its turn came. Redisson waits 10 s and an IOTimeout for a waiter of
// ours that gives no sign.
func (c *Client) FairMutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name), kind: fairKind}
}

// fairMutexes are the rules of a FairMutex.
type fairMutexes struct{ mutexes }

func (fairMutexes) take(ctx context.Context, m *Mutex, a *attempt) (*Held, error) {
	p := &fairPlace{attempt: a}
	if !a.wait {
		return a.stand(ctx, locktable.FairMutexes, p, locktable.Request{})
	}
	defer p.end()
	return a.stand(ctx, locktable.FairMutexes, p, locktable.Request{Alone: true})
}

// release releases a hold, or a place in the queue.
func (fairMutexes) release(s *scripts, name, field string) wire.Call {
	return wire.FairRelease(name, field, time.Now(), fairGraceOf(s.ioTimeout)/2, s.publish(name))
}

func (fairMutexes) force(s *scripts, name string) (wire.Call, string) {
	return wire.FairForce(name, s.publish(name)), notMutex
}

// fairGraceOf is how far ahead of the clock a score is.
func fairGraceOf(ioTimeout time.Duration) time.Duration { return fairGrace + ioTimeout }

// fairSignEach is how long a waiter sleeps at most between two signs of life.
func fairSignEach(cfg Config) time.Duration { return min(cfg.MaxPoll, fairPeriod) }

// fairNextSign is the period after which the other waiters, whose MaxPoll may differ, may miss
// the next sign. fairMissed of these periods leave room for a request that is lost.
func fairNextSign(cfg Config) time.Duration {
	return max(min(fairSignEach(cfg)+cfg.IOTimeout/fairMissed, fairPeriod), time.Millisecond)
}

// readFair reads the answer of fair_take: token is 0 if the lock is not acquired, and then
// other says why.
func readFair(s *scripts, name string, a pipe.Answer) (token int64, other wire.FairRefusal, err error) {
	if a.Err != nil {
		return 0, other, s.callError("acquire", name, a)
	}
	token, other, ok := wire.ReadFair(a.Reply)
	if !ok {
		return 0, other, badReply("acquire", name, a.Reply)
	}
	return token, other, nil
}
