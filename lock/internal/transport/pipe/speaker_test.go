package pipe_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

func TestMain(m *testing.M) {
	// The seed that a failure prints repeats it. A file would make later runs fail too.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// speaker is a server in memory whose answers a test chooses.
type speaker struct {
	answer func(command []string) string // as it goes over the wire; see mute and hangUp
	budget atomic.Int64                  // how many bytes, of both directions, pass before a connection is cut; below 0 there is no limit
	cut    atomic.Bool                   // a connection was cut
	epoch  atomic.Uint32
	dials  atomic.Int32
	clock  pipe.Clock // of new connections
	cfg    *pipe.Config
	wg     sync.WaitGroup

	reading sync.Mutex // guards readers
	readers string     // one letter for each read of a connection, see harness.readers
	writers string     // one letter for each write: C by a caller, w by the writer

	mu       sync.Mutex     // guards what follows
	heard    []string       // the names of the commands, in order
	ran      map[string]int // how often the script call with an id was carried out
	failed   []error        // what Config.Failed was told
	answered int            // how many connections have answered a request
	conns    []net.Conn
	timed    pipe.Clock // what Config.Timed was told
	off      []time.Duration
}

const (
	mute   = ""        // no answer
	hangUp = "hang up" // the connection is closed
)

// serve reads commands, and another goroutine answers, so that neither end waits
// for the other to read.
func (s *speaker) serve(c net.Conn) {
	replies := make(chan string, 10_000)
	s.wg.Go(func() {
		defer c.Close()
		for reply := range replies {
			if _, err := io.WriteString(c, reply); err != nil {
				break
			}
		}
		for range replies {
		}
	})
	defer close(replies)
	for r := bufio.NewReader(c); ; {
		command, err := faultproxy.ReadCommand(r)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.heard = append(s.heard, command[0])
		s.mu.Unlock()
		switch reply := s.answer(command); reply {
		case mute:
		case hangUp:
			return
		default:
			if strings.HasPrefix(reply, "*") {
				s.mu.Lock()
				s.ran[id(command)]++
				s.mu.Unlock()
			}
			replies <- reply
		}
	}
}

// cutConn is a connection that is cut when the speaker's budget is spent.
type cutConn struct {
	net.Conn
	s        *speaker
	deadline time.Time // of reads, as the client has set it
}

// spend takes b from the budget. It returns the bytes that still pass, and whether the connection is
// cut behind them.
func (c *cutConn) spend(b []byte) ([]byte, bool) {
	if c.s.budget.Load() < 0 {
		return b, false
	}
	left := max(0, c.s.budget.Add(-int64(len(b)))+int64(len(b)))
	if left >= int64(len(b)) {
		return b, false
	}
	c.s.budget.Store(-1) // later connections are not cut
	c.s.cut.Store(true)
	return b[:left], true
}

func (c *cutConn) Write(b []byte) (int, error) {
	who := "w"
	if isInACaller() {
		who = "C"
	}
	c.s.reading.Lock()
	c.s.writers += who
	c.s.reading.Unlock()
	some, cut := c.spend(b)
	n, err := c.Conn.Write(some)
	if cut {
		c.Close()
		return n, errors.Join(err, io.ErrClosedPipe)
	}
	return n, err
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		who := "r"
		if isInACaller() {
			who = "C"
		}
		c.s.reading.Lock()
		c.s.readers += who
		c.s.reading.Unlock()
	}
	some, cut := c.spend(b[:n])
	if cut {
		c.Close()
		return len(some), io.ErrClosedPipe
	}
	return n, err
}

// TryRead reads only what another goroutine is writing at that moment.
func (c *cutConn) TryRead(b []byte) (int, error) {
	_ = c.Conn.SetReadDeadline(time.Now().Add(1))
	n, err := c.Read(b)
	_ = c.Conn.SetReadDeadline(c.deadline)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	return n, err
}

func (c *cutConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

func (s *speaker) dial(context.Context) (redis.Conn, error) {
	s.dials.Add(1)
	client, server := net.Pipe()
	s.mu.Lock()
	s.conns = append(s.conns, server)
	s.mu.Unlock()
	s.wg.Go(func() { s.serve(server) })
	conn := &cutConn{Conn: client, s: s}
	if s.cfg.LeadAfter > 0 {
		return resp.Over(resp.New(conn)), nil
	}
	return redis.NewConn(conn, 0, 0), nil // as a program's own pool makes it
}

// say sends an answer over all connections.
func (s *speaker) say(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_, _ = io.WriteString(c, answer)
	}
}

// hangUp ends all connections.
func (s *speaker) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

func (s *speaker) commands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.heard, " ")
}

func (s *speaker) failures() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// haveAnswered returns how often Config.Answered was called, once for each connection.
func (s *speaker) haveAnswered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

func (s *speaker) runs(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran[id]
}

