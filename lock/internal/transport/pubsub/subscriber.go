package pubsub

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

const (
	pingPeriod   = 2 * time.Second // how soon a dead subscriber connection is noticed
	lingerTime   = 2 * time.Second // how long a channel without listeners stays subscribed
	redialPause  = 50 * time.Millisecond
	redialLimit  = 5 * time.Second
	subscribeMax = 1000        // channels of one SUBSCRIBE, or that are written without a flush
	refusedPause = time.Minute // before a channel is asked for again that the server will refuse again
)

// Config has the settings of a Subscriber. Its functions are called with no mutex held.
type Config struct {
	// Timeout is how long the server may be silent beyond the period of pings.
	Timeout time.Duration
	// Labeler names the goroutines.
	Labeler *work.Labeler
	// Server is the name of the server, to which redirections may refer.
	Server string
	// Modes returns what to listen for now. It is called at every Listen, at Retune,
	// and with each ping.
	Modes func() SubscribeModes
	// SSubscribeRefused is called when the server refuses SSUBSCRIBE. It returns true if Modes no
	// longer asks for it.
	SSubscribeRefused func(err error) bool
	// Dial opens a connection, in a time that it limits itself. It also returns the epoch of
	// the server that it dialled.
	Dial func(ctx context.Context) (conn redis.Conn, epoch uint32, err error)
	// Answered is called at the first answer on each connection. nil is never called.
	Answered func()
	// Epoch returns how often the server behind the name was replaced.
	Epoch func() uint32
	// Dials returns how many connections for commands were made to the server. When it has
	// changed, another server may be behind the name, and the connection is replaced at the
	// next ping. nil means that it never changes.
	Dials func() uint32
	// MasterSeen returns a time when a server to which commands go was no replica. Messages that
	// were published later may have been missed, see News.Upto. nil means that the server is
	// never a replica.
	MasterSeen func() time.Time
	// Redirect is called when a slot is on another server, before the listeners of the
	// channel are woken. It is used only with SubscribeModes.Sharded. It returns false if the other
	// server is not known, or is this server.
	Redirect func(to pipe.Redirection) bool
	// Where returns the name of the server for the log.
	Where  func() string
	Logger *record.Logger
}

// Subscriber is the one connection for pub/sub to a server. All methods are safe
// for concurrent use.
type Subscriber struct {
	// immutable
	cfg Config
	ctx context.Context // ends dials when it ends; Close must follow

	mu               sync.Mutex           // guards the fields below and the topics; never held during I/O
	topics           map[string]*topic    // by channel, with its name for PUBLISH; while there is no conn, all have listeners
	modes            SubscribeModes       // what topics listen for
	isShardedRefused bool                 // the server of conn has refused SSUBSCRIBE
	pending          []*topic             // topics whose subscriptions may differ from what is wanted now; empty while there is no conn
	movedChannels    []string             // plain channels of topics that have moved, to unsubscribe
	idle             []*topic             // topics that have lost their last listener, each once; empty while there is no conn
	redirected       map[string]*topic    // by channel, those that the server of conn has redirected since the last ping; nil if the listeners were sent away
	ended            map[string]struct{}  // channels of which the server of conn has ended a subscription since the last ping
	refused          map[string]time.Time // by channel, those that the server of conn has refused alone: when to ask for them again
	asksAlone        bool                 // the server of conn has refused several channels at once, so each has a SUBSCRIBE of its own
	work             chan struct{}        // of capacity 1; has a token if pending is not empty or the connection died
	conn             redis.Conn           // nil while there is none
	questions        []question           // sent on conn and not answered, in order
	lastPong         time.Time            // when the last ping that was answered was sent; all earlier messages of confirmed topics were received
	isStarted        bool                 // run runs
	closed           bool
	isWarned         bool // the log says that pub/sub has failed
	looks            int  // how often an answer or a command has looked at a topic; for tests
	wg               sync.WaitGroup
}

// topic is one channel of the subscriber.
type topic struct {
	sub     *Subscriber
	channel string

	// guarded by sub.mu
	listeners  map[listener]struct{}
	idleSince  time.Time // when its last listener left; zero if it is not in sub.idle
	ways       [2]way    // plain and sharded
	confirmed  bool      // the server has confirmed all ways that it needs and can have, so no message is missed
	generation int       // the number of the last confirmation, unique in the process; 0 before the first
	messages   uint64    // counts the messages that were received
}

