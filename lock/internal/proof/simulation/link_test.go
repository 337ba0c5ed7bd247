package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// link connects one client to one store, and is the client's Network. A request has three events: it
// arrives and is carried out, it is answered, and its caller continues. The events of a connection
// keep their order, but requests of one name use several connections. When a connection fails, its
// requests in flight arrive later or never.
type link struct {
	name    string
	store   *store
	slowest time.Duration // the longest transmission time without a fault
	fleet   *fleet        // of a Cluster; nil without a Cluster

	// immutable after Connect
	cfg        network.Config
	ctx        context.Context
	cancel     context.CancelFunc
	router     *servers.Router // it finds no server
	subscriber *pubsub.Subscriber
	leases     *renewal.Lane
	wg         sync.WaitGroup

	unanswered atomic.Uint64

	mu           sync.Mutex // guards what follows; never held at a point
	rng          *rand.Rand
	down         time.Time // until then every dial fails
	silent       time.Time // until then nothing arrives, in either direction
	healed       bool
	refusesUntil time.Time        // until then the server refuses most scripts to this client
	ahead        time.Duration    // by how much the server's clock is ahead, as far as the client knows
	conns        map[int]*channel // the open connections for requests, by their slots
	made         int              // how many connections were made
	waits        int              // how many waits for answers began
	heard        []*messages      // the open connections for messages
	closed       error
}

var (
	_ network.Connector = (*link)(nil)
	_ network.Network   = (*link)(nil)
	_ network.Server    = (*link)(nil)
	_ network.Lane      = (*link)(nil)
	_ topology.Topology = (*link)(nil)
)

func newLink(name string, s *store, slowest time.Duration, seed, id uint64) *link {
	return &link{name: name, store: s, slowest: slowest, rng: rand.New(rand.NewPCG(seed, id)), conns: map[int]*channel{}}
}

// Traits implements topology.Topology.
func (*link) Traits() topology.Traits { return topology.Traits{} }

// Dial implements topology.Topology.
func (*link) Dial(context.Context, string) (redis.Conn, error) {
	return nil, errors.New("a simulation has no connections")
}

// Follow implements topology.Topology.
func (*link) Follow(ctx context.Context, _ time.Duration, _ <-chan struct{}, _ func(topology.Layout)) {
	<-ctx.Done()
}

// Connect implements network.Connector.
func (l *link) Connect(cfg network.Config) (network.Network, error) {
	l.cfg = cfg
	l.ctx, l.cancel = context.WithCancel(context.Background())
	to := cfg.Servers
	to.Moved, to.Opened = cfg.Moved, func(*servers.Server) (servers.Attachment, error) { return nil, nil }
	var err error
	if l.router, err = servers.New(to); err != nil {
		return nil, err
	}
	l.subscriber = pubsub.New(l.ctx, pubsub.Config{
		Timeout: cfg.IOTimeout, Labeler: cfg.Labeler, Server: l.name, Logger: cfg.Logger,
		Modes:             func() pubsub.SubscribeModes { return pubsub.SubscribeModes{Plain: true, Certain: true} },
		SSubscribeRefused: func(error) bool { return false },
		Dial:              l.listen,
		Epoch:             func() uint32 { return 0 },
		Where:             func() string { return l.name },
	})
	l.store.mu.Lock()
	l.store.links = append(l.store.links, l)
	l.store.mu.Unlock()
	l.leases, err = cfg.Watchdog.Lane(l.name, l)
	return l, err
}

// Server implements network.Network.
func (l *link) Server(string) network.Server { return l }

// Publisher implements network.Network.
func (*link) Publisher(string) any { return "publish" }

// Channel implements network.Network.
func (*link) Channel(_, plain, _ string) any { return plain }

// Router implements network.Network.
func (l *link) Router() *servers.Router { return l.router }

// Count implements network.Network.
func (*link) Count(pipe.Answer) {}

// Unanswered implements network.Network.
func (l *link) Unanswered() uint64 { return l.unanswered.Load() }

// Refused implements network.Network.
func (*link) Refused() uint64 { return 0 }

// Subscriber implements network.Server.
func (l *link) Subscriber() *pubsub.Subscriber { return l.subscriber }

// Ahead implements network.Server.
func (l *link) Ahead() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ahead
}

// learn asks the server for its time, as a connection does when it is new, or when a request came
// late.
func (l *link) learn() {
	ahead := l.store.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = ahead
}

