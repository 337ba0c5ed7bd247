package lock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	pingPeriod   = 2 * time.Second // how soon a dead subscriber connection is noticed
	lingerTime   = 2 * time.Second // how long a channel without listeners stays subscribed
	redialPause  = 50 * time.Millisecond
	redialLimit  = 5 * time.Second
	subscribeMax = 1000 // channels of one SUBSCRIBE
)

// subscriber is a node's one connection for pub/sub. It only makes waiting
// shorter: whoever waits also looks by himself each Config.MaxPoll, so a
// connection that is cut, dead or forbidden costs time, never a lock.
type subscriber struct {
	// immutable
	node    *node
	timeout time.Duration
	ctx     context.Context
	log     *slog.Logger
	sharded bool // SSUBSCRIBE: a channel has a slot, as a key has

	mu      sync.Mutex // guards what follows and the topics; never held during I/O
	topics  map[string]*topic
	pending []*topic      // to be subscribed or unsubscribed
	work    chan struct{} // of capacity 1: pending is not empty, or a connection died
	conn    redis.Conn    // nil while there is none
	started bool
	closed  bool
	warned  bool
	wg      sync.WaitGroup
}

// topic is one channel of the subscriber.
type topic struct {
	sub     *subscriber
	channel string

	// guarded by sub.mu
	listeners  map[chan struct{}]struct{}
	idle       time.Time // since when there are no listeners
	asked      bool      // SUBSCRIBE was sent on the connection in use
	confirmed  bool      // and answered: no message is missed
	generation int       // counts confirmations
	messages   uint64    // counts messages
}

func newSubscriber(n *node) *subscriber {
	return &subscriber{
		node: n, timeout: n.c.cfg.IOTimeout, ctx: n.ctx, log: n.c.cfg.Logger,
		sharded: n.c.sharded(),
		topics:  make(map[string]*topic), work: make(chan struct{}, 1),
	}
}

// listen makes each confirmation and message of channel put a token into wake,
// which has capacity 1, until leave.
func (s *subscriber) listen(channel string, wake chan struct{}) *topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil {
		t = &topic{sub: s, channel: channel, listeners: make(map[chan struct{}]struct{})}
		s.topics[channel] = t
	}
	t.listeners[wake] = struct{}{}
	if !t.asked && !s.closed {
		s.pending = append(s.pending, t)
		s.signal()
	}
	if !s.started && !s.closed {
		s.started = true
		s.wg.Go(s.run)
	}
	return t
}

// leave undoes listen.
func (t *topic) leave(wake chan struct{}) {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	delete(t.listeners, wake)
	if len(t.listeners) == 0 {
		t.idle = time.Now()
	}
}

// listenedAt reports whether the topic is one of sub, and still is.
func (t *topic) listenedAt(sub *subscriber) bool {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	return t.sub == sub && sub.topics[t.channel] == t
}

// confirmations returns how often the channel was subscribed, 0 while it is
// not: a try that begins after a confirmation misses no later release.
func (t *topic) confirmations() int {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	if !t.confirmed {
		return 0
	}
	return t.generation
}

// heard returns how many messages of channel this client has heard, and
// whether it hears them now.
func (s *subscriber) heard(channel string) (messages uint64, subscribed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil {
		return 0, false
	}
	return t.messages, t.confirmed
}

func (s *subscriber) signal() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

