package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// action is what a proxy does with one script call.
type action int

const (
	pass        action = iota
	dropRequest        // it never arrives
	dropReply          // it arrives, its answer is lost
	twice              // it arrives twice
	delayed            // it arrives after the next three calls of anybody
	expired            // it arrives after the lease would have expired
	actions
)

func (a action) String() string {
	return [...]string{"pass", "request dropped", "reply dropped", "sent twice", "delayed past three", "delayed past expiry"}[a]
}

// proxy stands between clients and a server, knows the scripts, and does to
// each call what decide says. A connection on which an answer was swallowed
// gives none any more.
type proxy struct {
	t      *testing.T
	s      *redistest.Server
	ln     net.Listener
	lease  time.Duration
	decide func(script string) action
	wg     sync.WaitGroup
	late   atomic.Int64 // calls that wait for the end of the lease
	ran    atomic.Int64 // calls that were answered, not counting those that were late
	mangle atomic.Pointer[mangled]
	stop   chan struct{}

	mu      sync.Mutex
	done    map[string]int // faults by script and action
	waiting []*late
}

// mangled is what is answered in the place of a script's own answer.
type mangled struct {
	script string
	reply  any
}

type late struct {
	calls int // further calls until it is sent
	args  []any
}

func newProxy(t *testing.T, s *redistest.Server, lease time.Duration, decide func(string) action) *proxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, s: s, ln: ln, lease: lease, decide: decide, done: map[string]int{}, stop: make(chan struct{})}
	p.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	return p
}

func (p *proxy) close() {
	p.ln.Close()
	close(p.stop)
	p.wg.Wait()
}

// stopLate sends what is still to be sent late. No client may use p any more.
func (p *proxy) stopLate() {
	p.mu.Lock()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, l := range waiting {
		p.send(l.args)
	}
	for p.late.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

func (p *proxy) pool() *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", p.ln.Addr().String())
	}}
}

// scriptOf names the script of an EVAL or EVALSHA.
func scriptOf(args []any) string {
	if len(args) < 2 || !strings.HasPrefix(args[0].(string), "EVAL") {
		return ""
	}
	for _, s := range script.All() {
		if args[1] == s.SHA() || args[1] == s.Text() {
			return s.Name()
		}
	}
	return ""
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	up, err := p.s.Dial()
	if err != nil {
		return
	}
	defer up.Close()
	gone := make(chan struct{})
	defer close(gone)
	p.wg.Go(func() { // the proxy's end unblocks the reads
		select {
		case <-p.stop:
			c.Close()
		case <-gone:
		}
	})
	r := bufio.NewReader(c)
	muted := false
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		if args[0] == "SUBSCRIBE" {
			p.relay(c, r, up, args)
			return
		}
		name := scriptOf(args)
		act := pass
		if name != "" {
			act = p.decide(name)
			p.tick()
			p.note(name, act)
		}
		var reply any
		switch act {
		case dropRequest:
			muted = true
			continue
		case delayed:
			muted = true
			p.hold(&late{calls: 3, args: args})
			continue
		case expired:
			muted = true
			p.late.Add(1)
			p.wg.Go(func() {
				defer p.late.Add(-1)
				select {
				case <-time.After(p.lease + p.lease/4):
				case <-p.stop:
				}
				p.send(args)
			})
			continue
		case twice:
			_, _ = up.Do(args[0].(string), args[1:]...)
		}
		reply, err = up.Do(args[0].(string), args[1:]...)
		if name != "" {
			p.ran.Add(1)
		}
		if act == dropReply {
			muted = true
		}
		if muted {
			continue
		}
		if err != nil {
			reply = err
		}
		if m := p.mangle.Load(); m != nil && m.script == name {
			reply = m.reply
		}
		if _, err := c.Write(appendReply(nil, reply)); err != nil {
			return
		}
	}
}

func (p *proxy) answered() int { return int(p.ran.Load()) }

// tick sends what has waited for enough calls.
func (p *proxy) tick() {
	p.mu.Lock()
	var due []*late
	p.waiting = slices.DeleteFunc(p.waiting, func(l *late) bool {
		if l.calls--; l.calls <= 0 {
			due = append(due, l)
		}
		return l.calls <= 0
	})
	p.mu.Unlock()
	for _, l := range due {
		p.send(l.args)
	}
}

func (p *proxy) hold(l *late) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, l)
}

func (p *proxy) note(name string, act action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[name+": "+act.String()]++
}

// send carries out a call whose caller has long given up.
func (p *proxy) send(args []any) {
	conn, err := p.s.Dial()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Do(args[0].(string), args[1:]...)
}

