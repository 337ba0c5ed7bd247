package pipe

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
)

// Config has the settings of the connections to a server. Its functions are
// called from any goroutine and, except Dials, with no mutex held.
type Config struct {
	// Timeout is how long an answer may take.
	Timeout time.Duration
	// Server is the name of the server in Layouts and redirections, or "" if it has
	// none.
	Server string
	// LeadAfter is the number of requests in a row, each alone on its connection, after
	// which callers of Send write and read themselves. 0 means never.
	LeadAfter int
	// Labeler names the goroutines.
	Labeler *work.Labeler
	// Dial opens a connection, in a time that it limits itself. bound limits how many dials may
	// be left behind.
	Dial func(ctx context.Context, bound *dialing.Bound) (Connection, error)
	// Epoch returns how often the server behind the name was replaced. A connection of an
	// earlier epoch is not used.
	Epoch func() uint32
	// Failed is called with the reason when a connection is closed after a failure.
	Failed func(err error)
	// Answered is called for each connection, when its first request has been answered.
	Answered func()
	// Timed is called with the estimate of the server's clock after each question. off is
	// how far the answer was outside the earlier estimate, or 0. Timed is also called when a
	// clock is no longer trusted.
	Timed func(c Clock, off time.Duration)
	// CheckMasterEvery is how long a connection that is used goes without asking whether its server
	// is a replica now, see masterCheck. 0 means that it never asks.
	CheckMasterEvery time.Duration
	// Dials returns how many connections for commands were made to the server. When it has
	// changed, another server may be behind the name, so every connection asks with its next
	// request. It is used only with CheckMasterEvery, and may be called with a mutex held.
	Dials func() uint32
	// MasterSeen is called with the time when a question was sent, if it is certain that the server
	// was no replica then. It is used only with CheckMasterEvery.
	MasterSeen func(at time.Time)
	// Redirect puts r at another server, because r was not carried out and its key is
	// there. It is nil where keys have no slots. There ASK is an error like others, and MOVED
	// says that the server has become a replica.
	Redirect func(r *Request, to Redirection)
	// Unpublished is called when a script was carried out, but Redis refused to publish
	// its message.
	Unpublished func(refusal string)

	// Replicas is how many replicas must have the acquisitions of a Replicated.
	// ReplicaTimeout is how long it waits for them.
	Replicas       int
	ReplicaTimeout time.Duration
}

// Connection is a connection that Config.Dial has opened.
type Connection struct {
	Conn  redis.Conn
	Epoch uint32 // of the server, see Config.Epoch
	Clock Clock  // of the server; one that knows nothing if it does not tell
}

// dial calls Dial. If ctx has ended, the error is the cause of that.
func (cfg *Config) dial(ctx context.Context, bound *dialing.Bound) (Connection, error) {
	dialed, err := cfg.Dial(ctx, bound)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return dialed, err
}

// ErrReplaced is the error of connections that are closed when the server's epoch ends, or because they are old.
var ErrReplaced = errors.New("the server was replaced")

// ErrExpired is returned when the time of a request was over before it was written.
var ErrExpired = errors.New("its time was over before it could be sent")

// errUnasked is the error of a connection on which the server sent bytes without a request.
var errUnasked = errors.New("the server has sent what was not asked for")

// ErrUnanswered is the error of a connection that is closed because its oldest request is too old.
// lock/errors.go and lock/cmd/wheellock look for this text.
var ErrUnanswered = errors.New("no answer within Config.IOTimeout")
