package lock

import (
	"context"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// Releases tells a function when mutexes of other owners may have been released. So
// a program can wait for very many locks without a goroutine for each, and without
// asking Redis for each again and again. Package keeper does that.
//
// A release is a message of Redis, which all clients of this library and Redisson
// publish. A message can be missed, and no message comes when a lease ends. So ask
// from time to time as well; see Client.TTLMany.
//
// Releases is for Mutex and FencedMutex, whose channel Redisson calls
// redisson_lock__channel. All names of a server share the connection on which the
// client's waiters listen. A name takes about 0.5 KB, and no goroutine. All methods
// are safe for concurrent use, do no I/O and do not wait for the function, but
// Close.
type Releases struct {
	c        *Client            // immutable
	follower *pubsub.Follower   // immutable
	stop     context.CancelFunc // immutable
	done     chan struct{}      // immutable; closed when the goroutine has ended
}

// NewReleases returns a Releases that follows no name. Close it, or the client ends
// it at Close.
//
// heard(name, false) says that the lock of that name was released since the last
// call for the name, once or more often. heard(name, true) says that a release may
// have been missed: before Redis has confirmed that the client listens, so at least
// once after Follow, and after each time when the connection failed. It also says,
// once, that releases are missed from now on, because the connection has failed or
// the key has moved to another server; see Listens. While Redis cannot be reached,
// or does not let the client subscribe, no other call comes.
//
// One goroutine makes all calls. A call that takes its time delays the calls for
// other names, and nothing else of the client, except Close. heard may call Follow,
// Leave and any method of the client, but not Close. A panic ends the process.
//
// If the client is closed, heard is never called.
func (c *Client) NewReleases(heard func(name string, missed bool)) *Releases {
	r := &Releases{c: c, done: make(chan struct{})}
	r.follower = pubsub.NewFollower(r.place, heard)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(c.holds.Context())
	c.holds.Follow(ctx, r.follower, func() { close(r.done) })
	return r
}

// place returns where the messages of a name come.
func (r *Releases) place(name string) (*pubsub.Subscriber, string) {
	key := r.c.key(name)
	server := r.c.network.Server(key)
	if server.Lane() == nil { // not known yet
		return nil, ""
	}
	return server.Subscriber(), keys.Channel(key)
}

// Follow begins to listen for a name, as Client.Mutex has it, without
// Config.KeyPrefix. The error says that Mutex would refuse the name.
func (r *Releases) Follow(name string) error {
	if err := r.c.CheckName(name); err != nil {
		return err
	}
	r.follower.Follow(name)
	return nil
}

// Leave ends Follow. A call for the name that is under way may still come.
func (r *Releases) Leave(name string) { r.follower.Leave(name) }

// Listens reports whether releases of a name that is followed are heard now: Redis
// has confirmed it, and the connection is not known to have failed. A connection that
// is dead is noticed within 2 s and Config.IOTimeout.
func (r *Releases) Listens(name string) bool {
	at, channel := r.place(name)
	if at == nil {
		return false
	}
	_, listens := at.Heard(channel)
	return listens
}

// Close leaves all names. When it returns, heard does not run and is not called any
// more.
func (r *Releases) Close() {
	r.stop()
	<-r.done
}