// way is one of the two ways in which a channel is subscribed.
type way struct {
	asked     bool // the command was sent on the connection in use
	confirmed bool // the server has answered it
}

// The ways, as indexes.
const (
	plain   = 0
	sharded = 1
)

// errDialAgain is returned when another server may be behind the name.
var errDialAgain = errors.New("another server may be behind the name")

var generations atomic.Int64 // counts the confirmations of all topics

// pong is the command of a question that is a PING, as its answer names it.
const pong = "pong"

// New returns a Subscriber. It does nothing before its first listener. Close it after ctx
// has ended.
func New(ctx context.Context, cfg Config) *Subscriber {
	if cfg.Dials == nil {
		cfg.Dials = func() uint32 { return 0 }
	}
	return &Subscriber{cfg: cfg, ctx: ctx, topics: make(map[string]*topic), redirected: make(map[string]*topic), ended: make(map[string]struct{}), refused: make(map[string]time.Time), work: make(chan struct{}, 1)}
}

// listen wakes l at each confirmation and message of channel, until leave.
func (s *Subscriber) listen(channel string, l listener) *topic {
	now := s.cfg.Modes()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retuneLocked(now)
	t := s.topics[channel]
	if t == nil {
		t = &topic{sub: s, channel: channel, listeners: make(map[listener]struct{})}
		s.topics[channel] = t
	}
	t.listeners[l] = struct{}{}
	if s.conn != nil && !s.closed && s.lacksLocked(t) {
		s.pending = append(s.pending, t)
		wait.Signal(s.work)
	}
	if !s.isStarted && !s.closed {
		s.isStarted = true
		s.wg.Go(s.cfg.Labeler.Label("subscribe", s.run))
	}
	return t
}

// leave undoes listen.
func (t *topic) leave(l listener) {
	s := t.sub
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(t.listeners, l)
	switch {
	case len(t.listeners) > 0 || s.topics[t.channel] != t:
	case s.conn == nil:
		delete(s.topics, t.channel)
	default:
		if t.idleSince.IsZero() {
			s.idle = append(s.idle, t)
		}
		t.idleSince = time.Now()
	}
}

// belongsTo reports whether the topic is of sub and was not forgotten.
func (t *topic) belongsTo(sub *Subscriber) bool {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	return t.sub == sub && sub.topics[t.channel] == t
}

// Heard returns how many messages of channel were received, and whether channel is
// subscribed now.
func (s *Subscriber) Heard(channel string) (messages uint64, subscribed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil {
		return 0, false
	}
	return t.messages, t.confirmed
}

func (t *topic) wakeLocked() {
	for l := range t.listeners {
		l.wakeLocked()
	}
}

// unconfirmLocked records that messages of t may be missed from now on.
func (t *topic) unconfirmLocked() {
	if !t.confirmed {
		return
	}
	t.confirmed = false
	for l := range t.listeners {
		l.deafenLocked()
	}
}

