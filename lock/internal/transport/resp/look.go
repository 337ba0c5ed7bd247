package resp

import (
	"errors"
	"net"
	"os"
	"time"
)

// socket is the net.Conn to the server, below TLS if there is any. It can be read without
// waiting, if its net.Conn allows that.
type socket struct {
	net.Conn
	tryRead  func(p []byte) (int, error) // reads the bytes that have come, or 0 bytes, without waiting; nil if the net.Conn cannot do that
	isTrying bool                        // Read does not wait; used by the goroutine that reads
}

// trier is a net.Conn without a file descriptor that can be read without waiting. TryRead
// returns 0, nil if there are no bytes. Connections in memory are triers.
type trier interface {
	TryRead(p []byte) (n int, err error)
}

// newSocket returns a socket over c.
func newSocket(c net.Conn) *socket {
	if t, ok := c.(trier); ok {
		return &socket{Conn: c, tryRead: t.TryRead}
	}
	return &socket{Conn: c, tryRead: tryReadOf(c)}
}

// Read implements net.Conn. While isTrying is set it returns errNothing instead of waiting.
func (s *socket) Read(p []byte) (int, error) {
	if !s.isTrying {
		return s.Conn.Read(p)
	}
	n, err := s.tryRead(p)
	if n == 0 && err == nil {
		return 0, errNothing
	}
	return n, err
}

// nothingToRead is the error of a read that would have to wait. It is temporary, so that TLS can
// still use the connection.
type nothingToRead struct{}

var errNothing error = nothingToRead{}

func (nothingToRead) Error() string   { return "nothing can be read now" }
func (nothingToRead) Timeout() bool   { return true }
func (nothingToRead) Temporary() bool { return true }

// CanTry reports whether Quiet can be called. It can over TCP and Unix sockets, with or
// without TLS, except on Windows.
func (c *Conn) CanTry() bool { return c.socket.tryRead != nil }

// Quiet reports whether the server has sent exactly one answer to each request, and nothing else.
// It does not wait. redigo must have seen these answers, and no goroutine may read or write
// meanwhile.
//
// Bytes that came without a request would count as the answer to the next request, if that request
// were written before they are read.
func (c *Conn) Quiet() bool {
	if !c.Settled() {
		return false
	}
	c.socket.isTrying = true
	_ = c.readMore() // Settled tells what came
	c.socket.isTrying = false
	return c.Settled()
}

// Settled is Quiet, but without a look at the socket: it reports whether exactly as many answers have
// come as requests were written, and no part of another answer. So it does not notice bytes that have
// come since the last answer was read.
func (c *Conn) Settled() bool {
	a := &c.answers
	return c.err == nil && a.completed == c.requests.sentCount && a.state == atType && a.depth == 0
}

// AwaitAnswer waits until Answered is true. It returns false after a time between d/2 and d, or if
// the answer is too long to be read ahead. The next reader continues where AwaitAnswer has stopped.
func (c *Conn) AwaitAnswer(d time.Duration) bool {
	// One deadline serves many answers, because to set a deadline costs as much as a small read.
	now := time.Now()
	if c.deadline.Sub(now) < d/2 {
		c.setDeadline(now.Add(d))
	}
	for !c.Answered() && !c.ahead.isFull() {
		if errors.Is(c.readMore(), os.ErrDeadlineExceeded) {
			break
		}
	}
	return c.Answered()
}

// Answered reports whether an answer can be read without waiting: a whole one has come that redigo has
// not seen, or the connection has ended.
func (c *Conn) Answered() bool { return c.err != nil || c.ahead.hasAnswer() }

// SetReadDeadline implements net.Conn, but counts only for the next Read. It does not end a Read
// that waits.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.wantedDeadline = t
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.hasWriteDeadline = !t.IsZero()
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn, as SetReadDeadline and SetWriteDeadline do.
func (c *Conn) SetDeadline(t time.Time) error {
	c.wantedDeadline = t
	return c.SetWriteDeadline(t)
}

// write writes p, which count has recorded. Its only time limit is the one of the caller that waits
// for the answers. A limit that redigo has set for an earlier write is removed.
func (c *Conn) write(p []byte) error {
	if c.hasWriteDeadline {
		if err := c.SetWriteDeadline(time.Time{}); err != nil {
			return err
		}
	}
	_, err := c.Conn.Write(p)
	return err
}

// setDeadline sets the read deadline of the connection below c. If that fails, the next Read fails
// too.
func (c *Conn) setDeadline(t time.Time) {
	c.deadline = t
	_ = c.Conn.SetReadDeadline(t)
}
