package servers

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// Server has all parts that belong to one server: its connections for commands, the
// connection that subscribes, and the user's Attachment. Servers share nothing, so a
// server that hangs delays only its own requests. All methods are safe for concurrent
// use.
type Server struct {
	// immutable
	router     *Router
	name       string          // from a Layout or a redirection; "" if there is none
	ctx        context.Context // ends with the Router's, or when the server is retired; its cause says why
	cancel     context.CancelCauseFunc
	subscriber *pubsub.Subscriber

	opened chan struct{} // closed when open or seal has returned; the unknown server's only when the Router closes
	// immutable once opened is closed; nil for the unknown server, but err is ErrNoServer when the Router has closed
	err        error // why it was not opened
	attachment Attachment
	commands   *pipe.Group      // for all other requests; nil if it was not opened
	replicated *pipe.Replicated // for acquisitions that replicas must have; nil without Config.Replicas

	// atomic
	hasOpenBegun     atomic.Bool                     // open or seal was called
	isReady          atomic.Bool                     // open has succeeded
	epoch            atomic.Uint32                   // how often the server behind the name was replaced
	epochContext     atomic.Pointer[context.Context] // ends with the epoch
	address          atomic.Pointer[string]          // for the log, see Address; nil while it is not known
	connected        atomic.Uint64                   // counts the connections that were made
	dials            atomic.Uint32                   // counts the connections for commands that were made
	masterSeenAt     atomic.Pointer[time.Time]       // when a connection for commands last asked whether its server is a replica, and it was none; nil at first
	noConnection     fault                           // no connection can be made
	noAnswer         fault                           // the server does not answer
	isChecked        atomic.Bool                     // checkEviction has asked the server, or does so now
	unansweredChecks atomic.Int32                    // how often checkEviction got no answer in time
	clock            clock
	publishing       publishing
	backoff          backoff // of dials for commands
	renewing         backoff // of dials for renewal

	// used only by Router.update
	instance     string             // the topology.Server.Instance that is behind the name; empty at first
	endEpoch     context.CancelFunc // cancels epochContext
	unnamedSince time.Time          // since when no Layout and no redirection names it; zero if the last Layout did

	// guarded by Router.mu
	isWanted     bool // it was needed since Router.notNamed
	fromRedirect bool // only redirections have named it, and no Layout
}

// fault is a state that the log reports once until it has ended. Its methods are safe for
// concurrent use.
type fault struct{ isLogged atomic.Bool }

// logOnce calls log if the fault was not reported yet. If log has not written it, the next call may.
func (f *fault) logOnce(log func() (written bool)) {
	if !f.isLogged.Swap(true) && !log() {
		f.isLogged.Store(false)
	}
}

// clear records that the fault has ended, and reports whether the log had reported it.
func (f *fault) clear() bool { return f.isLogged.Load() && f.isLogged.Swap(false) } // Load is cheaper, and there is seldom a fault

// newServer returns a server of that name. The server has no goroutine until ensureOpen is called.
func newServer(r *Router, name string) *Server {
	s := &Server{router: r, name: name, opened: make(chan struct{})}
	s.backoff.longest, s.backoff.random = r.cfg.IOTimeout/2, r.cfg.Random
	s.renewing.longest, s.renewing.random = min(r.cfg.IOTimeout/2, r.cfg.Lease/24), r.cfg.Random
	s.publishing.choice = NewChoice(r.traits, r.cfg.Overlap)
	s.ctx, s.cancel = context.WithCancelCause(r.ctx)
	s.beginEpoch()
	dials := dialing.NewBound(1)
	proved := s.provedAt
	if r.checkMasterEvery() == 0 {
		proved = nil
	}
	s.subscriber = pubsub.New(s.ctx, pubsub.Config{
		Dials: s.dials.Load, MasterSeen: proved,
		Timeout: r.cfg.IOTimeout, Modes: s.subscribeMode, SSubscribeRefused: s.ssubscribeRefused, Logger: r.cfg.Logger, Server: s.name, Where: s.Address, Epoch: s.Epoch,
		Labeler:  r.cfg.Labeler,
		Dial:     func(ctx context.Context) (redis.Conn, uint32, error) { return s.Dial(ctx, dials) },
		Answered: func() { s.noteReached(nil) },
		Redirect: s.recordRedirect,
	})
	return s
}

