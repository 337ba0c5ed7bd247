package lock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/wheellock/wheellock/lock/script"
)

// read sends a script that changes nothing, once.
func (c *Client) read(ctx context.Context, op, name string, s *script.Script, args ...any) (any, error) {
	return c.readAt(ctx, op, name, s, append([]any{name}, args...)...)
}

// readAt is read of another key that belongs to name, the first of args.
func (c *Client) readAt(ctx context.Context, op, name string, s *script.Script, args ...any) (any, error) {
	if err := c.checkName(name); err != nil {
		return nil, err
	}
	if !c.tables.begin(name, true) {
		return nil, closedError(name)
	}
	defer c.tables.end(name)
	a := c.scripts.call(ctx, name, s, nil, args...)
	if a.Err != nil {
		return nil, c.scripts.callError(op, name, a)
	}
	return a.Reply, nil
}

// readCount returns the value of a counter, 0 if there is none.
func (c *Client) readCount(ctx context.Context, op, name string) (int64, error) {
	reply, err := c.read(ctx, op, name, script.Count)
	if err != nil || reply == nil {
		return 0, err
	}
	text, ok := reply.([]byte)
	if !ok {
		return 0, badReply(op, name, reply)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s of %q: it is no counter but %.50q: %s", ErrNotALock, op, name, text, otherName)
	}
	return n, nil
}
