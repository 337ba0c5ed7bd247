package servers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// backoff limits how often connections are dialled while the server takes none, ends each one
// before it has answered a request, or is a replica. After a failure there is a pause. A dial that
// would begin within the pause fails at once, with the error of that failure, so all requests that
// need a connection are told the cause. The pause counts from the beginning of a dial. After a
// dial that took at least as long as the longest pause there is no pause, even if other dials have
// failed meanwhile.
//
// Renewals have a backoff of their own. Its pauses are not longer than the pauses of package renewal,
// and a failure of a connection for commands does not delay renewals. All methods are safe for
// concurrent use.
type backoff struct {
	longest time.Duration // the longest pause; immutable
	random  *rand.Rand    // immutable

	mu    sync.Mutex // guards the fields below; never held during I/O
	dials int        // dials in a row since the last answer
	// dialsBefore is the value that dials had before the last answer. If the server turns out to be
	// a replica, that answer does not count, because a replica answers what only reads.
	dialsBefore int
	err         error     // why the last dial or its connection failed; nil if neither did
	pauseEnd    time.Time // the end of the pause
}

// firstPause is the first pause. Every pause is twice as long as the one before, up to
// backoff.longest. A random part of up to a quarter is subtracted, so that clients do not dial at
// the same time.
const firstPause = 10 * time.Millisecond

// dial calls f, or fails at once in a pause.
func (b *backoff) dial(f func() (pipe.Connection, error)) (pipe.Connection, error) {
	began := time.Now()
	if err := b.beginDial(began); err != nil {
		return pipe.Connection{}, err
	}
	dialed, err := f()
	b.endDial(began, err)
	return dialed, err
}

// beginDial begins a dial now, or returns the error with which the dial fails at once.
func (b *backoff) beginDial(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil && now.Before(b.pauseEnd) {
		return b.err
	}
	if now.Sub(b.pauseEnd) > b.longest {
		b.dialsBefore = 0
	}
	d := min(firstPause<<min(b.dials, 20), b.longest)
	if b.random != nil {
		d -= time.Duration(b.random.Int64N(int64(d/4) + 1))
	}
	b.dials, b.pauseEnd = b.dials+1, now.Add(d)
	return nil
}

// endDial records how a dial that began at began has ended.
func (b *backoff) endDial(began time.Time, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, pipe.ErrReplaced) {
		return // the server has not ended the dial
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err = err; time.Since(began) >= b.longest {
		b.err = nil
	}
}

// connectionFailed records that a connection has ended. That is a failure to dial if no connection has
// answered a request since the dial, or if it soon led to a replica.
func (b *backoff) connectionFailed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pipe.OfReplica(err) && time.Since(b.pauseEnd) < b.longest {
		b.dials = max(b.dials, b.dialsBefore)
	}
	if b.dials > 0 && err != pipe.ErrReplaced {
		b.err = err
	}
}

// reset records that a connection has answered a request, or that another server is behind the
// name.
func (b *backoff) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialsBefore, b.dials, b.err = max(b.dialsBefore, b.dials), 0, nil
}
