package locktest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// conn is a connection over a Link. It knows to which call each answer belongs. One
// goroutine may send while another receives, as with every connection of redigo.
type conn struct {
	redis.Conn // immutable
	link       *Link

	mu         sync.Mutex // guards the fields below; not held during I/O
	unanswered []string   // names of the calls that were sent, in their order
	subscribes bool       // from now on the server sends messages, not answers to calls
	silent     bool       // an answer was lost, so the client gets no more answers
}

var scriptNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, s := range script.All() {
		names[s.SHA()], names[s.Text()] = s.Name(), s.Name()
	}
	return names
})

// nameOf returns the name of the script that a command calls, or else of the command.
func nameOf(command string, args []any) string {
	command = strings.ToUpper(command)
	if (command == "EVALSHA" || command == "EVAL") && len(args) > 0 {
		if text, ok := args[0].(string); ok && scriptNames()[text] != "" {
			return scriptNames()[text]
		}
	}
	return command
}

// sends notes that a command is about to be sent.
func (c *conn) sends(command string, args []any) {
	if command == "" { // it only flushes
		return
	}
	name := nameOf(command, args)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribes = c.subscribes || strings.HasSuffix(name, "SUBSCRIBE")
	if c.subscribes {
		c.link.count(name)
		return
	}
	c.unanswered = append(c.unanswered, name)
}

// Send implements redis.Conn.
func (c *conn) Send(command string, args ...any) error {
	c.sends(command, args)
	return c.Conn.Send(command, args...)
}

// Do implements redis.Conn.
func (c *conn) Do(command string, args ...any) (any, error) {
	return c.do(command, args, func() (any, error) { return c.Conn.Do(command, args...) }, c.Conn.Receive)
}

// DoWithTimeout implements redis.ConnWithTimeout.
func (c *conn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return c.do(command, args,
		func() (any, error) { return redis.DoWithTimeout(c.Conn, timeout, command, args...) },
		func() (any, error) { return redis.ReceiveWithTimeout(c.Conn, timeout) })
}

// DoContext implements redis.ConnWithContext.
func (c *conn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return c.do(command, args,
		func() (any, error) { return redis.DoContext(c.Conn, ctx, command, args...) },
		func() (any, error) { return redis.ReceiveContext(c.Conn, ctx) })
}

// do sends a command and receives all answers. The last answer is the one to this command.
func (c *conn) do(command string, args []any, do, receive func() (any, error)) (any, error) {
	c.sends(command, args)
	reply, err := do()
	if c.Err() == nil {
		var lost error
		for n := c.pending(); n > 1; n-- {
			lost = errors.Join(lost, c.answered(nil))
		}
		if c.pending() > 0 { // a connection that has subscribed has no pending call
			lost = errors.Join(lost, c.answered(err))
		}
		if lost != nil {
			return nil, lost
		}
	}
	return c.heard(reply, err, receive)
}

// Receive implements redis.Conn.
func (c *conn) Receive() (any, error) { return c.receive(c.Conn.Receive) }

// ReceiveWithTimeout implements redis.ConnWithTimeout.
func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return c.receive(func() (any, error) { return redis.ReceiveWithTimeout(c.Conn, timeout) })
}

// ReceiveContext implements redis.ConnWithContext.
func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	return c.receive(func() (any, error) { return redis.ReceiveContext(c.Conn, ctx) })
}

func (c *conn) receive(receive func() (any, error)) (any, error) {
	reply, err := receive()
	if c.pending() > 0 && c.Err() == nil {
		if lost := c.answered(err); lost != nil {
			return nil, lost
		}
	}
	return c.heard(reply, err, receive)
}

// heard returns an answer. On a silent connection it waits in vain and returns the error
// that ends the wait.
func (c *conn) heard(reply any, err error, receive func() (any, error)) (any, error) {
	for c.isSilent() && c.Err() == nil {
		reply, err = receive()
	}
	return reply, err
}

func (c *conn) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.silent
}

// pending returns the number of unanswered calls.
func (c *conn) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unanswered)
}

// answered takes the oldest unanswered call off the list. err is the server's answer to that
// call if it was an error. If this answer must be lost, answered closes the connection and
// returns an error in place of the answer, or makes the connection silent.
func (c *conn) answered(err error) error {
	c.mu.Lock()
	name := c.unanswered[0]
	c.unanswered = c.unanswered[1:]
	c.mu.Unlock()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return nil // no script was run; the client sends its text next
	}
	a, lost := c.link.answered(name)
	switch {
	case !lost:
		return nil
	case a.hangs:
		c.mu.Lock()
		c.silent = true
		c.mu.Unlock()
		return nil
	}
	_ = c.Close()
	return io.EOF
}
