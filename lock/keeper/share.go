package keeper

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/wheel"
)

// MaxSharers is how many Keepers may have the same Config.Share. A further one keeps nothing until
// another one has ended.
const MaxSharers = 64

// sharers counts the Keepers that share a set. Each of them keeps one of MaxSharers locks, its
// place, and counts the places that are held. A Keeper of its own keeps the place.
type sharers struct {
	k      *Keeper
	places []string // immutable; their names
	own    *Keeper  // immutable; keeps one of the places
	timer  wheel.Timer
}

// newSharers begins to count.
func newSharers(k *Keeper) (*sharers, error) {
	s := &sharers{k: k}
	for i := range MaxSharers {
		s.places = append(s.places, fmt.Sprintf("%s:sharer:%d", k.cfg.Share, i))
	}
	own, err := New(k.client, Config{
		Most: 1, Look: k.cfg.Look, AtOnce: 1,
		Taken: func(context.Context, string, *lock.Held) {
			if !s.timer.Touch(0) {
				s.countAfter(0)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	s.own = own
	own.Want(s.places...)
	return s, nil
}

// countAfter counts after d, unless it is set already.
func (s *sharers) countAfter(d time.Duration) {
	_ = s.k.wheel.Schedule(&s.timer, d, s) // the error says that it is set, or that the Keeper is closed
}

// Fire counts on a goroutine of its own, because it asks Redis.
func (s *sharers) Fire(*wheel.Timer) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	if !s.k.core.closed {
		s.k.workers++
		s.k.goroutines.Go(s.count)
	}
}

// count asks which places are held, and sets the share. If Redis does not answer, or while this
// Keeper has no place, the share stays.
func (s *sharers) count() {
	k, n, known := s.k, 0, true
	for _, place := range s.places {
		isHeld, err := k.client.Mutex(place).IsLocked(k.tries)
		if known = err == nil; !known {
			break
		}
		if isHeld {
			n++
		}
	}
	known = known && s.own.Stats().Kept == 1
	s.countAfter(k.core.untilNextLook())

	k.mu.Lock()
	if known {
		k.core.sharers = max(n, 1)
	}
	giveUp := k.claimLocked(k.core.surplus())
	k.pumpLocked()
	k.workers--
	k.endIfIdleLocked()
	k.mu.Unlock()
	giveUp()
}
