package hold

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// New returns the Engine of a client. It does no I/O.
func New(cfg Config) (*Engine, error) {
	k := &Engine{cfg: cfg, errors: cfg.Errors}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.lost.Init(cfg.Labeler, "forget losses", loss.forget)
	k.unlocks.Limit = cfg.UnlockTimeout
	k.Table = k.newTable()
	var err error
	k.Network, err = network.Connect(network.Config{
		Servers: cfg.Servers, ID: cfg.ID, Lease: cfg.Lease, IOTimeout: cfg.IOTimeout, Watchdog: cfg.Watchdog, Labeler: cfg.Labeler,
		Logger: cfg.Logger, Advice: cfg.Advice, Closed: cfg.Closed, Moved: k.relocate,
	})
	if err != nil {
		return nil, err
	}
	k.Orphans = orphans.New(k.Network, cfg.Random, cfg.UnlockTimeout+cfg.IOTimeout)
	return k, nil
}

// newTable returns the table of the client, whose Network need not be there yet.
func (k *Engine) newTable() *locktable.Table[*Hold] {
	cfg := locktable.Config[*Hold]{
		Lease: k.cfg.Lease, MaxPoll: k.cfg.MaxPoll, FairPoll: fairSignEach(&k.cfg), FailFast: k.cfg.FailFast,
		HandOver:   k.cfg.Replicas == 0, // replicas know nothing of a hand-over
		Random:     k.cfg.Random,
		Subscriber: func(name string) *pubsub.Subscriber { return k.Network.Server(name).Subscriber() },
		Ahead:      func(name string) time.Duration { return k.Network.Server(name).Ahead() },
		Closing:    k.cfg.Closing, PassOn: k.releaseUnclaimed,
		LongWait: k.longWait, Logger: k.cfg.Logger,
	}
	if k.cfg.Traits.Slots {
		cfg.Place = k.place
	}
	return locktable.New(cfg)
}

// BeginClose refuses new holds, and tells the holders. Config.Closing is already closed. Call
// BeginClose once.
func (k *Engine) BeginClose() {
	for _, h := range k.Table.Close() {
		h.announceClose()
	}
}

// Close ends the holds that are left, and all that needs a server. Until ctx ends it waits for
// acquisitions under way and for pending releases. It returns how many of these were not answered. It
// does not wait for functions of the user; see Wait.
func (k *Engine) Close(ctx context.Context) (unanswered int) {
	k.cfg.Watchdog.Close()
	k.lost.Drain() // a loss may owe a release
	unanswered = k.Orphans.Close(ctx)
	k.cancel()
	k.Network.Close(k.cfg.Closed)
	return unanswered
}

// Wait returns after Close when no goroutine of the holds runs. It is apart from Close, because a
// goroutine that takes a member of a RedLock again calls hooks.
func (k *Engine) Wait() {
	k.wg.Wait()
	k.Table.Wait()
	k.lost.Drain()
}

// Settle returns when the holds that were lost so far are no longer in the table.
func (k *Engine) Settle() { k.lost.Drain() }

// followers are the Followers of a client, in the order in which they were added.
type followers struct {
	mu  sync.Mutex
	now []*pubsub.Follower // guarded by mu
}

func (x *followers) add(f *pubsub.Follower) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = append(x.now, f)
}

func (x *followers) remove(f *pubsub.Follower) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = slices.DeleteFunc(x.now, func(y *pubsub.Follower) bool { return y == f })
}

func (x *followers) all() []*pubsub.Follower {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.now)
}

// Follow runs f until ctx ends, and then calls ended. ctx must end with Context. If the client is
// closing, Follow only calls ended. Wait waits for f and ended.
func (k *Engine) Follow(ctx context.Context, f *pubsub.Follower, ended func()) {
	end := k.Begin(k.cfg.ID)
	if end == nil {
		f.Close()
		ended()
		return
	}
	defer end()
	k.followers.add(f)
	k.wg.Go(k.cfg.Labeler.Label("hear releases", func() {
		defer ended()
		defer k.followers.remove(f)
		if k.cfg.Traits.Slots {
			_ = k.Network.Router().AwaitServer(ctx) // so that somebody asks for the first Layout
		}
		f.Run(ctx)
	}))
}

// Begin begins work on the lock of that name. Close waits for that work, even if it no longer
// waits for holds. Begin returns nil if the client is closing. The caller must call end.
func (k *Engine) Begin(name string) (end func()) {
	if !k.Table.Begin(name, true) {
		return nil
	}
	k.wg.Add(1)
	return func() {
		k.Table.End(name)
		k.wg.Done()
	}
}
