package resp

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// Conn is a net.Conn whose answers have limits, see the package's document. As with any
// net.Conn, one goroutine may read while another writes.
type Conn struct {
	net.Conn         // to the server, with TLS if there is any
	socket           *socket
	requests         requestReader // used by the goroutine that writes
	hasWriteDeadline bool          // a deadline of writes is set; used by the goroutine that writes

	// used by the goroutine that reads
	answers        answerReader
	ahead          readAhead // the bytes that have come and redigo has not seen
	err            error     // what ended reading
	wantedDeadline time.Time // the read deadline that redigo wants; it is set at the next Read
	deadline       time.Time // the read deadline that is set
}

// New returns a Conn over c. No bytes may have been read from c or written to c.
func New(c net.Conn) *Conn {
	s := newSocket(c)
	return &Conn{Conn: s, socket: s}
}

// newSecure returns a Conn over secure, a connection with TLS over s.
func newSecure(secure net.Conn, s *socket) *Conn { return &Conn{Conn: secure, socket: s} }

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.requests.scan(p)
	return c.Conn.Write(p)
}

// Read implements net.Conn. It never reads beyond the end of an answer. When an impossible
// answer comes, Read returns an AnswerError from then on.
func (c *Conn) Read(p []byte) (int, error) {
	for c.ahead.isEmpty() {
		if c.err != nil {
			return 0, c.err
		}
		if err := c.readUntilDeadline(); err != nil {
			return 0, err
		}
	}
	return c.ahead.readTo(p), nil
}

// readUntilDeadline reads ahead once, until redigo's deadline. Read returns the same error again, unless
// it is a timeout.
func (c *Conn) readUntilDeadline() error {
	if c.deadline != c.wantedDeadline {
		c.setDeadline(c.wantedDeadline)
	}
	return c.readMore()
}

// ReceiveReply reads the next answer of conn. It waits without a limit. c is Below(conn). If it is not
// nil, an answer that has only integers is read without redigo. Other answers are read as Receive does.
func ReceiveReply(conn redis.Conn, c *Conn) (r Reply, err error) {
	if c != nil {
		c.wantedDeadline = time.Time{}
		for !c.Answered() && !c.ahead.isFull() {
			if c.readUntilDeadline() != nil {
				break // Read returns the error
			}
		}
		if text := c.ahead.firstAnswer(); text != nil && r.parse(text) {
			c.ahead.drop(len(text))
			return r, nil
		}
	}
	v, err := Receive(conn, 0)
	return ReplyOf(v), err
}

// Receive reads an answer, as redis.ReceiveWithTimeout does. redigo panics if a connection
// without limits announces an answer that no memory can hold. Receive then returns an error.
// After any error except a redis.Error the connection must be closed.
func Receive(conn redis.Conn, timeout time.Duration) (reply any, err error) {
	defer func() {
		if v := recover(); v != nil {
			reply, err = nil, fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	return redis.ReceiveWithTimeout(conn, timeout)
}

var errPanic = errors.New("the server's answer could not be read")

// smallScripts has the library's scripts with small answers, by their SHA.
var smallScripts = func() map[string]bool {
	m := make(map[string]bool)
	for _, s := range script.All() {
		if !s.Large() {
			m[s.SHA()] = true
		}
	}
	return m
}()
