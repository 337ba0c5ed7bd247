package pubsub

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// listener is woken at each message and each confirmation of its channel, and told when the channel is
// not subscribed any more. Both methods are called with the mutex of a Subscriber, and do not wait.
type listener interface {
	wakeLocked()
	deafenLocked()
}

// token is a listener that puts a token into a channel of capacity 1.
type token chan struct{}

func (t token) wakeLocked() { wait.Signal(t) }

// deafenLocked does nothing, because a waiter asks Redis from time to time in any case.
func (t token) deafenLocked() {}

// Listener lets one waiter listen to one channel at a time. Only the goroutine of the
// waiter uses it.
type Listener struct {
	self  listener // immutable
	topic *topic   // nil while it does not listen
}

// NewListener returns a Listener that puts a token into wake, which has capacity 1,
// at each message and each confirmation of its channel.
func NewListener(wake chan struct{}) Listener { return Listener{self: token(wake)} }

// Wake returns the channel that gets the tokens.
func (l *Listener) Wake() chan struct{} { return l.self.(token) }

// Listen listens to channel at s, the server that has the key now, and leaves any other
// channel. It returns false if it already listened there.
func (l *Listener) Listen(s *Subscriber, channel string) bool {
	if l.topic != nil && l.topic.channel == channel && l.topic.belongsTo(s) {
		return false
	}
	l.Leave()
	l.topic = s.listen(channel, l.self)
	return true
}

// Leave ends what Listen began.
func (l *Listener) Leave() {
	if l.topic != nil {
		l.topic.leave(l.self)
		l.topic = nil
	}
}

// News is what a Listener has received on its channel.
type News struct {
	// Confirmed gets a new value with each confirmation, and never an earlier one. It
	// is 0 before the first confirmation, and while the Listener does not listen.
	Confirmed int
	Listening bool   // the channel is subscribed now
	Messages  uint64 // the number of messages
	// Upto says that all messages published between the last confirmation and Upto were
	// received. It is zero while that is not known, or SubscribeModes.Certain is false. It is never
	// later than Config.MasterSeen, because a subscription at a replica may miss messages.
	Upto time.Time
}

// News returns what was received up to now.
func (l *Listener) News() News {
	if l.topic == nil {
		return News{}
	}
	s := l.topic.sub
	var proved time.Time
	if s.cfg.MasterSeen != nil {
		proved = s.cfg.MasterSeen()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	news := News{Confirmed: l.topic.generation, Listening: l.topic.confirmed, Messages: l.topic.messages}
	if l.topic.confirmed && s.modes.Certain {
		news.Upto = s.lastPong
		if s.cfg.MasterSeen != nil && proved.Before(s.lastPong) {
			news.Upto = proved
		}
	}
	return news
}
