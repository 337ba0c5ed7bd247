package pubsub

import (
	"context"
	"sync"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// Follower listens to the channels of many names for one function. It has one goroutine
// for all of them. All methods are safe for concurrent use, and none does I/O.
type Follower struct {
	place func(name string) (at *Subscriber, channel string) // immutable; where the name's messages come now
	tell  func(name string, missed bool)                     // immutable

	// mu guards what follows and the marks of names. It is taken under Subscriber.mu. While it
	// is held, no function runs and no other mutex is taken.
	mu     sync.Mutex
	names  map[string]*followed
	queue  []*followed   // those to look at, each once
	moved  bool          // all of names are to be looked at
	work   chan struct{} // of capacity 1; has a token if there is anything to do
	closed bool
}

// followed is one name of a Follower.
type followed struct {
	name     string    // immutable
	follower *Follower // immutable

	// guarded by Follower.mu
	wanted bool
	left   bool // Leave was called since the last look; it may be wanted again
	queued bool

	// Only the goroutine of the Follower uses these.
	listener Listener
	told     News // as of the last call of tell
}

// NewFollower returns a Follower that follows nothing. place says where the messages of a
// name come, and returns nil if that is not known yet. Run calls tell.
func NewFollower(place func(name string) (*Subscriber, string), tell func(name string, missed bool)) *Follower {
	return &Follower{place: place, tell: tell, names: make(map[string]*followed), work: make(chan struct{}, 1)}
}

// Follow begins to listen for a name.
func (f *Follower) Follow(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	if f.closed || n != nil && n.wanted {
		return
	}
	if n == nil {
		n = &followed{name: name, follower: f}
		n.listener = Listener{self: n}
		f.names[name] = n
	}
	n.wanted = true
	f.queueLocked(n)
}

// Leave ends Follow. A call of tell that is under way may still come.
func (f *Follower) Leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.names[name]; n != nil {
		n.wanted, n.left = false, true
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
	if n.queued {
		return
	}
	n.queued = true
	f.queue = append(f.queue, n)
	wait.Signal(f.work)
}

// wakeLocked implements listener.
func (n *followed) wakeLocked() {
	n.follower.mu.Lock()
	defer n.follower.mu.Unlock()
	n.follower.queueLocked(n)
}

// Run calls tell until ctx ends, and leaves all channels. Call Run once.
//
// tell(name, false) says that messages came for the name, one or more. tell(name, true)
// says that messages may have been missed: since Follow, or while there was no
// connection, or while the key moved to another server.
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
			f.look(n)
		}
	}
}

// look does what follows from the marks of a name and from its news.
func (f *Follower) look(n *followed) {
	f.mu.Lock()
	wanted, left := n.wanted, n.left
	n.queued, n.left = false, false
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
	at, channel := f.place(n.name)
	if at == nil {
		n.listener.Leave()
		return
	}
	began := n.listener.Listen(at, channel)
	news := n.listener.News()
	if began { // others may have listened to the channel before, and their messages are not news
		n.told = News{Messages: news.Messages}
	}
	missed, came := news.Confirmed != n.told.Confirmed, news.Messages != n.told.Messages
	n.told = news
	if came || missed {
		f.tell(n.name, !came)
	}
}

// Close leaves all channels, and ignores all names from now on. Run does it at its end.
func (f *Follower) Close() {
	f.mu.Lock()
	names := f.names
	f.closed, f.names = true, nil
	f.mu.Unlock()
	for _, n := range names {
		n.listener.Leave()
	}
}
