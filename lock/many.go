package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// manyAtOnce limits how many requests one call of TryLockMany or UnlockMany has
// under way.
const manyAtOnce = 512

// Try is the result for one name of TryLockMany. Either Held or Err is nil.
type Try struct {
	Held *Held
	Err  error
}

// TryLockMany is TryLock of the Mutex of each name, with up to 512 requests under
// way at a time. Element i of the result belongs to names[i]. TryLockMany returns
// when every try has ended, and leaves no goroutine behind. A service that takes
// its sessions at start has them many times sooner than with a loop.
//
// A process that should take over from another process calls TryLockMany again
// and again with the names that are still held, for example every second. A
// holder that lives renews its locks, so HeldError.TTL says only when the lock of
// a dead one is free. Held.Name begins with Config.KeyPrefix, and names do not.
//
// Every try has the rules of TryLock and an error of its own. A name that is bad,
// is held by another owner or got no answer does not stop the other tries. So
// the locks of TryLockMany are not one lock of many members, which is
// [NewMultiLock]. Locks that were taken stay taken. If they are of no use without
// the missing ones, give them back with UnlockMany.
//
// When ctx ends, the requests under way end as those of TryLock do. Names whose
// turn comes later get the error of ctx without a request. Locks that were taken
// before stay held. Give ctx a deadline, because while Redis does not answer,
// every 512 names take one Config.IOTimeout: 98 s for 50,000 names by default.
// A lock can be lost before TryLockMany returns, so ask Held.Valid of what you
// got.
//
// If ctx carries an owner (WithOwner, Held.Context), that owner holds all these
// locks. Otherwise every lock gets a fresh owner. Tries of a name that occurs
// more than once are made one after the other in the order of names. So the
// second try re-enters or is refused as TryLock would be.
//
// Stats counts every name as one call. Hooks are called once for every name, from
// up to 512 goroutines, and before TryLockMany returns. They are called in the
// order in which answers come, which is not the order of names. For one name, the
// order is that of TryLock.
func (c *Client) TryLockMany(ctx context.Context, names []string) []Try {
	tries := make([]Try, len(names))
	many(names, func(i int) { tries[i].Held, tries[i].Err = c.Mutex(names[i]).TryLock(ctx) })
	return tries
}

// TTLMany reads the rest of the lease of each name's lock, with up to 512 requests
// under way at a time, and without further goroutines. Element i of both results
// belongs to names[i]. As with Mutex.TTL, a result is 0 if nobody holds the lock,
// and -1 if its key has no TTL. Unlike Mutex.TTL, TTLMany does not look at what the
// key is, so it also tells of keys that are no locks, and costs a third of it.
//
// The answers may be out of date when TTLMany returns. ErrUnknown: Redis did not
// answer. When ctx ends, names without an answer get its error. A name that is bad
// has an error of its own.
func (c *Client) TTLMany(ctx context.Context, names []string) ([]time.Duration, []error) {
	ttls, errs := make([]time.Duration, len(names)), make([]error, len(names))
	closed := !c.table.Begin(c.id, true)
	if !closed {
		defer c.table.End(c.id)
		if c.traits.Slots {
			_ = c.network.Router().AwaitServer(ctx) // otherwise each name has the error
		}
	}
	type answer struct {
		i int
		pipe.Answer
	}
	answers := make(chan answer, manyAtOnce) // so that no answer waits for this call
	asked := make([]bool, len(names))        // a request is under way
	next, open := 0, 0
	for {
		for ; next < len(names) && open < manyAtOnce; next++ {
			i, key := next, c.key(names[next])
			if errs[i] = c.checkName(key); errs[i] == nil && closed {
				errs[i] = c.errors.Of(ctx, key, wire.Outcome{Result: wire.Closed})
			}
			if errs[i] == nil {
				asked[i] = true
				open++
				c.network.Post(key, wire.KeyTTL(key), func(a pipe.Answer) { answers <- answer{i, a} })
			}
		}
		if open == 0 {
			return ttls, errs
		}
		select {
		case a := <-answers:
			open--
			asked[a.i] = false
			c.network.Count(a.Answer)
			ttls[a.i], errs[a.i] = c.readTTL(ctx, names[a.i], a.Answer)
		case <-ctx.Done():
			for i, name := range names {
				if i >= next || asked[i] {
					_, errs[i] = c.readTTL(ctx, name, pipe.Answer{Err: wait.Ended(ctx), IsAbandoned: true})
				}
			}
			return ttls, errs
		}
	}
}

