package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// awaitReady waits until the child answers at the server's address, and
// returns its Software.
func (p *process) awaitReady(ctx context.Context, c *child) (Software, error) {
	// A child that dies ends a probe that hangs on somebody else's server.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-c.done:
			cancel(errDied)
		case <-stop:
		}
	}()
	last := errors.New("no answer yet")
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		software, err := p.probe(ctx, c)
		if err == nil {
			return software, nil
		}
		var refused *refusedError
		if errors.As(err, &refused) {
			return Software{}, err
		}
		if ctx.Err() == nil {
			last = err
			_ = pauseFor(ctx, wait)
		}
		if ctx.Err() == nil {
			continue
		}
		if errors.Is(context.Cause(ctx), errDied) {
			return Software{}, p.exitError(c)
		}
		return Software{}, fmt.Errorf("redistest: start: %w; last: %w; the server's log ends:\n%s", ctx.Err(), last, p.output.String())
	}
}

var errDied = errors.New("redistest: the server died")

// exitError says what a child died of.
func (p *process) exitError(c *child) error {
	log := p.output.String()
	if strings.Contains(strings.ToLower(log), "address already in use") {
		return fmt.Errorf("%w: %s", errPortTaken, p.server.addr)
	}
	return fmt.Errorf("redistest: %s ended before it answered (%w); its log ends:\n%s", p.path, exitStatus(c.err), log)
}

func exitStatus(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// refusedError is an answer that waiting will not change.
type refusedError struct{ err error }

func (e *refusedError) Error() string {
	return "redistest: start: the server refuses us: " + e.err.Error() + " (its password belongs into Options.Password)"
}
func (e *refusedError) Unwrap() error { return e.err }

// probe asks once whether the child itself answers.
func (p *process) probe(ctx context.Context, c *child) (Software, error) {
	conn, err := p.server.DialContext(ctx)
	if err == nil {
		defer conn.Close()
		// LOADING is an error here, and passes.
		_, err = redis.DoContext(conn, ctx, "PING")
	}
	if err != nil {
		for _, word := range []string{"NOAUTH", "WRONGPASS", "invalid password", "ERR AUTH"} {
			if strings.Contains(err.Error(), word) {
				return Software{}, &refusedError{err}
			}
		}
		return Software{}, err
	}
	m, err := info(conn, "server")
	if err != nil {
		return Software{}, err
	}
	if m["process_id"] != strconv.Itoa(c.pid) {
		return Software{}, fmt.Errorf("redistest: process %s answers at %s, not ours", m["process_id"], p.server.addr)
	}
	return SoftwareOf(m), nil
}
