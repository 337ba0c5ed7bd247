package hold

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/network"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
)

// New returns the Keeper of a client. It does no I/O.
func New(cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, errors: cfg.Errors}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.lost.Init(cfg.Cast, "forget losses", loss.forget)
	k.unlocks.Limit = cfg.UnlockTimeout
	k.Table = k.newTable()
	var err error
	k.Network, err = network.Connect(network.Config{
		Servers: cfg.Servers, ID: cfg.ID, Lease: cfg.Lease, IOTimeout: cfg.IOTimeout, Watchdog: cfg.Watchdog, Cast: cfg.Cast,
		Logger: cfg.Logger, Advice: cfg.Advice, Closed: cfg.Closed, Moved: k.relocate,
	})
	if err != nil {
		return nil, err
	}
	k.calls = calls{network: k.Network, slots: cfg.Traits.Slots, counters: cfg.Counters, ioTimeout: cfg.IOTimeout}
	k.Orphans = orphans.New(k.Network, cfg.Random, cfg.UnlockTimeout)
	return k, nil
}

// newTable returns the table of the client, whose Network need not be there yet.
func (k *Keeper) newTable() *locktable.Table[*Hold] {
	cfg := locktable.Config[*Hold]{
		MaxPoll: k.cfg.MaxPoll, FairPoll: fairSignEach(&k.cfg), FailFast: k.cfg.FailFast,
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