func (c *Client) readTTL(ctx context.Context, name string, a pipe.Answer) (time.Duration, error) {
	if a.Err != nil {
		return 0, c.errors.Of(ctx, c.key(name), c.holds.Outcome("ttl", a))
	}
	ttl, ok := wire.ReadKeyTTL(a.Reply)
	if !ok {
		return 0, badReply("ttl", c.key(name), a.Reply.Any())
	}
	return ttl, nil
}

// UnlockMany is Held.Unlock of each of held, with up to 512 requests under way at
// a time. Error i of the result belongs to held[i]. A nil is skipped, and its
// error is nil. The Helds may be of any kind of lock and of different clients.
//
// Every Unlock has the rules of Held.Unlock and a Config.UnlockTimeout of its
// own. UnlockMany works with a cancelled ctx, because ctx only carries values. If
// a server answers none of the requests for one UnlockTimeout, UnlockMany does
// not wait for that server any more. The rest of the server's Helds get
// ErrUnknown at once, and their client keeps trying to release them, as after
// Unlock. UnlockMany takes the Helds of each server in turn. So servers that fall
// silent cost at most two UnlockTimeouts together, however many Helds they
// have (P19).
//
// A Held that occurs more than once is unlocked in the order of held, and only
// the first time succeeds.
//
// Hooks are called once for every hold that ends, from up to 512 goroutines, in
// the order in which answers come, and before UnlockMany returns.
func UnlockMany(ctx context.Context, held []*Held) []error {
	errs := make([]error, len(held))
	turns := inTurns(held)
	inTurn := make([]*Held, len(turns))
	for j, i := range turns {
		inTurn[j] = held[i]
	}
	var unlocks hold.Unlocks
	many(inTurn, func(j int) { errs[turns[j]] = unlocks.Unlock(ctx, inTurn[j].in()) })
	return errs
}

// inTurns returns the indexes of held that are not nil: the first of each server, the second of each
// server, and so on. In the order of held, the requests to one silent server could delay the requests to
// all others, and then the requests to a second silent server could do the same.
func inTurns(held []*Held) []int {
	var servers [][]int // the indexes of each server's Helds
	number := make(map[any]int)
	for i, x := range held {
		if x == nil {
			continue
		}
		s := x.in().Server()
		n, known := number[s]
		if !known {
			n = len(servers)
			number[s], servers = n, append(servers, nil)
		}
		servers[n] = append(servers[n], i)
	}
	turns := make([]int, 0, len(held))
	for len(servers) > 0 {
		left := servers[:0]
		for _, s := range servers {
			turns = append(turns, s[0])
			if len(s) > 1 {
				left = append(left, s[1:])
			}
		}
		servers = left
	}
	return turns
}

// many calls do once with every index of keys, from at most manyAtOnce
// goroutines. The caller's goroutine is one of them. For equal keys, many calls do
// one after the other, in their order.
//
// Each request under way has a goroutine that waits for its answer. So the rules
// of one lock need not be written a second time for many. The number of
// goroutines does not rise with the number of keys.
func many[K comparable](keys []K, do func(i int)) {
	next, first := chains(keys)
	var taken atomic.Int64
	work := func() {
		for {
			i := int(taken.Add(1)) - 1
			if i >= len(first) {
				return
			}
			for i = first[i]; i >= 0; i = next[i] {
				do(i)
			}
		}
	}
	var others sync.WaitGroup
	for range min(manyAtOnce, len(first)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

// chains returns the index at which each key occurs first, and for each index the
// next index of the same key, or -1.
func chains[K comparable](keys []K) (next, first []int) {
	next, first = make([]int, len(keys)), make([]int, 0, len(keys))
	last := make(map[K]int, len(keys))
	for i, key := range keys {
		next[i] = -1
		if before, again := last[key]; again {
			next[before] = i
		} else {
			first = append(first, i)
		}
		last[key] = i
	}
	return next, first
}
