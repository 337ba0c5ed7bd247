package lock

// ear is how a waiter listens to a channel, from its first refusal on. It is
// owned by the waiter's goroutine and ready when wake is set.
type ear struct {
	wake  chan struct{} // immutable; of capacity 1: a message or a confirmation came
	topic *topic        // nil while it does not listen
	seen  int           // the topic's confirmations when the last try began
}

// listen hears channel at sub, the node that has the key now, and nothing else.
func (e *ear) listen(sub *subscriber, channel string) {
	if e.topic != nil && e.topic.channel == channel && e.topic.listenedAt(sub) {
		return
	}
	e.leave()
	e.topic, e.seen = sub.listen(channel, e.wake), 0
}

// leave ends listen.
func (e *ear) leave() {
	if e.topic != nil {
		e.topic.leave(e.wake)
		e.topic = nil
	}
}

// begin is called before a try.
func (e *ear) begin() {
	if e.topic != nil {
		e.seen = e.topic.confirmations()
	}
}

// missed reports whether the channel was confirmed since the try began: a
// message that came before was not heard, so it is to be tried once more.
func (e *ear) missed() bool {
	if e.topic == nil {
		return false
	}
	n := e.topic.confirmations()
	return n != 0 && n != e.seen
}

// heardAll reports whether every message since the try began was heard.
func (e *ear) heardAll() bool { return e.seen != 0 && e.topic.confirmations() == e.seen }