func (t *topic) wakeLocked() {
	for wake := range t.listeners {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// run keeps a connection and writes to it; a reader of its own reads.
func (s *subscriber) run() {
	pause := redialPause
	for s.ctx.Err() == nil {
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
		conn, epoch, err := s.node.connect(ctx)
		cancel()
		if err == nil {
			err = s.serve(conn, epoch)
		}
		if s.ctx.Err() != nil {
			return
		}
		if time.Since(began) > redialLimit {
			pause = redialPause // it worked for a while
		}
		s.warn(err)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-s.ctx.Done():
		}
		t.Stop()
		pause = min(2*pause, redialLimit)
	}
}

// warn says once, until it works again, that waiting is by polling.
func (s *subscriber) warn(err error) {
	s.mu.Lock()
	warned := s.warned
	s.warned = true
	s.mu.Unlock()
	if !warned {
		s.log.Warn("lock: pub/sub failed, so waiters look for themselves until it works again", "error", err)
	}
}

// serve uses conn until it fails or the subscriber closes.
func (s *subscriber) serve(conn redis.Conn, epoch uint32) error {
	s.mu.Lock()
	if s.closed || s.node.epoch.Load() != epoch {
		s.mu.Unlock()
		conn.Close()
		return errReplaced
	}
	s.conn = conn
	s.pending = s.pending[:0]
	for _, t := range s.topics {
		s.pending = append(s.pending, t)
	}
	s.mu.Unlock()
	failed := make(chan error, 1)
	s.wg.Go(func() { failed <- s.read(conn) })
	err := s.write(conn, failed)
	conn.Close()
	s.mu.Lock()
	s.conn = nil
	for _, t := range s.topics {
		t.asked, t.confirmed = false, false
	}
	s.mu.Unlock()
	return err
}

// write sends what is pending, and a ping each period.
func (s *subscriber) write(conn redis.Conn, failed <-chan error) error {
	ticker := time.NewTicker(pingPeriod)
	defer ticker.Stop()
	for {
		subscribe, unsubscribe := s.take()
		if err := s.send(conn, "SUBSCRIBE", subscribe); err != nil {
			return err
		}
		if err := s.send(conn, "UNSUBSCRIBE", unsubscribe); err != nil {
			return err
		}
		select {
		case <-s.work:
		case <-ticker.C:
			s.expire()
			if err := s.send(conn, "PING", []any{""}); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// send writes a command with arguments, in parts of subscribeMax; the sharded
// ones take channels of one slot, so there each has a command of its own.
func (s *subscriber) send(conn redis.Conn, command string, args []any) error {
	most := subscribeMax
	if s.sharded && command != "PING" {
		command, most = "S"+command, 1
	}
	if len(args) == 0 {
		return nil
	}
	for len(args) > 0 {
		n := min(len(args), most)
		if err := conn.Send(command, args[:n]...); err != nil {
			return err
		}
		args = args[n:]
	}
	return conn.Flush()
}

// take returns the channels to be subscribed and unsubscribed now.
func (s *subscriber) take() (subscribe, unsubscribe []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.pending {
		if s.topics[t.channel] != t {
			continue // it has strayed
		}
		switch listened := len(t.listeners) > 0; {
		case listened && !t.asked:
			t.asked = true
			subscribe = append(subscribe, t.channel)
		case !listened && t.asked:
			t.asked, t.confirmed = false, false
			delete(s.topics, t.channel)
			unsubscribe = append(unsubscribe, t.channel)
		case !listened:
			delete(s.topics, t.channel)
		}
	}
	clear(s.pending)
	s.pending = s.pending[:0]
	return subscribe, unsubscribe
}

// expire makes channels that nobody has listened to for a while pending.
func (s *subscriber) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		if len(t.listeners) == 0 && time.Since(t.idle) > lingerTime {
			s.pending = append(s.pending, t)
		}
	}
}

// read hands messages on until the connection fails. Its timeout is above the
// ping period, so silence means that it is dead.
func (s *subscriber) read(conn redis.Conn) error {
	for {
		reply, err := redis.ReceiveWithTimeout(conn, pingPeriod+s.timeout)
		if err != nil && s.strayed(err) {
			continue
		}
		if err != nil {
			return err
		}
		push, ok := reply.([]any)
		if !ok || len(push) < 2 {
			continue // the answer of a ping without a subscription is a plain one
		}
		kind, _ := redis.String(push[0], nil)
		channel, _ := redis.String(push[1], nil)
		switch kind {
		case "message", "smessage":
			s.mu.Lock()
			if t := s.topics[channel]; t != nil {
				t.messages++
				t.wakeLocked()
			}
			s.mu.Unlock()
		case "sunsubscribe":
			s.mu.Lock()
			if t := s.topics[channel]; t != nil && t.asked {
				s.strayLocked(t) // its slot has gone to another server
			}
			s.mu.Unlock()
		case "subscribe", "ssubscribe":
			s.mu.Lock()
			s.warned = false
			if t := s.topics[channel]; t != nil && t.asked {
				t.confirmed = true
				t.generation++
				t.wakeLocked()
			}
			s.mu.Unlock()
		}
	}
}

// strayed is told of an error reply. If it says that a sharded channel is on
// another server, its listeners go there.
func (s *subscriber) strayed(err error) bool {
	to, ok := redirectionOf(err, s.node.server)
	if !ok || !s.sharded {
		return false
	}
	s.node.target(to)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		if t.asked && !t.confirmed && slotOf(t.channel) == to.slot {
			s.strayLocked(t)
		}
	}
	return true
}

// strayLocked forgets a topic that the server has not got any more and wakes
// its listeners, which look at the key's node for their channel before they
// sleep again.
func (s *subscriber) strayLocked(t *topic) {
	t.asked, t.confirmed = false, false
	delete(s.topics, t.channel)
	t.wakeLocked()
}

// drop gives the connection in use up.
func (s *subscriber) drop() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// close ends the connection and returns when no goroutine runs. The node's
// context must have ended.
func (s *subscriber) close() {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	s.wg.Wait()
}
