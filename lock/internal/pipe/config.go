package pipe

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/role"
)

// Config is what the connections to a server get from above. Its functions are
// called with no lock held, from any goroutine.
type Config struct {
	// Timeout is how long a dial may take, and an answer.
	Timeout time.Duration
	// Server is the name that a Layout or a redirection gives to the server; "" if
	// nobody names it.
	Server string
	// Cast names the goroutines.
	Cast *role.Cast
	// Dial opens a connection. No more dials than bound says may be left behind.
	Dial func(ctx context.Context, bound *dialing.Bound) (Connection, error)
	// Epoch counts the servers that this one stood for. A connection of an earlier
	// epoch is not used.
	Epoch func() uint32
	// Failed is told why a connection of a Pipe was given up.
	Failed func(err error)
	// Timed is told what is known of the server's clock each time that it was asked.
	// off is how far it is outside of what was known before, 0 if it is not. A clock that
	// is not trusted any more is told, too.
	Timed func(c Clock, off time.Duration)
	// Redirect is told that r was not carried out, because its key is on another
	// server, and puts it there. It is nil where keys have no slots; there such an
	// answer is an error like others.
	Redirect func(r *Request, to Redirection)
	// Unpublished is told that a script was carried out, but that Redis refused to
	// publish its message.
	Unpublished func(refusal string)

	// Replicas is how many replicas must have what a Replicated carries, and
	// ReplicaTimeout how long it waits for them.
	Replicas       int
	ReplicaTimeout time.Duration
}

// Connection is what Config.Dial brings.
type Connection struct {
	Conn  redis.Conn
	Epoch uint32 // of the server, see Config.Epoch
	Clock Clock  // of the server; one that knows nothing if it does not tell
}

// ErrReplaced is why connections are given up when the server's epoch ends.
var ErrReplaced = errors.New("the server was replaced")

// ErrExpired is how a request ends whose time was over before it was written.
var ErrExpired = errors.New("its time was over before it could be sent")

// errTimeout is why a connection whose oldest request is too old is given up.
var errTimeout = errors.New("no answer within Config.IOTimeout")
