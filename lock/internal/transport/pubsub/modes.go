package pubsub

import "github.com/wheellock/wheellock/lock/internal/support/wait"

// SubscribeModes says what a Subscriber listens for: in which ways its channels are subscribed.
type SubscribeModes struct {
	// Plain is for messages of PUBLISH, and Sharded for messages of SPUBLISH. Sharded
	// channels have slots, as keys have.
	Plain, Sharded bool
	// Certain says that all clients publish in one of these ways, so no message is missed.
	Certain bool
}

func (h SubscribeModes) wants(way int) bool {
	return way == plain && h.Plain || way == sharded && h.Sharded
}

// Retune makes the Subscriber listen for what Config.Modes says now. If that changes the
// ways of a channel, its listeners are woken when the change is confirmed.
func (s *Subscriber) Retune() {
	now := s.cfg.Modes()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retuneLocked(now)
}

// retuneLocked makes the Subscriber listen for now, and reports whether that is a change.
func (s *Subscriber) retuneLocked(now SubscribeModes) (isChanged bool) {
	if now == s.modes {
		return false
	}
	s.modes = now
	if s.conn == nil {
		return true
	}
	for _, t := range s.topics {
		if len(t.listeners) == 0 {
			continue // the channel is unsubscribed soon
		}
		if s.lacksLocked(t) {
			t.unconfirmLocked()
		}
		s.pending = append(s.pending, t)
	}
	wait.Signal(s.work)
	return true
}

// wantsLocked reports whether channels must be subscribed in that way, and can be.
func (s *Subscriber) wantsLocked(way int) bool {
	return s.modes.wants(way) && (way != sharded || !s.isShardedRefused)
}

// lacksLocked reports whether t lacks a subscription in a way that it needs.
func (s *Subscriber) lacksLocked(t *topic) bool {
	return s.wantsLocked(plain) && !t.ways[plain].asked || s.wantsLocked(sharded) && !t.ways[sharded].asked
}
