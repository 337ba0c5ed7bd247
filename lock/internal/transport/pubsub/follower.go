package pubsub

import (
	"context"
	"sync"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// Follower listens to the channels of many names for one function. It has one goroutine
// for all of them. All methods are safe for concurrent use, and none does I/O.
type Follower struct {
	findPlace func(name string) (at *Subscriber, channel string) // immutable; returns where the messages of the name come now
	tell      func(name string, missed bool)                     // immutable; see Run

	// mu guards the fields below and some fields of each followed. It is taken under
	// Subscriber.mu. While it is held, neither function is called and no other mutex is taken.
	mu     sync.Mutex
	names  map[string]*followed
	queue  []*followed   // the names that handle is called for next, each once
	moved  bool          // Relocate was called, so handle is called for all names
	work   chan struct{} // of capacity 1; has a token if there is anything to do
	closed bool
}

// followed is one name of a Follower.
type followed struct {
	name     string    // immutable
	follower *Follower // immutable

	// guarded by Follower.mu
	isWanted bool // Follow was called, and Leave was not called since
	wasLeft  bool // Leave was called since handle; Follow may have been called again
	isQueued bool // in Follower.queue

	// Only the goroutine of the Follower uses these.
	listener Listener
	lastNews News // the News at the last call of handle
}

// NewFollower returns a Follower that follows nothing. findPlace returns where the messages of a
// name come, or nil if that is not known yet. Run calls tell.
func NewFollower(findPlace func(name string) (*Subscriber, string), tell func(name string, missed bool)) *Follower {
	return &Follower{findPlace: findPlace, tell: tell, names: make(map[string]*followed), work: make(chan struct{}, 1)}
}

// Follow begins to listen for a name.
func (f *Follower) Follow(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	if f.closed || n != nil && n.isWanted {
		return
	}
	if n == nil {
		n = &followed{name: name, follower: f}
		n.listener = Listener{self: n}
		f.names[name] = n
	}
	n.isWanted = true
	f.queueLocked(n)
}

// Leave ends Follow. A call of tell that is under way may still come.
func (f *Follower) Leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.names[name]; n != nil {
		n.isWanted, n.wasLeft = false, true
		f.queueLocked(n)
	}
}

// Relocate looks again where the messages of each name come. It is called when keys have moved.
func (f *Follower) Relocate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = true
	wait.Signal(f.work)
}

func (f *Follower) queueLocked(n *followed) {
	if n.isQueued {
		return
	}
	n.isQueued = true
	f.queue = append(f.queue, n)
	wait.Signal(f.work)
}

// wakeLocked implements listener.
func (n *followed) wakeLocked() {
	n.follower.mu.Lock()
	defer n.follower.mu.Unlock()
	n.follower.queueLocked(n)
}

// deafenLocked implements listener.
func (n *followed) deafenLocked() { n.wakeLocked() }

// Run calls tell until ctx ends, and leaves all channels. Call Run once.
//
// tell(name, false) says that messages came for the name, one or more. tell(name, true)
// says that messages may have been missed: since Follow, or while there was no
// connection, or while the key moved to another server. It also says so when the
// channel is not subscribed any more.
func (f *Follower) Run(ctx context.Context) {
	defer f.Close()
	for {
		select {
		case <-f.work:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		if f.moved { // once, however many slots have moved
			f.moved = false
			for _, n := range f.names {
				f.queueLocked(n)
			}
		}
		queue := f.queue
		f.queue = nil
		f.mu.Unlock()
		for _, n := range queue {
			if ctx.Err() != nil {
				return
			}
			f.handle(n)
		}
	}
}

// handle leaves or listens to the channel of a name, as is wanted now, and tells the news.
func (f *Follower) handle(n *followed) {
	f.mu.Lock()
	wanted, left := n.isWanted, n.wasLeft
	n.isQueued, n.wasLeft = false, false
	if !wanted && f.names[n.name] == n {
		delete(f.names, n.name)
	}
	f.mu.Unlock()
	if left {
		n.listener.Leave()
	}
	if !wanted {
		return
	}
	began := true
	if at, channel := f.findPlace(n.name); at != nil {
		began = n.listener.Listen(at, channel)
	} else {
		n.listener.Leave()
	}
	news, last := n.listener.News(), n.lastNews
	if began { // messages that came earlier, for other listeners of the channel, are not news
		last.Confirmed, last.Messages = 0, news.Messages
	}
	n.lastNews = news
	came, deaf := news.Messages != last.Messages, last.Listening && !news.Listening
	if came {
		f.tell(n.name, false)
	}
	if deaf || !came && news.Confirmed != last.Confirmed { // after a message, a new confirmation says nothing more
		f.tell(n.name, true)
	}
}

// Close leaves all channels, and ignores all names from now on. Run calls Close when it ends.
func (f *Follower) Close() {
	f.mu.Lock()
	names := f.names
	f.closed, f.names = true, nil
	f.mu.Unlock()
	for _, n := range names {
		n.listener.Leave()
	}
}