// relay passes a subscriber's connection through.
func (p *proxy) relay(c net.Conn, r *bufio.Reader, up redis.Conn, first []any) {
	done := make(chan struct{})
	p.wg.Go(func() {
		defer close(done)
		for {
			reply, err := redis.ReceiveWithTimeout(up, time.Minute)
			if err != nil {
				return
			}
			if _, err := c.Write(appendReply(nil, reply)); err != nil {
				return
			}
		}
	})
	for args := first; ; {
		if up.Send(args[0].(string), args[1:]...) != nil || up.Flush() != nil {
			break
		}
		var err error
		if args, err = readCommand(r); err != nil {
			break
		}
	}
	up.Close()
	<-done
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]any, error) {
	n, err := readLen(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]any, n)
	for i := range args {
		size, err := readLen(r, '$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

func readLen(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("want %c, got %q", kind, line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func appendReply(b []byte, reply any) []byte {
	switch v := reply.(type) {
	case nil:
		return append(b, "$-1\r\n"...)
	case int64:
		return fmt.Appendf(b, ":%d\r\n", v)
	case string:
		return fmt.Appendf(b, "+%s\r\n", v)
	case []byte:
		return fmt.Appendf(b, "$%d\r\n%s\r\n", len(v), v)
	case error:
		return fmt.Appendf(b, "-%s\r\n", v)
	case []any:
		b = fmt.Appendf(b, "*%d\r\n", len(v))
		for _, e := range v {
			b = appendReply(b, e)
		}
		return b
	}
	panic(fmt.Sprintf("reply %T", reply))
}

// believed is a time in which a holder relied on its lock.
type believed struct {
	from, to time.Time
	who      string
	token    int64
}

// ledger collects the times of one lock.
type ledger struct {
	mu    sync.Mutex
	times []believed
}

func (l *ledger) add(b believed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.to.After(b.from) {
		l.times = append(l.times, b)
	}
}

// check fails the test if two holders relied on the lock at once, or if a
// later one has a lower token.
func (l *ledger) check(t *testing.T) {
	slices.SortFunc(l.times, func(a, b believed) int { return a.from.Compare(b.from) })
	for i := 1; i < len(l.times); i++ {
		a, b := l.times[i-1], l.times[i]
		if b.from.Before(a.to) {
			t.Errorf("%s and %s both relied on the lock for %v", a.who, b.who, a.to.Sub(b.from))
		}
		if b.token <= a.token {
			t.Errorf("token %d after %d", b.token, a.token)
		}
	}
}

// rely notes the time in which held is relied on, around work.
func (l *ledger) rely(held *lock.Held, who string, work func()) {
	from := time.Now()
	select {
	case <-held.Done():
		return // it was lost on its way here
	default:
	}
	token := held.Token()
	work()
	to := time.Now()
	if end := held.Deadline(); end.Before(to) {
		to = end
	}
	l.add(believed{from, to, who, token})
}

// TestExactWhenRequestsAreLostDoubledLateAndReordered runs owners of two
// clients against each other, while each script in turn meets each fault.
func TestExactWhenRequestsAreLostDoubledLateAndReordered(t *testing.T) {
	s := onRedis(t)
	const lease = 600 * time.Millisecond
	for _, target := range []string{"acquire", "reenter", "renew", "handoff", "release"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(1, uint64(len(target))))
			calm := false
			p := newProxy(t, s, lease, func(name string) action {
				mu.Lock()
				defer mu.Unlock()
				if calm || name != target || rng.IntN(3) > 0 {
					return pass
				}
				return 1 + action(rng.IntN(int(actions)-1))
			})
			defer p.close()
			cfg := lock.Config{Lease: lease, IOTimeout: 20 * time.Millisecond, UnlockTimeout: 300 * time.Millisecond, MaxPoll: 50 * time.Millisecond}
			var l ledger
			ctx := context.Background()
			end := time.Now().Add(2500 * time.Millisecond)
			if testing.Short() {
				end = time.Now().Add(time.Second)
			}
			var wg sync.WaitGroup
			var clients []*lock.Client
			for i := range 2 {
				c, err := lock.New(p.pool(), cfg)
				require.NoError(t, err)
				clients = append(clients, c)
				for j := range 3 {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
						for n := 0; time.Now().Before(end); n++ {
							who := fmt.Sprintf("%d.%d.%d", i, j, n)
							if err := oneRound(ctx, c, t.Name(), who, rng, lease, &l); err != nil {
								t.Errorf("%s: %v", who, err)
							}
						}
					})
				}
			}
			wg.Wait()
			mu.Lock()
			calm = true
			mu.Unlock()
			l.check(t)
			require.NotEmpty(t, l.times)
			for _, c := range clients {
				require.Zero(t, c.Stats().Held)
				require.NoError(t, c.Close(ctx))
			}
			// No orphan outlives its TTL: what is still to arrive may take the
			// lock once more, for a lease.
			require.Eventually(t, func() bool { return !exists(t, s, t.Name()) }, time.Minute, 10*time.Millisecond)
			p.mu.Lock()
			defer p.mu.Unlock()
			faults := 0
			for what, n := range p.done {
				if !strings.HasSuffix(what, pass.String()) {
					faults += n
				}
			}
			t.Logf("%d holds, %d faults: %v", len(l.times), faults, p.done)
			require.Positive(t, faults)
		})
	}
}

// oneRound locks, re-enters now and then, and unlocks; it returns what a user
// must not see.
func oneRound(ctx context.Context, c *lock.Client, name, who string, rng *rand.Rand, lease time.Duration, l *ledger) error {
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	held, err := c.Mutex(name).Lock(wait)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	var inner *lock.Held
	l.rely(held, who, func() {
		if rng.IntN(3) == 0 {
			inner, _ = c.Mutex(name).Lock(held.Context(wait))
		}
		if rng.IntN(8) == 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(lease))))
		}
	})
	for _, h := range []*lock.Held{inner, held} {
		if h == nil {
			continue
		}
		err := h.Unlock(ctx)
		for h == inner && errors.Is(err, lock.ErrUnknown) {
			err = h.Unlock(ctx) // else it counts, and the outer one is not the last
		}
		if err != nil && !isAny(err, lock.ErrLost, lock.ErrUnknown) {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}