// forbid makes the server refuse most scripts to this client for d.
func (l *link) forbid(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusesUntil = time.Now().Add(d)
}

// refuses reports whether the server refuses a script now. It never refuses a script that gives a lock
// back, because a user without the right to it would only wait for leases to end.
func (l *link) refuses(s *script.Script) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.refusesUntil) && (s.Expires() || s == script.Renew || s == script.RwRenew || s == script.PermitRenew)
}

// Lane implements network.Server.
func (l *link) Lane() network.Lane { return l }

// RenewalLane implements network.Lane.
func (l *link) RenewalLane() *renewal.Lane { return l.leases }

// Open implements network.Lane.
func (*link) Open() {}

// Refusal implements network.Lane.
func (*link) Refusal() error { return nil }

// Close implements network.Network.
func (l *link) Close(why error) {
	l.cancel()
	l.mu.Lock()
	l.closed = why
	conns := l.takeLocked()
	l.mu.Unlock()
	for _, c := range conns {
		c.end(why, 0)
	}
	l.router.Close(why)
	l.subscriber.Close()
	l.wg.Wait()
}

// takeLocked takes all connections out of use, in their order.
func (l *link) takeLocked() (all []*channel) {
	for n := range l.made {
		for i, c := range l.conns {
			if c.number == n {
				all = append(all, c)
				delete(l.conns, i)
			}
		}
	}
	return all
}

// cut implements trouble.
func (l *link) cut(d, late time.Duration) {
	l.mu.Lock()
	l.down = time.Now().Add(d)
	conns, heard := l.takeLocked(), l.heard
	l.heard = nil
	l.mu.Unlock()
	for _, c := range conns {
		c.end(&net.OpError{Op: "read", Net: "tcp", Err: errDown}, late)
	}
	for _, c := range heard {
		c.Close()
	}
}

// fall implements trouble.
func (l *link) fall(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.silent) { // a shorter silence does not end a longer one
		l.silent = until
	}
}

// heal implements trouble.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healed, l.down, l.silent, l.refusesUntil = true, time.Time{}, time.Time{}, time.Time{}
}

// isTroubled implements trouble.
func (l *link) isTroubled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().Add(-5 * ioTimeout) // after an error there is a pause
	return now.Before(l.down) || now.Before(l.silent) || now.Before(l.refusesUntil)
}

// way returns the transmission time of a request that is sent now.
func (l *link) way() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed {
		return 0
	}
	d := time.Duration(0)
	if l.slowest > 0 && l.rng.IntN(2) == 0 {
		d = time.Duration(l.rng.Int64N(int64(l.slowest)))
	}
	return max(d, time.Until(l.silent))
}

// connection returns the connection of a slot. It makes one if there is none.
func (l *link) connection(i int) (c *channel, made bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		return nil, false, l.closed
	case l.conns[i] != nil:
		return l.conns[i], false, nil
	case time.Now().Before(l.down):
		return nil, false, &net.OpError{Op: "dial", Net: "tcp", Err: errDown}
	}
	c = &channel{link: l, slot: i, number: l.made, ended: make(chan struct{}), sent: make(chan *request, 4096), back: make(chan *request, 4096)}
	l.made++
	l.conns[i] = c
	l.wg.Add(2)
	points.Go(fmt.Sprintf("%s.%d there", l.name, c.number), func() { defer l.wg.Done(); c.carryToStore() })
	points.Go(fmt.Sprintf("%s.%d back", l.name, c.number), func() { defer l.wg.Done(); c.carryAnswers() })
	return c, true, nil
}

// drop takes a connection out of use after a wait for its answer has timed out.
func (l *link) drop(c *channel, why error) {
	l.mu.Lock()
	if l.conns[c.slot] == c {
		delete(l.conns, c.slot)
	}
	l.mu.Unlock()
	c.end(why, 0)
}

// request is a call on its way.
type request struct {
	call wire.Call
	late func(pipe.Answer)
	due  time.Time // when it arrives, and then when its answer does
	last time.Time // its time limit by the server's clock; zero: none

	mu     sync.Mutex // guards what follows
	answer pipe.Answer
	left   bool          // its caller does not wait any more
	done   chan struct{} // closed when it is answered
	over   bool
	on     *channel // the connection over which it was sent last
	hops   int      // how many redirections it has followed
	renews bool     // it is a renewal, which follows no redirection
}

