package pubsub

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
)

const (
	pingPeriod   = 2 * time.Second // how soon a dead subscriber connection is noticed
	lingerTime   = 2 * time.Second // how long a channel without listeners stays subscribed
	redialPause  = 50 * time.Millisecond
	redialLimit  = 5 * time.Second
	subscribeMax = 1000 // channels of one SUBSCRIBE
)

// Config is what a Subscriber gets from above. Its functions are called with no lock
// held.
type Config struct {
	// Timeout bounds how long the server may be silent beside the period of pings.
	Timeout time.Duration
	// Server is the name of the server, to which redirections may refer.
	Server string
	// Hearing says what is to be listened for now. It is asked at every Listen, at
	// Retune, and with each ping.
	Hearing func() Hearing
	// Deaf is told that the server refuses SSUBSCRIBE, and returns true if Hearing says
	// now how to do without it. Otherwise the connection is given up.
	Deaf func(err error) bool
	// Dial opens a connection, and says which epoch of the server it is of.
	Dial func(ctx context.Context) (conn redis.Conn, epoch uint32, err error)
	// Epoch counts the servers that the Subscriber's stood for.
	Epoch func() uint32
	// Redirect is told that a slot is on another server, before the listeners of its
	// channels are woken. It is not used unless Hearing.Sharded is.
	Redirect func(to pipe.Redirection)
	// Where says in the log which server it is.
	Where  func() string
	Logger *slog.Logger
}

// Subscriber is the one connection for pub/sub to a server. All methods are safe
// for concurrent use.
type Subscriber struct {
	// immutable
	cfg Config
	ctx context.Context // its end ends dials; Close must follow

	mu      sync.Mutex        // guards what follows and the topics; never held during I/O
	topics  map[string]*topic // by channel, as it is named without shards
	hearing Hearing           // what topics are to hear
	deaf    bool              // conn's server has refused SSUBSCRIBE
	pending []*topic          // to be subscribed or unsubscribed
	left    []string          // channels of topics that have moved, to be unsubscribed
	work    chan struct{}     // of capacity 1: pending is not empty, or a connection died
	conn    redis.Conn        // nil while there is none
	asked   []question        // on conn and not answered, in the order in which they were sent
	heard   time.Time         // when the last ping that was answered was sent; what was published before that was heard, where confirmed
	started bool
	closed  bool
	warned  bool
	wg      sync.WaitGroup
}

// topic is one channel of the subscriber.
type topic struct {
	sub     *Subscriber
	channel string

	// guarded by sub.mu
	listeners  map[chan struct{}]struct{}
	idle       time.Time // since when there are no listeners
	ways       [2]way    // plain and sharded
	confirmed  bool      // by all ways that are to be heard and can be: no message is missed
	generation int       // of the last confirmation: no two in the process have the same; 0 before the first
	messages   uint64    // counts messages
}

// way is one of the two ways in which a channel is heard.
type way struct {
	asked     bool // the command was sent on the connection in use
	confirmed bool // and answered
}

// The ways, as indexes.
const (
	plain   = 0
	sharded = 1
)

var generations atomic.Int64 // of topics

// question is a command on its way. It is answered once for each of its
// channels, or by one error.
type question struct {
	command string // as its answers name it
	channel string // the first
	answers int    // still to come
	at      time.Time
}

// pong is how the answers of a ping name it.
const pong = "pong"

// New returns a Subscriber, which does nothing before its first listener. After ctx
// has ended it must be closed.
func New(ctx context.Context, cfg Config) *Subscriber {
	return &Subscriber{cfg: cfg, ctx: ctx, topics: make(map[string]*topic), work: make(chan struct{}, 1)}
}

