package lock

import (
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// request states. The reader and a caller that leaves race for the way out of
// pending; who loses leaves the other in charge.
const (
	pending   uint32 = iota // to answered by the reader; to abandoned by a caller that leaves
	answered                // the caller takes reply and err
	abandoned               // nobody waits: late is called with the answer
)

// request is one script call on its way through a link.
type request struct {
	script *script.Script
	keys   int
	args   []any // keys, then ARGV
	late   func(answer)

	state atomic.Uint32
	done  chan struct{} // closed when answered

	// owned by the link until answered
	eval   bool // send the text: the server has forgotten the SHA
	answer answer
}

// answer is what became of a request.
type answer struct {
	reply any
	err   error
	stamp time.Time // before the first byte was written; zero if none was
}

// finish hands the answer to who waits, or to late if nobody does.
func (r *request) finish(reply any, err error) {
	r.answer.reply, r.answer.err = reply, err
	if r.state.CompareAndSwap(pending, answered) {
		close(r.done)
	} else if r.late != nil {
		r.late(r.answer)
	}
}

// send writes the request into conn's buffer.
func (r *request) send(conn redis.Conn) error {
	args := make([]any, 0, len(r.args)+2)
	if r.eval {
		args = append(args, r.script.Text(), r.keys)
		return conn.Send("EVAL", append(args, r.args...)...)
	}
	args = append(args, r.script.SHA(), r.keys)
	return conn.Send("EVALSHA", append(args, r.args...)...)
}

// noScript reports whether the server did not run the script because it does
// not know its SHA.
func noScript(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && hasWord(string(reply), "NOSCRIPT")
}
