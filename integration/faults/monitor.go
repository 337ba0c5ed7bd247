package faults

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// monitor reads on a connection of its own which renewals the server carries
// out, until the work ends. What it misses while the server is down is missed.
func (s *scene) monitor() {
	s.beside(0, func(_ context.Context, c redis.Conn) {
		if c.Send("MONITOR") == nil && c.Flush() == nil {
			s.watch(c)
		}
	})
}

// probe asks the server on a connection of its own whether it runs, until the
// work ends.
func (s *scene) probe() {
	s.history.hear(theServer, 0)
	down := now()
	s.beside(patience, func(ctx context.Context, c redis.Conn) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		look := func() {
			if _, err := c.Do("PING"); err != nil && c.Err() != nil {
				cancel()
			}
		}
		if look(); ctx.Err() == nil {
			s.history.add(event{At: now(), Op: opStill, Proc: theServer, Until: down})
			pulse(ctx, theServer, look, s.history.add, func(at stamp) { s.history.hear(theServer, at) })
		}
		down = now()
	})
}

// beside calls do with a connection that does not lead through the proxy, and
// again with a new one when it has returned, until the work ends.
func (s *scene) beside(timeout time.Duration, do func(context.Context, redis.Conn)) {
	ctx := s.beating
	s.pulsing.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, 20*time.Millisecond) {
			c, err := s.server.Dial(redis.DialReadTimeout(timeout))
			if err != nil {
				continue
			}
			hangUp := context.AfterFunc(ctx, func() { _ = c.Close() })
			do(ctx, c)
			if hangUp() {
				_ = c.Close()
			}
		}
	})
}

func (s *scene) watch(c redis.Conn) {
	for {
		line, err := redis.String(c.Receive())
		if err != nil {
			return
		}
		if seen := renewalsIn(line); len(seen) > 0 {
			s.history.mu.Lock()
			s.history.renewals = append(s.history.renewals, seen...)
			s.history.mu.Unlock()
		}
	}
}

// renewalsIn reads a line of MONITOR: a time of day in seconds, who, and the
// command in quotes.
func renewalsIn(line string) []renewed {
	if !strings.Contains(line, script.Renew.SHA()) && !strings.Contains(line, script.RwRenew.SHA()) {
		return nil
	}
	text, rest, _ := strings.Cut(line, " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	// The time of day and the monotonic clock are read together: nobody sets
	// the clock of this machine while it runs.
	at := now().add(-time.Since(time.UnixMicro(int64(seconds * 1e6))))
	_, rest, _ = strings.Cut(rest, "] ")
	args := quoted(rest) // EVALSHA, SHA, keys, ..., lease, client, fields
	if len(args) < 3 {
		return nil
	}
	keys, err := strconv.Atoi(args[2])
	if err != nil || len(args) < 3+2*keys+2 {
		return nil
	}
	var out []renewed
	for _, field := range args[3+keys+2:] {
		if n, ok := named(field); ok {
			out = append(out, renewed{at: at, proc: n.proc, id: n.id})
		}
	}
	return out
}

// named is what owner has named. There are tens of thousands of them a second.
func named(field string) (n name, ok bool) {
	proc, rest, ok := strings.Cut(field, ".")
	id, _, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 || !strings.HasPrefix(proc, "p") {
		return n, false
	}
	var err, err2 error
	n.proc, err = strconv.Atoi(proc[1:])
	n.id, err2 = strconv.ParseInt(id, 10, 64)
	return n, err == nil && err2 == nil
}

// quoted splits a line into what it has in quotes, as Redis writes it.
func quoted(line string) []string {
	var out []string
	for {
		line = strings.TrimLeft(line, " ")
		q, err := strconv.QuotedPrefix(line)
		if err != nil {
			return out
		}
		text, err := strconv.Unquote(q)
		if err != nil {
			text = q
		}
		out = append(out, text)
		line = line[len(q):]
	}
}
