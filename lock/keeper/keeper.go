package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/wheel"
)

// ErrGivenUp is the cause of the context of Config.Taken when the name was dropped, when the
// Keeper has more than Config.Most names, and at Close.
var ErrGivenUp = errors.New("keeper: the name is given up")

// Keeper keeps the locks of a set of names. All methods are safe for concurrent
// use, also in the functions of Config. A Keeper must be closed, before its client.
type Keeper struct {
	client   *lock.Client       // immutable
	cfg      Config             // immutable
	wheel    *wheel.Wheel       // immutable
	share    *sharers           // immutable; nil without Config.Share
	releases *lock.Releases     // immutable; of the names that others have
	tries    context.Context    // immutable; ends at Close
	stop     context.CancelFunc // immutable; ends tries
	idle     chan struct{}      // immutable; closed when the Keeper is closed and has nothing left

	mu      sync.Mutex // guards what follows and all entries; never held during I/O or while a function of Config runs
	core    core
	pacer   wheel.Timer // set while tries must wait for their time
	toGive  []*entry    // whose locks are to be released
	giving  bool        // a goroutine releases them
	looking bool        // a goroutine looks at names
	isIdle  bool        // idle is closed
	stats   Stats       // the counters

	goroutines sync.WaitGroup // all that this Keeper started, without the goroutines of the wheel
}

// New returns a Keeper that wants no name yet, or one error with all faults of its
// arguments. It does no I/O, unless Config.Share is set. One client may have several
// Keepers, of different names.
func New(client *lock.Client, cfg Config) (*Keeper, error) {
	cfg, err := cfg.withDefaults()
	var places []string
	switch {
	case client == nil:
		err = errors.Join(errors.New("keeper: the client is nil"), err)
	case cfg.Share != "":
		var refused error
		places, refused = placesOf(client, cfg.Share)
		err = errors.Join(err, refused)
	}
	if err != nil {
		return nil, err
	}
	w, err := wheel.New(wheel.Config{})
	if err != nil {
		return nil, err
	}
	k := &Keeper{client: client, cfg: cfg, wheel: w, idle: make(chan struct{}), core: newCore(cfg, rand.Float64)}
	k.tries, k.stop = context.WithCancel(context.Background())
	k.releases = client.NewReleases(k.heard)
	if cfg.Share != "" {
		if k.share, err = newSharers(k, places); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// underLock is how many names a method changes before it lets others have mu.
const underLock = 512

// Want adds names to the wanted ones. It does not wait for Redis. A name that is
// wanted already stays as it is. A name that was dropped and is not given back yet
// is asked for when it is. After Close, Want does nothing.
//
// Names are those of lock.Client.Mutex, without Config.KeyPrefix. The error is for
// names that Mutex refuses, which are not wanted; the others are.
func (k *Keeper) Want(names ...string) error {
	var first error
	refused := 0
	for some := range slices.Chunk(names, underLock) {
		k.mu.Lock()
		for _, name := range some {
			if err := k.client.CheckName(name); err == nil {
				k.core.want(k, name)
			} else if refused++; first == nil {
				first = err
			}
		}
		k.lookLocked()
		k.pumpLocked()
		k.mu.Unlock()
	}
	if refused > 0 {
		return fmt.Errorf("keeper: %d of %d names are refused and not wanted, the first because: %w", refused, len(names), first)
	}
	return nil
}

// Drop removes names from the wanted ones. It does not wait for Redis. The context
// of a name that is kept ends before Drop returns. The name is given back when
// Taken and Ended have returned. A name that is not wanted is ignored.
func (k *Keeper) Drop(names ...string) {
	for some := range slices.Chunk(names, underLock) {
		k.mu.Lock()
		var ends []*entry
		var others []context.CancelCauseFunc // of names that end already, whose contexts may be ended later
		for _, name := range some {
			switch e := k.core.entries[name]; {
			case e == nil:
			case k.dropLocked(e):
				ends = append(ends, e)
			case e.state == ending && e.cancel != nil:
				others = append(others, e.cancel)
			}
		}
		ends = append(ends, k.core.endSurplus()...) // a part of fewer names is smaller
		giveUp := k.claimLocked(ends)
		k.pumpLocked()
		k.mu.Unlock()
		giveUp()
		for _, cancel := range others {
			cancel(ErrGivenUp)
		}
	}
}

// SetMost changes Config.Most. If the Keeper keeps more than n names, it gives up
// as many as are too many, any of them, as Drop does. They stay wanted. n is at
// least 1; 0 or less means no limit.
func (k *Keeper) SetMost(n int) {
	k.mu.Lock()
	k.core.most = max(n, 0)
	giveUp := k.claimLocked(k.core.endSurplus())
	k.pumpLocked()
	k.mu.Unlock()
	giveUp()
}

// Stats returns a snapshot. It does no I/O.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, counts := k.stats, &k.core.counts
	s.Wanted, s.Kept, s.Asking, s.Ending = k.core.wanted, counts[kept], counts[asking], counts[ending]
	s.Sharers = k.core.sharers
	s.Waiting, s.Failing = counts[resting]+counts[due]+counts[looking]+counts[ready], k.core.isDown()
	return s
}

// Close drops all names and waits until all of them are given back. Their contexts
// end at once. Locks are released many at a time, as by lock.UnlockMany.
//
// If ctx ends first, the error is ctx.Err() (errors.Is) and says how many names
// were not given back. These are names whose Taken or Ended has not returned, or
// whose server has not answered. Their locks are renewed until the client is
// closed, and are released when the functions have returned. Close may be called
// again, which waits again. Do not call Close in Taken or Ended, because Close
// waits for them.
//
// After nil, no goroutine of the Keeper runs.
func (k *Keeper) Close(ctx context.Context) error {
	k.stop()
	k.mu.Lock()
	k.core.closed = true
	names := slices.Collect(maps.Keys(k.core.entries))
	k.mu.Unlock()
	k.Drop(names...)
	if k.share != nil {
		k.share.leave()
	}
	k.mu.Lock()
	k.endIfIdleLocked()
	k.mu.Unlock()
	k.wheel.Stop()
	for _, done := range []<-chan struct{}{k.idle, k.wheel.Done()} {
		select {
		case <-done:
			continue
		default:
		}
		select {
		case <-done:
		case <-ctx.Done():
			k.mu.Lock()
			left := len(k.core.entries)
			k.mu.Unlock()
			return fmt.Errorf("keeper: close: %d names were not given back: %w", left, ctx.Err())
		}
	}
	k.goroutines.Wait() // this is short, because the context of their requests, tries, has ended
	k.releases.Close()
	if k.share != nil {
		return k.share.close(ctx)
	}
	return nil
}

// dropLocked is core.drop with the timer.
func (k *Keeper) dropLocked(e *entry) (ends bool) {
	ends = k.core.drop(e)
	if e.state == gone {
		e.timer.Stop()
		k.followLocked(e)
	}
	return ends
}

// claimLocked prepares the end of names that the core has moved from kept to ending. The caller
// calls the returned function without mu, because functions of the program may follow from the end of
// a context.
func (k *Keeper) claimLocked(ends []*entry) (giveUp func()) {
	k.stats.GivenUp += uint64(len(ends))
	cancels := make([]context.CancelCauseFunc, len(ends))
	var mine []*entry // those whose Taken has returned; the others go on by themselves
	for i, e := range ends {
		cancels[i] = e.cancel
		if !e.running {
			mine = append(mine, e)
		}
	}
	return func() {
		for _, cancel := range cancels {
			cancel(ErrGivenUp)
		}
		k.end(mine)
	}
}
