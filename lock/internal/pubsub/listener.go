package pubsub

import "time"

// Listener is how one waiter listens to one channel at a time. It is owned by the
// waiter's goroutine.
type Listener struct {
	wake  chan struct{} // immutable; of capacity 1
	topic *topic        // nil while it does not listen
}

// NewListener returns a Listener that puts a token into wake, which has capacity 1,
// at each message and each confirmation of its channel.
func NewListener(wake chan struct{}) Listener { return Listener{wake: wake} }

// Wake is where the tokens come.
func (l *Listener) Wake() chan struct{} { return l.wake }

// Listen hears channel at s, the server that has the key now, and nothing else. It
// returns false if it did so already.
func (l *Listener) Listen(s *Subscriber, channel string) bool {
	if l.topic != nil && l.topic.channel == channel && l.topic.listenedAt(s) {
		return false
	}
	l.Leave()
	l.topic = s.listen(channel, l.wake)
	return true
}

// Leave ends Listen.
func (l *Listener) Leave() {
	if l.topic != nil {
		l.topic.leave(l.wake)
		l.topic = nil
	}
}

// News is what a Listener has to tell of its channel.
type News struct {
	// Confirmed changes with each confirmation, and is never what it was before. It is
	// 0 before the first, and while nobody listens.
	Confirmed int
	Messages  uint64 // how many
	// Upto: whatever was published since the last confirmation, and before Upto, was
	// heard. It is zero while that is not known, or Hearing is not certain.
	Upto time.Time
}

// News returns what there is up to now.
func (l *Listener) News() News {
	if l.topic == nil {
		return News{}
	}
	s := l.topic.sub
	s.mu.Lock()
	defer s.mu.Unlock()
	news := News{Confirmed: l.topic.generation, Messages: l.topic.messages}
	if l.topic.confirmed && s.hearing.Certain {
		news.Upto = s.heard
	}
	return news
}