// open opens the server, without I/O. ensureOpen calls it, once.
func (s *Server) open() {
	defer close(s.opened)
	cfg := &s.router.cfg
	attachment, err := cfg.Opened(s)
	if err != nil {
		s.err = err
		s.cancel(err)
		return
	}
	s.attachment = attachment
	conns := s.pipeConfig()
	s.commands = pipe.NewGroup(s.ctx, conns, cfg.Connections)
	if cfg.Replicas > 0 {
		s.replicated = pipe.NewReplicated(s.ctx, conns, cfg.Connections)
	}
	s.isReady.Store(true)
}

// ensureOpen opens the server at the first call, and reports whether it is open. A Layout may name
// many servers that no request ever needs, and an open one costs some goroutines.
func (s *Server) ensureOpen() bool {
	switch {
	case s.isReady.Load():
		return true
	case s == s.router.unknown:
		return false
	case !s.hasOpenBegun.Swap(true):
		s.open()
	}
	<-s.opened
	return s.err == nil
}

// seal makes sure that the server is not opened any more. If it is being opened, seal waits.
func (s *Server) seal() {
	if !s.hasOpenBegun.Swap(true) {
		s.err = ErrNoServer
		close(s.opened)
	}
	<-s.opened
}

// leadAfter is Config.LeadAfter of the connections for commands (package pipe). It is above 1,
// because even with two active callers a request is sometimes alone.
const leadAfter = 8

// pipeConfig returns the Config of the connections for commands.
func (s *Server) pipeConfig() *pipe.Config {
	cfg := &s.router.cfg
	conns := &pipe.Config{
		Timeout: cfg.IOTimeout, Server: s.name, Dial: s.dialCommands, Epoch: s.Epoch, Unpublished: s.publishRefused,
		Failed:   func(err error) { s.backoff.connectionFailed(err); s.Failed(err) },
		Answered: func() { s.backoff.reset(); s.Answered() },
		Timed:    s.Timed, Labeler: cfg.Labeler, LeadAfter: leadAfter,
		Replicas: cfg.Replicas, ReplicaTimeout: cfg.ReplicaTimeout,
		CheckMasterEvery: s.router.checkMasterEvery(), Dials: s.dials.Load, MasterSeen: s.noteMasterSeen,
	}
	if s.router.traits.Slots {
		conns.Redirect = func(r *pipe.Request, to pipe.Redirection) {
			if other := s.FollowRedirection(to); other != nil {
				other.Put(r)
			} else {
				r.Fail(errNameless)
			}
		}
	}
	return conns
}

// checkMasterEvery is Config.CheckMasterEvery, or 0 if connections do not ask.
func (r *Router) checkMasterEvery() time.Duration {
	if r.traits.Slots {
		return 0
	}
	return r.cfg.CheckMasterEvery
}

// noteMasterSeen records that a connection for commands has asked at that time, and its server was no
// replica.
func (s *Server) noteMasterSeen(at time.Time) {
	for {
		last := s.masterSeenAt.Load()
		if last != nil && !at.After(*last) || s.masterSeenAt.CompareAndSwap(last, &at) {
			return
		}
	}
}

// provedAt returns when a server to which commands go was last known to be no replica.
func (s *Server) provedAt() (at time.Time) {
	if last := s.masterSeenAt.Load(); last != nil {
		at = *last
	}
	return at
}

// Name returns the name of the server in Layouts and redirections, or "" if there is none.
func (s *Server) Name() string { return s.name }

// Epoch returns how often the server that s stands for was replaced by another one.
func (s *Server) Epoch() uint32 { return s.epoch.Load() }

// Attachment returns what Config.Opened returned, or nil if the server is not known.
func (s *Server) Attachment() Attachment {
	if !s.ensureOpen() {
		return nil
	}
	return s.attachment
}

// Subscriber returns the connection for pub/sub.
func (s *Server) Subscriber() *pubsub.Subscriber { return s.subscriber }

// Put queues a request. The request is completed in any case. Requests of one name may arrive in
// any order, but none overtakes one that was posted before, see pipe.Group.
func (s *Server) Put(r *pipe.Request) {
	if s.route(r) {
		s.commands.Put(r)
	}
}

// Send is like Put, but the caller must wait for the answer next, see pipe.Group.Send.
func (s *Server) Send(r *pipe.Request) {
	if s.route(r) {
		s.commands.Send(r)
	}
}