// complete sets the answer. If the caller has left, it passes the answer to late.
func (r *request) complete(reply any, err error) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.over = true
	r.answer.Reply, r.answer.Err = resp.ReplyOf(reply), err
	if _, said := err.(redis.Error); said || err == nil {
		r.answer.MayRunUntil = time.Time{}
	}
	late := r.late
	if !r.left {
		late = nil
	}
	a := r.answer
	r.mu.Unlock()
	close(r.done)
	if late != nil {
		late(a)
	}
}

// leave records that the caller does not wait any more. It returns false if the answer has come.
func (r *request) leave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.left = true
	return true
}

// stamp sets the time at which r is sent, and until when it may be carried out.
func (l *link) stamp(r *request) {
	now := time.Now()
	r.answer.Stamp = now
	if !r.call.Script.Expires() {
		return
	}
	timeout := l.cfg.IOTimeout
	if left := r.call.Last.Sub(now); !r.call.Last.IsZero() {
		timeout = min(timeout, left)
	}
	r.last = now.Add(l.Ahead() + timeout + time.Millisecond - 1).Truncate(time.Millisecond)
	r.answer.MayRunUntil = now.Add(timeout + 2*time.Millisecond)
}

// put sends r over a connection, or fails it.
func (l *link) put(slot int, r *request) *channel {
	c, made, err := l.connection(slot)
	if err != nil {
		r.complete(nil, err)
		return nil
	}
	if made {
		l.learn()
	}
	l.stamp(r)
	r.mu.Lock()
	r.on = c
	r.mu.Unlock()
	r.due = time.Now().Add(l.way())
	select {
	case <-c.ended:
		r.complete(nil, io.EOF)
	case c.sent <- r:
	}
	return c
}

// further is how many connections a client has for commands besides Config.Connections.
const further = 2

// anySlot chooses a connection for commands. Requests of one name use all of them, so they arrive
// in any order.
func (l *link) anySlot() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(max(l.cfg.Servers.Connections, 1) + further)
}

// maxLates is how often a call that came late is sent again.
const maxLates = 3

// Send implements network.Sender.
func (l *link) Send(ctx context.Context, key string, call wire.Call, late func(pipe.Answer)) pipe.Answer {
	points.Here("send")
	for lates := 0; ; lates++ {
		r := &request{call: call, late: late, done: make(chan struct{})}
		c := l.put(l.anySlot(), r)
		a := l.await(ctx, c, r)
		if _, isLate := pipe.Lateness(a.Err); isLate && lates < maxLates && ctx.Err() == nil && (call.Last.IsZero() || time.Now().Before(call.Last)) {
			l.learn()
			continue
		}
		_, said := a.Err.(redis.Error)
		if c != nil && a.Err != nil && !said {
			noteUnanswered(ctx, call)
		} else if a.Err == nil || said {
			noteAnswered(ctx, call)
		}
		if a.Err != nil && !said && !a.IsAbandoned && !errors.Is(a.Err, l.cfg.Closed) {
			l.unanswered.Add(1)
		}
		return a
	}
}

// await waits for the answer to r.
func (l *link) await(ctx context.Context, c *channel, r *request) pipe.Answer {
	// In virtual time a caller's deadline may be at the very instant of this one, and the runtime
	// draws the order of timers.
	timer := time.NewTimer(l.cfg.IOTimeout + l.apart())
	defer timer.Stop()
	for waits := true; waits; {
		waits = false
		select {
		case <-r.done:
		default:
			select {
			case <-r.done:
			case <-ctx.Done():
				if r.leave() {
					points.Here("left")
					return pipe.Answer{Err: ctx.Err(), IsAbandoned: true}
				}
			case <-timer.C:
				if c != nil {
					r.mu.Lock()
					c = r.on
					r.mu.Unlock()
					c.link.drop(c, &net.OpError{Op: "read", Net: "tcp", Err: errTimeout})
					waits = true
				}
			}
		}
	}
	points.Here("answered")
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answer
}

// apart returns a time that differs from call to call, and is too short to matter.
func (l *link) apart() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits++
	return time.Duration(1 + l.waits%997)
}

var errTimeout = errors.New("i/o timeout")

// Post implements network.Sender.
func (l *link) Post(key string, call wire.Call, late func(pipe.Answer)) { l.post(key, call, late, 0) }

