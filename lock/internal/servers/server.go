package servers

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// Server is what belongs to one server: its connections for commands, the one that
// subscribes, and the user's Attachment. Servers share nothing, so one that hangs
// costs its own requests alone. All methods are safe for concurrent use.
type Server struct {
	// immutable
	router     *Router
	name       string          // as a Layout or a redirection names it; "" if none does
	ctx        context.Context // ends with the Router's, or when the server is retired
	cancel     context.CancelFunc
	subscriber *pubsub.Subscriber

	opened chan struct{} // closed when open has returned; never of the unknown server
	// immutable once opened is closed; nil of the unknown server
	err        error // it was not opened
	attachment Attachment
	pipes      []*pipe.Pipe     // commands; a name always takes the same one
	replicated *pipe.Replicated // acquisitions that replicas must have; nil without Config.Replicas

	// atomic
	epoch      atomic.Uint32          // counts the servers that it stood for
	address    atomic.Pointer[string] // for the log, see Address; nil while it is not known
	connected  atomic.Uint64          // counts the connections that were made
	unreached  atomic.Bool            // the last connection could not be made
	checked    atomic.Bool            // the server was asked what it evicts
	unanswered atomic.Int32           // counts what it was asked and gave no answer to
	clock      clock
	publishing publishing

	// used by Router.update alone
	instance string    // see topology.Server.Instance; empty at first
	unnamed  time.Time // when no Layout named it any more; zero if the last one did

	// guarded by Router.mu
	wanted  bool // it was asked for since Router.others
	hearsay bool // no Layout has ever named it: other servers did
}

// newServer returns the server of that name, which is to be opened.
func newServer(r *Router, name string) *Server {
	s := &Server{router: r, name: name, opened: make(chan struct{})}
	s.publishing.choice = NewChoice(r.traits, r.cfg.Overlap)
	s.ctx, s.cancel = context.WithCancel(r.ctx)
	dials := dialing.NewBound(1)
	s.subscriber = pubsub.New(s.ctx, pubsub.Config{
		Timeout: r.cfg.IOTimeout, Hearing: s.hearing, Deaf: s.deaf, Logger: r.cfg.Logger, Server: s.name, Where: s.Address, Epoch: s.Epoch,
		Cast:     r.cfg.Cast,
		Dial:     func(ctx context.Context) (redis.Conn, uint32, error) { return s.Dial(ctx, dials) },
		Redirect: func(to pipe.Redirection) { s.Target(to) },
	})
	return s
}

// open opens the server, without I/O. Whoever made it calls open, once.
func (s *Server) open() {
	defer close(s.opened)
	cfg := &s.router.cfg
	attachment, err := cfg.Opened(s)
	if err != nil {
		s.err = err
		s.cancel()
		return
	}
	s.attachment = attachment
	conns := s.pipeConfig()
	s.pipes = make([]*pipe.Pipe, cfg.Connections)
	for i := range s.pipes {
		s.pipes[i] = pipe.New(s.ctx, conns)
	}
	if cfg.Replicas > 0 {
		s.replicated = pipe.NewReplicated(s.ctx, conns, cfg.Connections)
	}
}

// isOpen waits until the server is opened, and reports whether that succeeded.
func (s *Server) isOpen() bool {
	<-s.opened
	return s.err == nil
}

// pipeConfig is what the connections for commands get.
func (s *Server) pipeConfig() *pipe.Config {
	cfg := &s.router.cfg
	conns := &pipe.Config{
		Timeout: cfg.IOTimeout, Server: s.name, Dial: s.dialGreeted, Epoch: s.Epoch, Failed: s.Failed, Unpublished: s.publishRefused,
		Timed: s.Timed, Cast: cfg.Cast,
		Replicas: cfg.Replicas, ReplicaTimeout: cfg.ReplicaTimeout,
	}
	if s.router.traits.Slots {
		conns.Redirect = func(r *pipe.Request, to pipe.Redirection) { s.Target(to).Put(r) }
	}
	return conns
}

// Name is what Layouts and redirections call the server; "" if none does.
func (s *Server) Name() string { return s.name }

// Epoch counts the servers that the Server stood for.
func (s *Server) Epoch() uint32 { return s.epoch.Load() }

// Attachment returns what Config.Opened returned; nil if the server is not known.
func (s *Server) Attachment() Attachment { return s.attachment }

// Subscriber returns the connection for pub/sub.
func (s *Server) Subscriber() *pubsub.Subscriber { return s.subscriber }

// Put queues a request, which is completed in any case. Those of one name stay in
// order while their connection lives, whatever keys they have.
func (s *Server) Put(r *pipe.Request) {
	switch {
	case s == s.router.unknown:
		r.Fail(s.router.noServer())
	case s.replicated != nil && r.Acquires():
		s.replicated.Put(r)
	default:
		s.pipes[maphash.String(s.router.seed, r.Key())%uint64(len(s.pipes))].Put(r)
	}
}

// Target returns the server that a redirection by this one leads to. Without slots
// it is nil, because there no other server is known.
func (s *Server) Target(to pipe.Redirection) *Server {
	switch {
	case !s.router.traits.Slots:
		return nil
	case to.Ask:
		return s.router.open(to.Server, false)
	}
	return s.router.move(to.Slot, to.Server)
}

// Failed is told why a connection to the server was given up: the Topology may know
// more.
func (s *Server) Failed(err error) {
	if s.router.cfg.Topology != nil && err != pipe.ErrReplaced {
		s.router.look()
	}
}

// standFor notes which server a Layout names. If it is another one than before,
// nothing that the old one says counts any more.
func (s *Server) standFor(now topology.Server) {
	address := cmp.Or(now.Name, now.Instance)
	other := s.instance != "" && s.instance != now.Instance
	s.instance = now.Instance
	old := s.address.Swap(&address)
	if !other {
		return
	}
	s.router.warnReplaced(*old, address)
	s.epoch.Add(1)
	// A connection may take long to close. The others do not wait for it.
	var wg sync.WaitGroup
	for _, p := range s.pipes {
		wg.Go(p.Drop)
	}
	if s.replicated != nil {
		wg.Go(s.replicated.Drop)
	}
	wg.Go(s.subscriber.Drop)
	s.attachment.Replaced()
	wg.Wait()
}

// warnReplaced warns that what one server had is another's now.
func (r *Router) warnReplaced(old, heir string) {
	r.cfg.Logger.Warn("lock: the server was replaced, by a failover, a restart or a move of its slots; the client asks the new one which of its locks it has",
		"old", old, "new", heir)
}

// close ends the server's connections and its Attachment, and returns when no
// goroutine of them runs. What is put from now on fails with why.
func (s *Server) close(why error) {
	s.cancel()
	s.subscriber.Close()
	for _, p := range s.pipes {
		p.Close(why)
	}
	if s.attachment != nil {
		s.attachment.Close()
	}
	if s.replicated != nil {
		s.replicated.Close(why)
	}
}
