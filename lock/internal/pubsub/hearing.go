package pubsub

// Hearing says what a Subscriber listens for.
type Hearing struct {
	// Plain is what PUBLISH sends, and Sharded what SPUBLISH sends: there channels
	// have slots, as keys have.
	Plain, Sharded bool
	// Certain: everybody who publishes does so in one of these ways.
	Certain bool
}

func (h Hearing) wants(way int) bool { return way == plain && h.Plain || way == sharded && h.Sharded }

// Retune makes the Subscriber listen for what Config.Hearing says now. Listeners of
// channels that are heard in another way from now on are woken when that is confirmed.
func (s *Subscriber) Retune() {
	now := s.cfg.Hearing()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retuneLocked(now)
}

func (s *Subscriber) retuneLocked(now Hearing) {
	if now == s.hearing {
		return
	}
	s.hearing = now
	for _, t := range s.topics {
		if len(t.listeners) == 0 {
			continue // it is unsubscribed soon
		}
		if s.lacksLocked(t) {
			t.confirmed = false
		}
		s.pending = append(s.pending, t)
	}
	s.signal()
}

// wantsLocked reports whether channels are to be heard in that way, and can be.
func (s *Subscriber) wantsLocked(way int) bool {
	return s.hearing.wants(way) && (way != sharded || !s.deaf)
}

// lacksLocked reports whether t is not subscribed in a way in which it is to be heard.
func (s *Subscriber) lacksLocked(t *topic) bool {
	return s.wantsLocked(plain) && !t.ways[plain].asked || s.wantsLocked(sharded) && !t.ways[sharded].asked
}