// run keeps a connection and writes to it. Another goroutine reads.
func (s *Subscriber) run() {
	pause := redialPause
	for s.ctx.Err() == nil {
		dials := s.cfg.Dials() // read before the dial, because a later dial may lead to another server
		conn, epoch, err := s.cfg.Dial(s.ctx)
		began := time.Now()
		if err == nil {
			err = s.serve(conn, epoch, dials)
		}
		if s.ctx.Err() != nil {
			return
		}
		if err == errDialAgain {
			continue // without a pause, because the connection was in use for at least a period of pings
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

// warn logs, once until pub/sub works again, that pub/sub has failed and waiters only poll.
func (s *Subscriber) warn(err error) {
	s.mu.Lock()
	warned := s.isWarned
	s.mu.Unlock()
	if !warned && s.cfg.Logger.Log(record.PubSubFailed, s.cfg.Where(), err) {
		s.mu.Lock()
		s.isWarned = true
		s.mu.Unlock()
	}
}

// serve uses conn until it fails, the subscriber closes, or another server may be behind the name.
func (s *Subscriber) serve(conn redis.Conn, epoch, dials uint32) error {
	resp.LimitMessages(conn)
	s.mu.Lock()
	closed := s.closed
	s.conn, s.questions, s.isShardedRefused = conn, nil, false
	s.pending, s.movedChannels = s.pending[:0], nil
	for _, t := range s.topics {
		s.pending = append(s.pending, t)
	}
	s.mu.Unlock()
	// The epoch is read after s.conn is set. So either Drop finds conn, or this line sees
	// the new epoch.
	if closed || s.cfg.Epoch() != epoch {
		conn.Close()
		s.forgetConn()
		return pipe.ErrReplaced
	}
	failed, done := make(chan error, 1), make(chan struct{})
	s.wg.Go(s.cfg.Labeler.Label("read messages", func() {
		defer close(done)
		failed <- s.read(conn)
	}))
	err := s.write(conn, failed, dials)
	conn.Close()
	<-done // so that the last messages of conn are not counted for the next connection
	s.forgetConn()
	return err
}

// forgetConn records that there is no connection. It forgets the topics without listeners, because
// nothing is subscribed.
func (s *Subscriber) forgetConn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.lastPong, s.idle, s.pending = nil, time.Time{}, nil, nil
	s.redirected, s.ended = make(map[string]*topic), make(map[string]struct{})
	s.refused, s.asksAlone = make(map[string]time.Time), false
	for _, t := range s.topics {
		if len(t.listeners) == 0 {
			delete(s.topics, t.channel)
		}
		t.ways, t.idleSince = [2]way{}, time.Time{}
		t.unconfirmLocked()
	}
}

// write sends pending commands, and a ping in each period, as long as Config.Dials returns dials.
func (s *Subscriber) write(conn redis.Conn, failed <-chan error, dials uint32) error {
	ticker := time.NewTicker(pingPeriod)
	defer ticker.Stop()
	for {
		for _, o := range s.takeOrders() {
			if err := s.send(conn, o.command, o.channels); err != nil {
				return err
			}
		}
		select {
		case <-s.work:
		case <-ticker.C:
			if s.cfg.Dials() != dials {
				return errDialAgain
			}
			s.Retune()
			s.unsubscribeIdle()
			s.askRedirected()
			s.askRefused()
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

// order is a command that is to be sent, with its channels.
type order struct {
	command  string
	channels []any
}

// takeOrders returns the commands to send now.
func (s *Subscriber) takeOrders() (orders [4]order) {
	for i, command := range [...]string{"SUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE"} {
		orders[i].command = command
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// After a connection was lost many topics are pending, in the random order of a map.
	slices.SortFunc(s.pending, func(a, b *topic) int { return cmp.Compare(a.channel, b.channel) })
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
			case w.asked && (!listened || !s.modes.wants(i)):
				*w = way{}
				orders[2+i].channels = append(orders[2+i].channels, name)
			}
		}
		if !listened {
			delete(s.topics, t.channel)
			continue
		}
		s.confirmLocked(t) // a way that it lacked may not be wanted any more
	}
	for _, name := range s.movedChannels {
		if s.topics[name] == nil {
			orders[2].channels = append(orders[2].channels, name)
		}
	}
	clear(s.pending)
	s.pending, s.movedChannels = s.pending[:0], nil
	return orders
}

// unsubscribeIdle makes the topics pending that have had no listener for lingerTime. takeOrders
// unsubscribes them, unless they have listeners again.
func (s *Subscriber) unsubscribeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = slices.DeleteFunc(s.idle, func(t *topic) bool {
		if len(t.listeners) == 0 && time.Since(t.idleSince) <= lingerTime {
			return false
		}
		t.idleSince = time.Time{}
		s.pending = append(s.pending, t)
		return true
	})
}

// askRedirected makes the topics pending that the server has redirected, and whose listeners were not
// sent away. The slot may have come to the server, or the other server may be known now.
func (s *Subscriber) askRedirected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.redirected {
		if t != nil && !t.ways[sharded].confirmed {
			t.ways[sharded] = way{}
			s.pending = append(s.pending, t)
		}
	}
	s.redirected, s.ended = make(map[string]*topic), make(map[string]struct{})
}

// askRefused makes the topics pending that the server has refused, if it is time to ask for them again.
func (s *Subscriber) askRefused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for channel, at := range s.refused {
		switch t := s.topics[channel]; {
		case t == nil || t.confirmed:
			delete(s.refused, channel)
		case !time.Now().Before(at):
			s.askAgainLocked(t)
		}
	}
}

// askAgainLocked makes t pending in the ways that the server has not confirmed.
func (s *Subscriber) askAgainLocked(t *topic) {
	for i := range t.ways {
		if !t.ways[i].confirmed {
			t.ways[i] = way{}
		}
	}
	s.pending = append(s.pending, t)
}

// Drop closes the connection in use. The Subscriber dials another one.
func (s *Subscriber) Drop() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// Close ends the connection and returns when no goroutine of s runs. The context given to
// New must have ended.
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