// config returns the Config of connections to the speaker.
func (s *speaker) config() *pipe.Config {
	s.cfg = &pipe.Config{
		Timeout: time.Second, Server: "host:1", Epoch: s.epoch.Load, Replicas: 1, ReplicaTimeout: time.Second,
		Dial: func(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
			epoch := s.epoch.Load()
			conn, err := bound.Dial(ctx, epoch, s.dial)
			s.mu.Lock()
			defer s.mu.Unlock()
			return pipe.Connection{Conn: conn, Epoch: epoch, Clock: s.clock}, err
		},
		Timed: func(c pipe.Clock, off time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.timed, s.off = c, append(s.off, off)
		},
		Failed: func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed = append(s.failed, err)
		},
		Answered: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.answered++
		},
		Unpublished: func(string) {},
	}
	return s.cfg
}

// newLed returns a connection whose callers lead whenever they can.
func newLed(ctx context.Context, cfg *pipe.Config) carrier {
	cfg.LeadAfter = 1
	return grouped{pipe.NewGroup(ctx, cfg, 1)}
}

// carrier is a Pipe, a Replicated or a Group.
type carrier interface {
	Put(r *pipe.Request)
	Drop()
	Close(why error)
}

var carriers = map[string]func(ctx context.Context, cfg *pipe.Config) carrier{
	"Pipe":       func(ctx context.Context, cfg *pipe.Config) carrier { return pipe.New(ctx, cfg) },
	"led Pipe":   newLed,
	"Replicated": func(ctx context.Context, cfg *pipe.Config) carrier { return pipe.NewReplicated(ctx, cfg, 1) },
}

var errShut = errors.New("the test is over")

// harness is a carrier and its speaker, for a test in a bubble.
type harness struct {
	carrier
	start    func(context.Context, *pipe.Config) carrier // makes another carrier
	t        *testing.T
	srv      *speaker
	requests pipe.Requests
}

// bubble runs f once for each kind of carrier, with a speaker. change may alter the Config.
func bubble(t *testing.T, answer func(command []string) string, change func(cfg *pipe.Config), f func(t *testing.T, b *harness)) {
	t.Helper()
	for name, start := range carriers {
		t.Run(name, func(t *testing.T) { inBubble(t, start, -1, answer, change, f) })
	}
}

func inBubble(t *testing.T, start func(context.Context, *pipe.Config) carrier, budget int64,
	answer func([]string) string, change func(*pipe.Config), f func(*testing.T, *harness),
) {
	synctest.Test(t, func(t *testing.T) {
		srv := &speaker{answer: answer, ran: make(map[string]int)}
		srv.budget.Store(budget)
		cfg := srv.config()
		if change != nil {
			change(cfg)
		}
		ctx, cancel := context.WithCancel(t.Context())
		b := &harness{carrier: start(ctx, cfg), start: start, t: t, srv: srv}
		defer func() {
			cancel()
			b.Close(errShut)
			synctest.Wait() // a dial under way may still come
			srv.wg.Wait()
		}()
		f(t, b)
	})
}

// id returns the last argument of a script call before its time limit.
func id(command []string) string {
	if strings.HasPrefix(command[0], "EVAL") && len(command) > 5 {
		return command[len(command)-2]
	}
	return command[len(command)-1]
}

// yes returns the answer to an acquisition that took the lock. The token is the id of the request.
func yes(command []string) string {
	if command[0] == "WAIT" {
		return ":1\r\n"
	}
	return fmt.Sprintf("*2\r\n:1\r\n:%s\r\n", id(command))
}

// acquire returns a request that yes answers with id.
func (b *harness) acquire(id int, late func(pipe.Answer)) *pipe.Request {
	return b.requests.New("m", script.Acquire, 1, late, resp.ArgsOf("m", strconv.Itoa(id)))
}

// call puts a request and waits for its answer.
func (b *harness) call(ctx context.Context, id int) pipe.Answer {
	r := b.acquire(id, nil)
	b.Put(r)
	return b.requests.Await(ctx, r)
}

func (b *harness) requireYes(id int) {
	b.t.Helper()
	a := b.call(b.t.Context(), id)
	require.NoError(b.t, a.Err)
	require.Equal(b.t, []any{int64(1), int64(id)}, a.Reply.Any())
	require.False(b.t, a.Stamp.IsZero())
}

// requireNoReply checks that err is an error and not a reply of Redis.
func requireNoReply(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	_, reply := err.(redis.Error)
	require.False(t, reply, "%v", err)
}

// requireVerdict checks the verdict on err, if the script was sent as text.
func requireVerdict(t *testing.T, want pipe.Verdict, err error) {
	t.Helper()
	verdict, _ := pipe.VerdictOf(err, true, "host:1")
	require.Equal(t, want, verdict, "%v", err)
}
