package lock

import (
	"context"
	"sync"
	"sync/atomic"
)

// manyAtOnce is how many requests one call of TryLockMany or UnlockMany has
// under way at most.
const manyAtOnce = 512

// Try says how the try for one name of TryLockMany ended: either Held or Err is
// nil.
type Try struct {
	Held *Held
	Err  error
}

// TryLockMany is TryLock of the Mutex of each name, with up to 512 requests under
// way at a time. Element i of the result belongs to names[i]. It returns when
// every try has ended, and leaves no goroutine behind. A service that takes its
// sessions at start has them many times sooner than with a loop.
//
// Every try has the rules of TryLock, and an error of its own: a name that is
// bad, held by another owner, or whose try was not answered does not stop the
// others. It is not one lock of many members, which is [NewMultiLock]: what was
// taken stays taken. Give it back with UnlockMany if the rest is of no use
// without the missing ones.
//
// When ctx ends, the requests under way end as those of TryLock do, and names
// whose turn comes later get the error of ctx without a request. Locks that were
// taken before stay held.
//
// If ctx carries an owner (WithOwner, Held.Context), it is the owner of all these
// locks. Otherwise every lock gets a fresh one. Tries of a name that occurs more
// than once are made one after the other in the order of names, so the second
// one re-enters or is refused as TryLock would be.
//
// Stats counts every name as one call. Hooks are called once for every name, from
// up to 512 goroutines, and before TryLockMany returns. Their order is the order
// in which answers come, which is not that of names; for one name it is that of
// TryLock.
func (c *Client) TryLockMany(ctx context.Context, names []string) []Try {
	tries := make([]Try, len(names))
	many(names, func(i int) { tries[i].Held, tries[i].Err = c.Mutex(names[i]).TryLock(ctx) })
	return tries
}

// UnlockMany is Held.Unlock of each of held, with up to 512 requests under way at
// a time. Error i of the result belongs to held[i]. A nil is passed over, and its
// error is nil. The Helds may be of any kind of lock and of different clients.
//
// Every Unlock has its own rules and its own Config.UnlockTimeout, and like
// Unlock it takes no notice of the end of ctx. If Redis does not answer at all,
// UnlockMany may take an UnlockTimeout for every 512 Helds. A Held that occurs
// more than once is unlocked in the order of held, and only the first time
// succeeds.
//
// Hooks are called once for every hold that ends, from up to 512 goroutines, in
// the order in which answers come, and before UnlockMany returns.
func UnlockMany(ctx context.Context, held []*Held) []error {
	errs := make([]error, len(held))
	many(held, func(i int) {
		if held[i] != nil {
			errs[i] = held[i].Unlock(ctx)
		}
	})
	return errs
}

// many calls do once with every index of keys, from at most manyAtOnce goroutines
// of which the caller's is one. For equal keys it calls do one after the other,
// in their order.
//
// A goroutine that waits for an answer is all that a request under way needs, so
// the rules of one lock are not written a second time for many. Their number does
// not rise with that of the keys.
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

// chains returns where each key occurs first, and for each occurrence the next
// one of the same key, or -1.
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
