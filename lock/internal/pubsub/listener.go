package pubsub

// Listener is how one waiter listens to one channel at a time. It is owned by the
// waiter's goroutine.
type Listener struct {
	wake  chan struct{} // immutable; of capacity 1
	topic *topic        // nil while it does not listen
	seen  int           // the topic's confirmations when the last try began
}

// NewListener returns a Listener that puts a token into wake, which has capacity 1,
// at each message and each confirmation of its channel.
func NewListener(wake chan struct{}) Listener { return Listener{wake: wake} }

// Wake is where the tokens come.
func (l *Listener) Wake() chan struct{} { return l.wake }

// Listen hears channel at s, the server that has the key now, and nothing else.
func (l *Listener) Listen(s *Subscriber, channel string) {
	if l.topic != nil && l.topic.channel == channel && l.topic.listenedAt(s) {
		return
	}
	l.Leave()
	l.topic, l.seen = s.listen(channel, l.wake), 0
}

// Listening reports whether Listen was called, and Leave was not.
func (l *Listener) Listening() bool { return l.topic != nil }

// Leave ends Listen.
func (l *Listener) Leave() {
	if l.topic != nil {
		l.topic.leave(l.wake)
		l.topic = nil
	}
}

// Begin is called before a try.
func (l *Listener) Begin() {
	if l.topic != nil {
		l.seen = l.topic.confirmations()
	}
}

// Missed reports whether the channel was confirmed since the try began: a message
// that came before was not heard, so it is to be tried once more.
func (l *Listener) Missed() bool {
	if l.topic == nil {
		return false
	}
	n := l.topic.confirmations()
	return n != 0 && n != l.seen
}

// HeardAll reports whether every message since the try began was heard.
func (l *Listener) HeardAll() bool { return l.seen != 0 && l.topic.confirmations() == l.seen }

// Heard is what was heard of a channel at some moment. Two are equal if nothing came
// between.
type Heard struct {
	messages      uint64
	confirmations int
}

// Confirmed reports whether the channel was subscribed then.
func (h Heard) Confirmed() bool { return h.confirmations != 0 }

// Heard returns what was heard of the channel up to now. The Listener must be
// listening.
func (l *Listener) Heard() Heard {
	t := l.topic
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	h := Heard{messages: t.messages}
	if t.confirmed {
		h.confirmations = t.generation
	}
	return h
}
