package servers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/lock/topology"
)

const (
	lease       = 30 * time.Second
	timeout     = time.Second
	dialTimeout = 5 * time.Second
)

var (
	errClosed = errors.New("the user is closed")
	errDown   = errors.New("connection refused")
)

// fixture is a Router whose Layouts come from the test. It records the calls of the Router's user.
type fixture struct {
	t       *testing.T
	router  *servers.Router
	logger  *record.Logger
	log     bytes.Buffer // written by one goroutine at a time
	closing chan struct{}

	// may be set before the calls that use them
	traits  topology.Traits
	overlap time.Duration
	dial    func(ctx context.Context, server string) (redis.Conn, error)
	opened  func(*servers.Server) error
	moved   func()
	idle    func(name string) bool

	news  chan topology.Layout
	hints chan (<-chan struct{}) // of capacity 1: gets the hint channel that Follow was called with

	mu     sync.Mutex // guards what follows
	events []string   // the calls of Config and of Attachments, with the names of their servers
}

// build makes the Router. Without a dial function no server can be reached.
func (f *fixture) build(t *testing.T, slots bool) *fixture {
	t.Helper()
	f.t, f.traits.Slots = t, slots
	f.closing, f.news, f.hints = make(chan struct{}), make(chan topology.Layout), make(chan (<-chan struct{}), 1)
	cfg := f.config()
	cfg.Topology = f
	var err error
	f.router, err = servers.New(cfg)
	require.NoError(t, err)
	t.Cleanup(f.close)
	return f
}

// logged returns the log, when all is written.
func (f *fixture) logged() string {
	f.logger.Drain()
	return f.log.String()
}

func (f *fixture) config() servers.Config {
	f.logger = record.New(slog.New(slog.NewTextHandler(&f.log, nil)))
	return servers.Config{
		Lease: lease, IOTimeout: timeout, DialTimeout: dialTimeout, Connections: 2, Overlap: f.overlap, Logger: f.logger, Closing: f.closing,
		Opened: func(s *servers.Server) (servers.Attachment, error) {
			f.addEvent("opened", s.Name())
			if f.opened != nil {
				if err := f.opened(s); err != nil {
					return nil, err
				}
			}
			return &attachment{f, s}, nil
		},
		Moved: func() {
			f.addEvent("moved", "")
			if f.moved != nil {
				f.moved()
			}
		},
	}
}

func (f *fixture) close() { f.router.Close(errClosed) }

func (f *fixture) addEvent(what, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != "" {
		what += " " + name
	}
	f.events = append(f.events, what)
}

// takeEvents returns the calls of Config and of Attachments since the last call of takeEvents.
func (f *fixture) takeEvents() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	told := f.events
	f.events = nil
	return told
}

func (f *fixture) GetContext(context.Context) (redis.Conn, error) {
	return nil, errors.New("not used")
}
func (f *fixture) Traits() topology.Traits { return f.traits }

func (f *fixture) Dial(ctx context.Context, server string) (redis.Conn, error) {
	if f.dial == nil {
		return nil, errDown
	}
	return f.dial(ctx, server)
}

func (f *fixture) Follow(ctx context.Context, _ time.Duration, hint <-chan struct{}, update func(topology.Layout)) {
	f.hints <- hint
	for {
		select {
		case l := <-f.news:
			update(l)
		case <-ctx.Done():
			return
		}
	}
}

// follow makes the Router follow the Topology, by a request whose caller does not wait.
func (f *fixture) follow() {
	ctx, cancel := context.WithCancel(f.t.Context())
	cancel()
	_ = f.ask(ctx, "any")
}

// publishLayout gives the Router a Layout in which the named servers have the slots in turn,
// and waits until the Router uses it. The slots of the name "" have no server.
func (f *fixture) publishLayout(names ...string) {
	l := topology.Layout{Slots: make([]int, keys.Slots)}
	for i, name := range names {
		n := -1
		if name != "" {
			n = len(l.Servers)
			l.Servers = append(l.Servers, topology.Server{Name: name})
		}
		for slot := i; slot < keys.Slots; slot += len(names) {
			l.Slots[slot] = n
		}
	}
	f.news <- l
	synctest.Wait()
}

// at returns the name of the server that has the slot.
func (f *fixture) at(slot int) string { return f.router.Server(keyOf(slot)).Name() }

// keyOf returns a short key of that slot.
func keyOf(slot int) string {
	for i := 0; ; i++ {
		if key := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + string(rune('a'+i/17576)); keys.Slot(key) == slot {
			return key
		}
	}
}

// ask sends a request and returns how it ended.
func (f *fixture) ask(ctx context.Context, key string) error {
	var requests pipe.Requests
	r := requests.New(key, script.Token, 1, nil, resp.ArgsOf(key, 1))
	f.router.Send(ctx, key, r)
	return requests.Await(f.t.Context(), r).Err
}

// redirectOnce opens and returns the server of that name, as an ASK that names it does.
func (f *fixture) redirectOnce(name string) *servers.Server {
	s := f.router.Server("any").FollowRedirection(pipe.Redirection{Ask: true, Server: name})
	s.Attachment() // opens it
	return s
}

// attachment records the calls of its methods in the fixture.
type attachment struct {
	f *fixture
	s *servers.Server
}

func (a *attachment) Replaced() { a.f.addEvent("replaced", a.s.Name()) }
func (a *attachment) Idle() bool {
	return a.f.idle == nil || a.f.idle(a.s.Name())
}
func (a *attachment) Retire() { a.f.addEvent("retired", a.s.Name()) }
func (a *attachment) Close()  { a.f.addEvent("closed", a.s.Name()) }