// post is Post of a call that came late lates times before.
func (l *link) post(key string, call wire.Call, late func(pipe.Answer), lates int) {
	again := func(a pipe.Answer) {
		if _, isLate := pipe.Lateness(a.Err); isLate && lates < maxLates {
			l.learn()
			l.post(key, call, late, lates+1)
			return
		}
		late(a)
	}
	r := &request{call: call, late: again, left: true, done: make(chan struct{})}
	c := l.put(l.anySlot(), r)
	if c == nil || !call.Script.Expires() {
		return // a release is sent until it is answered
	}
	l.wg.Add(1)
	points.Go(fmt.Sprintf("%s waits %d", l.name, l.apart()), func() {
		defer l.wg.Done()
		l.await(l.ctx, c, r) // it makes the connection fail if no answer comes
	})
}

// Renew implements renewal.Renewer.
func (l *link) Renew(ctx context.Context, b *renewal.Batch) {
	points.Here("renew")
	var requests []*request
	var c *channel
	live, err := b.Send(func(live []int, _ time.Time) error {
		for _, i := range live {
			r := &request{call: l.renewal(b, i), done: make(chan struct{}), renews: true}
			requests = append(requests, r)
			if c = l.put(-1, r); c == nil {
				return r.answer.Err
			}
		}
		return nil
	})
	if err != nil {
		b.Fail(err)
		return
	}
	for n, i := range live {
		a := l.await(ctx, c, requests[n])
		gone, ok := a.Reply.Any().([]any)
		var to *link
		if l.fleet != nil {
			to = l.fleet.moved(a.Err)
		}
		switch {
		case to != nil:
			b.Owner(i).(renewer.Owner).MoveTo(to.leases, false)
		case a.Err != nil:
			b.Fail(a.Err)
		case !ok:
			b.Fail(fmt.Errorf("a renewal was answered %v", a.Reply.Any()))
		case len(gone) > 0:
			b.Lost(i)
		default:
			b.Renewed(i)
		}
	}
}

// renewal returns the call that renews one lease.
func (l *link) renewal(b *renewal.Batch, i int) wire.Call {
	o := b.Owner(i).(renewer.Owner)
	lease := b.TTL().Milliseconds()
	if b.Fixed(i) {
		lease = 1
	}
	field := string(o.AppendFieldTail(nil))
	switch o.Class() {
	case renewer.Readers:
		return wire.Call{Script: script.RwRenew, Keys: 1, Args: resp.ArgsOf(o.Key(), lease, l.cfg.ID+":", field)}
	case renewer.Permits:
		now := time.Now().Add(l.Ahead()).UnixMilli()
		return wire.Call{Script: script.PermitRenew, Keys: 1, Args: resp.ArgsOf(o.Key(), now+lease, now, field)}
	}
	return wire.Call{Script: script.Renew, Keys: 1, Args: resp.ArgsOf(o.Key(), lease, l.cfg.ID+":", field)}
}

// other returns the link to which the answer err redirects r, or nil if r goes nowhere else.
func (l *link) other(r *request, err error) *link {
	if l.fleet == nil || r.renews || r.hops == 5 {
		return nil
	}
	to := l.fleet.moved(err)
	r.hops++
	return to
}

// channel is one connection for requests.
type channel struct {
	link         *link
	slot, number int
	ended        chan struct{} // closed when it has failed
	sent, back   chan *request

	mu   sync.Mutex // guards what follows
	why  error
	late time.Duration // how much later requests arrive that are in flight at the end; never if negative
}

// end makes the connection fail.
func (c *channel) end(why error, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why, c.late = why, late
		close(c.ended)
	}
}

// carryToStore takes requests to the store, in order.
func (c *channel) carryToStore() {
	for {
		select {
		case r := <-c.sent:
			c.arrive(r)
			continue
		default:
		}
		select {
		case r := <-c.sent:
			c.arrive(r)
		case <-c.ended:
			points.Here("ended")
			select {
			case r := <-c.sent:
				c.arrive(r)
			default:
				close(c.back)
				return
			}
		}
	}
}

// arrive carries r out when it has arrived.
func (c *channel) arrive(r *request) {
	if wait := time.Until(r.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.ended:
		}
	}
	points.Here("arrives")
	if late, why := c.failed(); why != nil {
		r.complete(nil, why)
		if late < 0 || errors.Is(why, c.link.cfg.Closed) {
			return
		}
		time.Sleep(max(0, time.Until(r.due)) + late)
		points.Here("arrives late")
	}
	var reply any
	err := error(redis.Error("NOPERM this user has no permissions to run the 'evalsha' command"))
	if !c.link.refuses(r.call.Script) {
		reply, err = c.link.store.run(r.call.Script, r.call.Keys, anyOf(r.call.Args.Strings()), r.last)
	}
	r.mu.Lock()
	over := r.over
	if !over {
		r.answer.Reply, r.answer.Err = resp.ReplyOf(reply), err
	}
	r.mu.Unlock()
	if !over {
		r.due = time.Now().Add(c.link.way())
		c.back <- r
	}
}

