package resp

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// Conn is a net.Conn whose answers are bounded, see the package's document. As of a
// net.Conn, one goroutine may read while another writes.
type Conn struct {
	net.Conn
	requests requests // written by who writes
	answers  answers  // of who reads
	err      error    // what ended reading; of who reads
}

// New returns a Conn over c, to which nothing was written and of which nothing was read.
func New(c net.Conn) *Conn { return &Conn{Conn: c} }

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.requests.note(p)
	return c.Conn.Write(p)
}

// Read implements net.Conn. It returns an AnswerError, from then on, at what is no
// possible answer.
func (c *Conn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	seen, bad := c.answers.check(p[:n], c.requests.bounds)
	if bad != nil {
		c.err = bad
		return seen, bad
	}
	return n, err
}

// Receive reads an answer, as redis.ReceiveWithTimeout does. Where redigo panics, because
// a connection that is not bounded has announced what no memory can hold, it returns an
// error. After any error but a redis.Error the connection must be closed.
func Receive(conn redis.Conn, timeout time.Duration) (reply any, err error) {
	defer func() {
		if v := recover(); v != nil {
			reply, err = nil, fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	return redis.ReceiveWithTimeout(conn, timeout)
}

var errPanic = errors.New("the server's answer could not be read")

// large are the scripts that are answered at length, by their SHA.
var large = func() map[string]bool {
	m := make(map[string]bool)
	for _, s := range script.All() {
		if s.Large() {
			m[s.SHA()] = true
		}
	}
	return m
}()
