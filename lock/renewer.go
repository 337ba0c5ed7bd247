package lock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// renewer implements renewal.Renewer: one script call a batch, on connections
// that nothing else uses, so renewal never queues behind callers.
type renewer struct {
	// immutable
	dial    dialer
	timeout time.Duration
	slots   chan struct{} // one a connection: holds a token for each in use

	mu     sync.Mutex // guards what follows; never held during I/O
	idle   []redis.Conn
	closed bool
}

// afterFuncConns is how many connections the goroutines of AfterFunc without
// batches share.
const afterFuncConns = 64

// renewConns is how many connections renewal uses at most.
func renewConns(cfg renewal.Config) int {
	if cfg.Driver == renewal.AfterFunc && cfg.MaxBatch == 1 {
		return afterFuncConns
	}
	return cfg.Dispatchers
}

func newRenewer(d dialer, timeout time.Duration, conns int) *renewer {
	return &renewer{dial: d, timeout: timeout, slots: make(chan struct{}, conns)}
}

// Renew renews the holds of b. See renewal.Renewer for what it must report.
func (r *renewer) Renew(ctx context.Context, b *renewal.Batch) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		b.UnknownAll(ctx.Err())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	conn, err := r.get(ctx)
	if err != nil {
		b.UnknownAll(err)
		return
	}
	err = r.renew(ctx, conn, b)
	if err != nil {
		b.UnknownAll(err)
	}
	_, answered := err.(redis.Error)
	r.put(conn, err == nil || answered && !hasWord(err.Error(), "READONLY"))
}

func (r *renewer) renew(ctx context.Context, conn redis.Conn, b *renewal.Batch) error {
	n := b.Len()
	args := make([]any, 0, 2*n+3)
	args = append(args, script.Renew.SHA(), n)
	for i := range n {
		args = append(args, b.Owner(i).(*hold).name)
	}
	args = append(args, ms(b.TTL()))
	// All fields are parts of one string: one allocation instead of one each.
	ends, text := make([]int, n), make([]byte, 0, 64*n)
	for i := range n {
		text = b.Owner(i).(*hold).appendField(text)
		ends[i] = len(text)
	}
	fields, begin := string(text), 0
	for _, end := range ends {
		args = append(args, fields[begin:end])
		begin = end
	}
	reply, err := roundTrip(ctx, conn, "EVALSHA", args)
	if noScript(err) {
		args[0] = script.Renew.Text()
		reply, err = roundTrip(ctx, conn, "EVAL", args)
	}
	if err != nil {
		return err
	}
	gone, err := redis.Ints(reply, nil)
	if err != nil {
		return fmt.Errorf("lock: renew: unexpected answer: %w", err)
	}
	for _, i := range gone {
		if i < 1 || i > n {
			return fmt.Errorf("lock: renew: unexpected answer: index %d of %d", i, n)
		}
	}
	for _, i := range gone {
		b.Lost(i - 1)
	}
	return nil
}

// roundTrip sends one command and waits for its answer until ctx ends. A
// connection on which it returned anything but a redis.Error must be closed.
// Writing is bounded by closing the connection when ctx ends.
func roundTrip(ctx context.Context, conn redis.Conn, cmd string, args []any) (any, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.Send(cmd, args...); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	return redis.ReceiveWithTimeout(conn, max(time.Until(deadline), time.Millisecond))
}

// get returns an idle connection or a new one.
func (r *renewer) get(ctx context.Context) (redis.Conn, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(r.idle); n > 0 {
		conn := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return conn, nil
	}
	r.mu.Unlock()
	return dial(ctx, r.dial)
}

// put gives a connection back, or closes it if it is of no more use.
func (r *renewer) put(conn redis.Conn, usable bool) {
	r.mu.Lock()
	if usable && !r.closed {
		r.idle = append(r.idle, conn)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	conn.Close()
}

// close closes the idle connections; those in use are closed when given back.
func (r *renewer) close() {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	for _, conn := range idle {
		conn.Close()
	}
}