// failed returns why the connection has failed, or nil. Its requests in flight arrive by late later, or
// never if late is negative.
func (c *channel) failed() (late time.Duration, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late, c.why
}

// carryAnswers takes answers back, in order.
func (c *channel) carryAnswers() {
	for r := range c.back {
		points.Here("is on its way back") // the sender goes on
		timer := time.NewTimer(time.Until(r.due))
		select {
		case <-timer.C:
		case <-c.ended:
		}
		timer.Stop()
		points.Here("answers")
		if _, why := c.failed(); why != nil {
			r.complete(nil, why)
			continue
		}
		r.mu.Lock()
		reply, err := r.answer.Reply.Any(), r.answer.Err
		r.mu.Unlock()
		if l := c.link.other(r, err); l != nil {
			l.put(c.slot, r)
			continue
		}
		r.complete(reply, err)
	}
}

// messages is a connection for pub/sub.
type messages struct {
	link  *link
	in    chan push
	out   chan []any
	ended chan struct{}
	once  sync.Once
}

type push struct {
	what []any
	due  time.Time
}

var _ redis.ConnWithTimeout = (*messages)(nil)

// listen dials a connection for messages.
func (l *link) listen(context.Context) (redis.Conn, uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		return nil, 0, l.closed
	case time.Now().Before(l.down):
		return nil, 0, &net.OpError{Op: "dial", Net: "tcp", Err: errDown}
	}
	c := &messages{link: l, in: make(chan push, 4096), out: make(chan []any), ended: make(chan struct{})}
	l.heard = append(l.heard, c)
	l.made++
	l.wg.Add(1)
	points.Go(fmt.Sprintf("%s.%d messages", l.name, l.made), func() { defer l.wg.Done(); c.carry() })
	return c, 0, nil
}

// push sends something to the client, which arrives after a transmission time.
func (c *messages) push(kind, channel string, what any) {
	p := push{[]any{[]byte(kind), []byte(channel), what}, time.Now().Add(c.link.way())}
	select {
	case <-c.ended:
	case c.in <- p:
	}
}

// carry takes messages to the client, in order.
func (c *messages) carry() {
	for {
		var p push
		select {
		case p = <-c.in:
		case <-c.ended:
			return
		}
		timer := time.NewTimer(time.Until(p.due))
		select {
		case <-timer.C:
		case <-c.ended:
		}
		timer.Stop()
		points.Here("tells")
		select {
		case c.out <- p.what:
		case <-c.ended:
			return
		}
	}
}

// Send implements redis.Conn.
func (c *messages) Send(command string, args ...any) error {
	for _, a := range args {
		switch name := fmt.Sprint(a); command {
		case "SUBSCRIBE":
			c.link.store.subscribe(c, name, true)
			c.push("subscribe", name, int64(1))
		case "UNSUBSCRIBE":
			c.link.store.subscribe(c, name, false)
			c.push("unsubscribe", name, int64(0))
		case "PING":
			c.push("pong", "", []byte(""))
		}
	}
	return c.Err()
}

// Flush implements redis.Conn.
func (c *messages) Flush() error { return c.Err() }

// Receive implements redis.Conn.
func (c *messages) Receive() (any, error) { return c.ReceiveWithTimeout(time.Hour) }

// ReceiveWithTimeout implements redis.ConnWithTimeout.
func (c *messages) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.ended:
		points.Here("hears")
		return nil, io.EOF
	case <-timer.C:
		points.Here("hears")
		return nil, errTimeout
	case p := <-c.out:
		points.Here("hears")
		return p, nil
	}
}

// DoWithTimeout implements redis.ConnWithTimeout.
func (c *messages) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, errors.New("nothing is asked here")
}

// Do implements redis.Conn.
func (c *messages) Do(string, ...any) (any, error) { return nil, errors.New("nothing is asked here") }

// Err implements redis.Conn.
func (c *messages) Err() error {
	select {
	case <-c.ended:
		return io.EOF
	default:
		return nil
	}
}

// Close implements redis.Conn.
func (c *messages) Close() error {
	c.once.Do(func() {
		close(c.ended)
		c.link.store.forget(c)
	})
	return nil
}

func anyOf(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}