// route reports whether the caller must send r over the connections for commands. If not, route
// has given r to another connection, or has failed it.
func (s *Server) route(r *pipe.Request) bool {
	switch {
	case !s.ensureOpen():
		r.Fail(s.router.noServerError())
	case s.replicated != nil && r.Acquires():
		s.replicated.Put(r)
	default:
		return true
	}
	return false
}

// errNameless is the error of a request that was redirected to a server whose name is not known.
const errNameless = redis.Error("TRYAGAIN the slot is on its way to a node that tells no name, and that is not known yet")

// FollowRedirection returns the server that a redirection by this server names. Without slots it
// returns nil, because no other server is known. It also returns nil if the server has
// no name, and the Layout has not exactly one that it may be.
func (s *Server) FollowRedirection(to pipe.Redirection) *Server {
	port, nameless := strings.CutPrefix(to.Server, "?")
	if to.Ask {
		s.noteAsk()
	}
	switch {
	case !s.router.traits.Slots:
		return nil
	case nameless:
		return s.router.findNameless(s, to, port)
	case to.Ask:
		return s.router.findOrAdd(to.Server, false)
	}
	return s.router.moveSlot(to.Slot, to.Server)
}

// recordRedirect records a redirection by this server, and reports whether another server is known to
// which it leads.
func (s *Server) recordRedirect(to pipe.Redirection) bool {
	other := s.FollowRedirection(to)
	return other != nil && other != s && other != s.router.unknown
}

// Failed is called with the reason when a connection to the server has failed. It makes
// the Topology look again, because the Topology may know more.
func (s *Server) Failed(err error) {
	if err == pipe.ErrUnanswered || isTimeout(err) {
		s.warnNoAnswer()
	}
	if s.router.cfg.Topology != nil && err != pipe.ErrReplaced {
		s.router.hintTopology()
	}
}

// warnNoAnswer is called when a connection to the server got no answer in time. It warns, once
// until a new connection gets an answer. A server that hangs still accepts connections, so without
// this warning the log would say nothing.
func (s *Server) warnNoAnswer() {
	s.noAnswer.logOnce(func() bool { return s.router.cfg.Logger.Log(record.NoAnswer, s.Address()) })
}

// Answered is called when a new connection to the server has answered a request.
func (s *Server) Answered() {
	if s.noAnswer.clear() {
		s.router.cfg.Logger.Log(record.AnswersAgain, s.Address())
	}
}

// setTarget records which server a Layout names. If it differs from the one before, no
// answer of the old server counts any more.
func (s *Server) setTarget(now topology.Server) {
	address := cmp.Or(now.Name, now.Instance)
	isReplaced := s.instance != "" && s.instance != now.Instance
	s.instance = now.Instance
	old := s.address.Swap(&address)
	if !isReplaced {
		return
	}
	s.router.cfg.Logger.Log(record.Replaced, *old, address)
	end := s.endEpoch
	s.beginEpoch() // before the number rises, so that no dial of the new epoch ends with the old one
	s.epoch.Add(1)
	end()
	s.backoff.reset()
	s.renewing.reset()
	s.clock.forgetFailures()
	s.publishing.forgetFailures()
	s.isChecked.Store(false)
	s.unansweredChecks.Store(0)
	if !s.isReady.Load() { // it has no connections yet; the next ones belong to the new epoch
		return
	}
	// A connection may take long to close. The others must not wait for it.
	var wg sync.WaitGroup
	wg.Go(s.commands.Drop)
	if s.replicated != nil {
		wg.Go(s.replicated.Drop)
	}
	wg.Go(s.subscriber.Drop)
	s.attachment.Replaced()
	wg.Wait()
}

// beginEpoch makes the context that ends dials of an epoch.
func (s *Server) beginEpoch() {
	during, end := context.WithCancel(s.ctx)
	s.endEpoch = end
	s.epochContext.Store(&during)
}

// close ends the server's connections and its Attachment, and returns when none of
// their goroutines runs. Requests from now on fail with why.
func (s *Server) close(why error) {
	s.cancel(why)
	s.seal()
	s.subscriber.Close()
	if s.commands != nil {
		s.commands.Close(why)
	}
	if s.attachment != nil {
		s.attachment.Close()
	}
	if s.replicated != nil {
		s.replicated.Close(why)
	}
}
