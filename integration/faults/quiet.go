package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// quiet makes a quiet point. The processes rest: holders release, throngs leave, and
// whoever waits alone gets the lock and gives it back. They say what they count as
// held, and work on when the server has been looked at. A lock that nobody counts is
// free within MaxPoll and IOTimeout; one that stays longer is a ghost, and keeps
// everybody out until its lease ends. quiet reports whether all came to rest.
func (s *scene) quiet(ctx context.Context, c *checks) bool {
	s.round++
	for _, p := range s.procs {
		if !p.dead {
			_, _ = fmt.Fprintf(p.stdin, sayRest+"\n", s.round) // who is gone is found out by what follows
		}
	}
	defer func() {
		for _, p := range s.procs {
			_, _ = io.WriteString(p.stdin, sayGo+"\n")
		}
	}()
	reports := map[int]*Quiet{}
	if !eventually(ctx, patience, func() bool { return s.rested(reports) }) {
		if ctx.Err() == nil {
			c.wrong("not every process gave back what it held and came to rest within %v", patience)
		}
		return false
	}
	for n, q := range reports {
		q.check(n, c)
	}
	// A twin leaves what it gave up to the lease: it has no ghosts only in calm weather.
	if !s.row.Stretches && (s.Flaw == None || s.Flaw == Ghostly) {
		s.ghosts(ctx, c)
	}
	return true
}

// check compares what process n counts with what it has.
func (q *Quiet) check(n int, c *checks) {
	if q.Counts && (q.Held != q.Own || q.Waiting != 0) {
		c.wrong("process %d counts %d holds and %d waiters at a quiet point, and has %d and none", n, q.Held, q.Waiting, q.Own)
	}
}

// rested says whether all processes have, and what they said.
func (s *scene) rested(reports map[int]*Quiet) bool {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	for _, p := range s.procs {
		if q := s.history.quiet[p.n]; !p.dead && (q == nil || q.Round != s.round) {
			return false
		} else if !p.dead {
			reports[p.n] = q
		}
	}
	return true
}

// ghosts waits until nothing is locked that nobody holds, as long as it may take.
func (s *scene) ghosts(ctx context.Context, c *checks) {
	from := now()
	mayStay := pollOf(0, s.Lease) + ioTimeout(s.Lease) + slack(quietSlack, s.Lease)
	// What a killed process held, nobody can release.
	s.history.mu.Lock()
	for _, at := range s.history.killed {
		mayStay = max(mayStay, at.add(s.Lease+margin(s.Lease)).sub(from))
	}
	s.history.mu.Unlock()
	for ctx.Err() == nil {
		looked := now() // what is gone by then was in time
		found, err := s.locked()
		if err == nil && len(found) == 0 {
			return
		}
		s.history.mu.Lock()
		stood := time.Duration(s.history.excused(parent, from, looked) + s.history.excused(theServer, from, looked))
		s.history.mu.Unlock()
		if stayed := looked.sub(from) - stood; stayed > mayStay {
			if err != nil {
				c.wrong("the server cannot be looked at: %v", err)
				return
			}
			c.wrong("%d keys are locked and nobody holds them, %v after all was given back: %s",
				len(found), stayed, strings.Join(found[:min(len(found), 5)], ", "))
			return
		}
		sleep(ctx, beat)
	}
}

// locked are the locks that the server has and nobody counts, each with its fields
// and what is left of its lease.
func (s *scene) locked() (found []string, err error) {
	var names []string
	add := func(name string, n int) {
		for k := range n {
			names = append(names, fmt.Sprintf("%s-%d", name, k))
		}
	}
	add("mutex", s.row.Load.Mutexes)
	add("rw", s.row.Load.RW)
	add("shared", s.row.Load.Shared)
	own, err := s.scan("many-*")
	if err != nil {
		return nil, err
	}
	names = append(names, s.history.unheld(own)...)
	for _, key := range names {
		fields, err := redis.Strings(s.do("HKEYS", key))
		if err != nil {
			return nil, err
		}
		if len(fields) > 0 {
			left, err := redis.Int64(s.do("PTTL", key))
			if err != nil {
				return nil, err
			}
			found = append(found, fmt.Sprintf("%s %q for %d ms", key, fields, left))
		}
	}
	for k := range s.row.Load.Counts {
		key := fmt.Sprintf("count-%d", k)
		free, err := redis.Int(s.do("GET", key))
		if err != nil && !errors.Is(err, redis.ErrNil) {
			return nil, err
		}
		if err == nil && free != permits {
			found = append(found, fmt.Sprintf("%s with %d permits, not %d", key, free, permits))
		}
	}
	for k := range s.row.Load.Permits {
		// Of permits, the clients' time of day says which have not expired.
		key := fmt.Sprintf("{permit-%d}:timeout", k)
		taken, err := redis.Int(s.do("ZCOUNT", key, fmt.Sprintf("(%d", time.Now().UnixMilli()), "+inf"))
		if err != nil {
			return nil, err
		}
		if taken > 0 {
			found = append(found, fmt.Sprintf("%s with %d permits", key, taken))
		}
	}
	return found, nil
}

// scan is KEYS that does not keep others waiting: there may be very many.
func (s *scene) scan(pattern string) (keys []string, err error) {
	for cursor := "0"; ; {
		reply, err := redis.Values(s.do("SCAN", cursor, "MATCH", pattern, "COUNT", 1000))
		if err != nil {
			return nil, err
		}
		var some []string
		if _, err := redis.Scan(reply, &cursor, &some); err != nil {
			return nil, err
		}
		keys = append(keys, some...)
		if cursor == "0" {
			return keys, nil
		}
	}
}

// unheld are those of these keys that nobody holds and nobody is about to.
func (hy *history) unheld(keys []string) []string {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	return slices.DeleteFunc(keys, func(key string) bool {
		l := hy.lines[key]
		return l == nil || slices.ContainsFunc(l.holds, func(h *hold) bool { return h.over == forever }) || l.underWay()
	})
}

// underWay says whether somebody asks for the key now.
func (l *line) underWay() bool {
	for a := range l.attempts {
		if a.left == forever {
			return true
		}
	}
	return false
}
