package sentinel_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func TestMain(m *testing.M) {
	// What the tests do is wait, mostly. The command line may say otherwise.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func skipWithout(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// startServer starts a Redis of the test's own.
func startServer(t *testing.T) *redistest.Server {
	t.Helper()
	s, err := redistest.Start(context.Background(), redistest.Options{})
	skipWithout(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

// newClient returns a client that the test closes.
func newClient(t *testing.T, source lock.Source, cfg lock.Config) *lock.Client {
	t.Helper()
	c, err := lock.New(source, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(c) })
	return c
}

// closeNow closes c without waiting for what a test still holds.
func closeNow(c *lock.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
}

// do runs a command on a server, as a bystander.
func do(t *testing.T, s *redistest.Server, cmd string, args ...any) any {
	t.Helper()
	conn, err := s.Dial()
	require.NoError(t, err)
	defer conn.Close()
	reply, err := conn.Do(cmd, args...)
	require.NoError(t, err, cmd)
	return reply
}

// fake is a sentinel that says what the test wants. Zero fields are left out of
// its answers.
type fake struct {
	ln net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	addr  string // of the master
	runID string
	epoch int
	hangs bool // takes connections and answers nothing
	mute  bool // refuses PING
	asked int
	pings int               // that were refused
	subs  int               // subscriptions
	conns map[net.Conn]bool // those that listen for +switch-master have true
}

func startFake(t *testing.T, addr string, epoch int) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fake{ln: ln, addr: addr, epoch: epoch, conns: map[net.Conn]bool{}}
	f.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[conn] = false
			f.mu.Unlock()
			f.wg.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(f.stop)
	return f
}

func (f *fake) stop() {
	f.ln.Close()
	f.mu.Lock()
	for conn := range f.conns {
		conn.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// serve answers one connection, and forgets it at its end.
func (f *fake) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		f.mu.Lock()
		delete(f.conns, conn)
		f.mu.Unlock()
	}()
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		if answer := f.answer(conn, args); answer != "" {
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	}
}

func (f *fake) answer(conn net.Conn, args []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs {
		return ""
	}
	switch strings.ToUpper(args[0]) {
	case "SENTINEL":
		f.asked++
		if args[2] != "mymaster" {
			return "-ERR No such master with that name\r\n"
		}
		host, port, _ := net.SplitHostPort(f.addr)
		return array("name", "mymaster", "ip", host, "port", port, "runid", f.runID, "config-epoch", strconv.Itoa(f.epoch))
	case "SUBSCRIBE":
		f.conns[conn] = true
		f.subs++
		return "*3\r\n$9\r\nsubscribe\r\n" + bulk(args[1]) + ":1\r\n"
	case "PING":
		if f.mute {
			f.pings++
			return "-NOPERM User locker has no permissions to run the 'ping' command\r\n"
		}
		return array("pong", "")
	}
	return "-ERR unknown command\r\n"
}

// say makes the fake answer with another master from now on. told says whether
// it publishes +switch-master as well.
func (f *fake) say(addr, runID string, epoch int, told bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addr, f.runID, f.epoch = addr, runID, epoch
	for conn, listens := range f.conns {
		if told && listens {
			_, _ = io.WriteString(conn, array("message", "+switch-master", "mymaster 1.2.3.4 1 5.6.7.8 2"))
		}
	}
}

func (f *fake) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = true
}

func (f *fake) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// listeners counts the connections that have subscribed.
func (f *fake) listeners() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, listens := range f.conns {
		if listens {
			n++
		}
	}
	return n
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func array(items ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(items))
	for _, s := range items {
		b.WriteString(bulk(s))
	}
	return b.String()
}

// readCommand reads one command as clients send it.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		buf := make([]byte, size+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		args[i] = string(buf[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("unexpected %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func addrs(fakes ...*fake) []string {
	out := make([]string, len(fakes))
	for i, f := range fakes {
		out[i] = f.ln.Addr().String()
	}
	return out
}