// listen makes each confirmation and message of channel put a token into wake,
// which has capacity 1, until leave.
func (s *Subscriber) listen(channel string, wake chan struct{}) *topic {
	now := s.cfg.Hearing()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retuneLocked(now)
	t := s.topics[channel]
	if t == nil {
		t = &topic{sub: s, channel: channel, listeners: make(map[chan struct{}]struct{})}
		s.topics[channel] = t
	}
	t.listeners[wake] = struct{}{}
	if !s.closed && s.lacksLocked(t) {
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
func (t *topic) listenedAt(sub *Subscriber) bool {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	return t.sub == sub && sub.topics[t.channel] == t
}

// Heard returns how many messages of channel were heard, and whether they are heard
// now.
func (s *Subscriber) Heard(channel string) (messages uint64, subscribed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil {
		return 0, false
	}
	return t.messages, t.confirmed
}

func (s *Subscriber) signal() {
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
func (s *Subscriber) run() {
	pause := redialPause
	for s.ctx.Err() == nil {
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
		conn, epoch, err := s.cfg.Dial(ctx)
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
func (s *Subscriber) warn(err error) {
	s.mu.Lock()
	warned := s.warned
	s.warned = true
	s.mu.Unlock()
	if !warned {
		s.cfg.Logger.Warn("lock: pub/sub failed; until it works again waiters learn of a release only by polling",
			"server", s.cfg.Where(), "error", err)
	}
}

// serve uses conn until it fails or the subscriber closes.
func (s *Subscriber) serve(conn redis.Conn, epoch uint32) error {
	s.mu.Lock()
	closed := s.closed
	s.conn, s.asked, s.deaf = conn, nil, false
	s.pending, s.left = s.pending[:0], nil
	for _, t := range s.topics {
		s.pending = append(s.pending, t)
	}
	s.mu.Unlock()
	// Looked at once conn is where Drop finds it: one of the two sees the other.
	if closed || s.cfg.Epoch() != epoch {
		conn.Close()
		s.forget()
		return pipe.ErrReplaced
	}
	failed, done := make(chan error, 1), make(chan struct{})
	s.wg.Go(func() {
		defer close(done)
		failed <- s.read(conn)
	})
	err := s.write(conn, failed)
	conn.Close()
	<-done // what it read is not taken for the next connection's
	s.forget()
	return err
}

// forget notes that there is no connection any more.
func (s *Subscriber) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.heard = nil, time.Time{}
	for _, t := range s.topics {
		t.ways, t.confirmed = [2]way{}, false
	}
}

// write sends what is pending, and a ping each period.
func (s *Subscriber) write(conn redis.Conn, failed <-chan error) error {
	ticker := time.NewTicker(pingPeriod)
	defer ticker.Stop()
	for {
		for _, o := range s.take() {
			if err := s.send(conn, o.command, o.channels); err != nil {
				return err
			}
		}
		select {
		case <-s.work:
		case <-ticker.C:
			s.Retune()
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
func (s *Subscriber) send(conn redis.Conn, command string, args []any) error {
	if len(args) == 0 {
		return nil
	}
	most := subscribeMax
	if ofShards(command) {
		most = 1
	}
	for len(args) > 0 {
		n := min(len(args), most)
		s.ask(command, args[:n])
		if err := conn.Send(command, args[:n]...); err != nil {
			return err
		}
		args = args[n:]
	}
	return conn.Flush()
}

// ofShards reports whether a command, or what its answers are called, is about
// sharded channels.
func ofShards(command string) bool {
	switch command {
	case "SSUBSCRIBE", "SUNSUBSCRIBE", "ssubscribe", "sunsubscribe", "smessage":
		return true
	}
	return false
}

// ask notes a command that is about to be sent.
func (s *Subscriber) ask(command string, args []any) {
	q := question{command: strings.ToLower(command), answers: len(args), at: time.Now()}
	if command == "PING" {
		q.command = pong
	}
	q.channel, _ = args[0].(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, q)
}

// answered notes an answer. A server that gives a slot away tells of the end of
// its channels unasked.
func (s *Subscriber) answered(kind, channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 || s.asked[0].command != kind || ofShards(kind) && s.asked[0].channel != channel {
		return
	}
	if s.asked[0].answers--; s.asked[0].answers == 0 {
		s.endLocked()
	}
}

// endLocked takes the first question away, which is answered. The server answers in the
// order in which it was asked, and sends messages before that which were published
// before.
func (s *Subscriber) endLocked() {
	if s.asked[0].command == pong {
		s.heard = s.asked[0].at
	}
	s.asked = s.asked[1:]
}

// refused notes an error reply, and says what it refuses; a zero question if nothing
// was asked.
func (s *Subscriber) refused() (q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 {
		q = s.asked[0]
		s.endLocked()
	}
	return q
}

// order is a command for some channels.
type order struct {
	command  string
	channels []any
}

// take returns what is to be sent now.
func (s *Subscriber) take() (orders [4]order) {
	for i, command := range [...]string{"SUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE"} {
		orders[i].command = command
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.pending {
		if s.topics[t.channel] != t {
			continue // its slot has moved
		}
		listened := len(t.listeners) > 0
		for i, name := range [...]string{plain: t.channel, sharded: keys.ShardedChannel(t.channel)} {
			switch w := &t.ways[i]; {
			case listened && !w.asked && s.wantsLocked(i):
				w.asked = true
				orders[i].channels = append(orders[i].channels, name)
			case w.asked && (!listened || !s.hearing.wants(i)):
				*w = way{}
				orders[2+i].channels = append(orders[2+i].channels, name)
			}
		}
		if !listened {
			t.confirmed = false
			delete(s.topics, t.channel)
			continue
		}
		s.confirmLocked(t) // it may have lacked only what was given up
	}
	for _, name := range s.left {
		if s.topics[name] == nil {
			orders[2].channels = append(orders[2].channels, name)
		}
	}
	clear(s.pending)
	s.pending, s.left = s.pending[:0], nil
	return orders
}

// expire makes channels that nobody has listened to for a while pending.
func (s *Subscriber) expire() {
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
func (s *Subscriber) read(conn redis.Conn) error {
	for {
		reply, err := redis.ReceiveWithTimeout(conn, pingPeriod+s.cfg.Timeout)
		if _, answer := err.(redis.Error); answer && s.goesOn(s.refused(), err) {
			continue
		}
		if err != nil {
			return err
		}
		push, ok := reply.([]any)
		if !ok || len(push) < 2 {
			s.answered(pong, "") // without a subscription its answer is a plain one
			continue
		}
		kind, _ := redis.String(push[0], nil)
		channel, _ := redis.String(push[1], nil)
		s.answered(kind, channel)
		if s.pushed(kind, channel) {
			s.cfg.Logger.Info("lock: pub/sub works again", "server", s.cfg.Where())
		}
	}
}

// pushed takes in what the server says of a channel. again is true if that is the first
// subscription since a warning.
func (s *Subscriber) pushed(kind, channel string) (again bool) {
	i := plain
	if ofShards(kind) {
		i, channel = sharded, keys.PlainChannel(channel)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	switch kind {
	case "message", "smessage":
		if t != nil {
			t.messages++
			t.wakeLocked()
		}
	case "sunsubscribe":
		if t != nil && t.ways[i].asked {
			s.movedLocked(t) // its slot has gone to another server
		}
	case "subscribe", "ssubscribe":
		again, s.warned = s.warned, false
		if t != nil && t.ways[i].asked {
			t.ways[i].confirmed, t.confirmed = true, false
			s.confirmLocked(t)
		}
	}
	return again
}

// confirmLocked notes that t is confirmed, if it is heard in all ways now and was not
// before.
func (s *Subscriber) confirmLocked(t *topic) {
	if t.confirmed || len(t.listeners) > 0 && s.lacksLocked(t) || !t.ways[plain].confirmed && !t.ways[sharded].confirmed {
		return
	}
	for _, w := range t.ways {
		if w.asked && !w.confirmed {
			return
		}
	}
	t.confirmed = true
	t.generation = int(generations.Add(1))
	t.wakeLocked()
}

// goesOn reports whether the connection can be used on after an error reply to q.
func (s *Subscriber) goesOn(q question, err error) bool {
	switch {
	case q.command == pong: // a refused ping says that the connection lives
		return true
	case q.command != "ssubscribe":
		return false
	}
	switch verdict, to := pipe.VerdictOf(err, true, s.cfg.Server); {
	case verdict == pipe.Elsewhere:
		s.cfg.Redirect(to)
		s.redirected(to.Slot)
		return true
	case pipe.Definite(err) && s.cfg.Deaf != nil && s.cfg.Deaf(err):
		s.deafen(keys.PlainChannel(q.channel))
		return true
	}
	return false
}

// redirected sends the listeners of channels away whose slot is on another server.
func (s *Subscriber) redirected(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		if w := t.ways[sharded]; w.asked && !w.confirmed && keys.Slot(keys.ShardedChannel(t.channel)) == slot {
			s.movedLocked(t)
		}
	}
}

// deafen notes that the server refuses SSUBSCRIBE, now of channel. What can be heard
// without it is.
func (s *Subscriber) deafen(channel string) {
	now := s.cfg.Hearing()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
	if t := s.topics[channel]; t != nil {
		t.ways[sharded] = way{}
	}
	s.retuneLocked(now)
	for _, t := range s.topics {
		s.confirmLocked(t)
	}
}

// movedLocked forgets a topic that the server has not got any more and wakes
// its listeners, which look at the key's node for their channel before they
// sleep again.
func (s *Subscriber) movedLocked(t *topic) {
	if t.ways[plain].asked {
		s.left = append(s.left, t.channel)
		s.signal()
	}
	t.ways, t.confirmed = [2]way{}, false
	delete(s.topics, t.channel)
	t.wakeLocked()
}

// Drop gives the connection in use up; another one is dialled.
func (s *Subscriber) Drop() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// Close ends the connection and returns when no goroutine runs. The context that New
// got must have ended.
func (s *Subscriber) Close() {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	s.wg.Wait()
}
