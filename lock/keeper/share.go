package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/wheel"
)

// MaxSharers is how many Keepers may have the same Config.Share. A further one keeps nothing until
// another one has ended.
const MaxSharers = 64

// sharers counts the Keepers that share a set. Every such Keeper keeps one of MaxSharers locks, which
// is its place, and counts the places that are held. Another Keeper, own, keeps the place.
type sharers struct {
	k        *Keeper
	places   []string       // immutable; their names
	own      *Keeper        // immutable; keeps one of the places
	releases *lock.Releases // immutable; of the places
	timer    wheel.Timer

	counting bool // guarded by k.mu; a count runs
	again    bool // guarded by k.mu; another count follows, because the running one may be too old
}

// placesOf returns the places of a share, or the error with which the client refuses their names.
func placesOf(client *lock.Client, share string) (places []string, err error) {
	for i := range MaxSharers {
		place := fmt.Sprintf("%s:sharer:%d", share, i)
		if err := client.CheckName(place); err != nil {
			return nil, fmt.Errorf("keeper: Config.Share makes names that the client refuses: %w", err)
		}
		places = append(places, place)
	}
	return places, nil
}

// newSharers begins to count.
func newSharers(k *Keeper, places []string) (*sharers, error) {
	s := &sharers{k: k, places: places}
	own, err := New(k.client, Config{
		Most: 1, Look: k.cfg.Look, AtOnce: 1,
		Taken: func(context.Context, string, *lock.Held) { s.countNow() },
	})
	if err != nil {
		return nil, err
	}
	s.own = own
	s.releases = k.client.NewReleases(func(string, bool) { s.countNow() })
	for _, place := range s.places {
		_ = s.releases.Follow(place) // placesOf has checked it
	}
	return s, own.Want(s.places...)
}

// leave gives the place back, so that others take the names that this Keeper gives back, however long
// its last functions run.
func (s *sharers) leave() { s.own.Drop(s.places...) }

// close waits until the place is given back.
func (s *sharers) close(ctx context.Context) error {
	s.releases.Close()
	return s.own.Close(ctx)
}

// countNow counts soon. It is called when this Keeper has got its place, and when another one may have
// left its place.
func (s *sharers) countNow() {
	if !s.timer.Touch(0) {
		s.countAfter(0)
	}
}

// countAfter counts after d, unless it is set already.
func (s *sharers) countAfter(d time.Duration) {
	_ = s.k.wheel.Schedule(&s.timer, d, s) // the error says that it is set, or that the Keeper is closed
}

// Fire counts on a goroutine of its own, because it asks Redis.
func (s *sharers) Fire(*wheel.Timer) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	switch {
	case s.k.core.closed:
	case s.counting:
		s.again = true
	default:
		s.counting = true
		s.k.goroutines.Go(s.count)
	}
}

// count asks which places are held, and sets the share. If Redis does not answer, or while this
// Keeper has no place, the share stays.
func (s *sharers) count() {
	k, n := s.k, 0
	s.countAfter(k.core.untilNextLook()) // first, so that countNow finds the timer set
	ttls, errs := k.client.TTLMany(k.tries, s.places)
	for _, ttl := range ttls {
		if ttl != 0 {
			n++
		}
	}
	known := errors.Join(errs...) == nil && s.own.Stats().Kept == 1

	k.mu.Lock()
	if known {
		k.core.sharers = max(n, 1)
	}
	if s.counting = false; s.again {
		s.again = false
		s.countNow()
	}
	giveUp := k.claimLocked(k.core.endSurplus())
	k.pumpLocked()
	k.mu.Unlock()
	giveUp()
}
