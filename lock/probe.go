package lock

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// wait is a dial or a round trip of a renewer that is not answered yet.
type wait struct {
	abort func() // ends it; may be called again, and too late

	// guarded by renewer.mu
	began      time.Time // written by begin alone
	timer      *time.Timer
	superseded bool
}

// begin notes that w waits from now on.
func (r *renewer) begin(w *wait, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.began, w.superseded = time.Now(), false
	r.waits[w] = struct{}{}
	// A lease can wait for a thirtieth of its TTL; a slow link is no dead one.
	r.hedge = max(ttl/30, 4*r.rtt)
	if d := min(r.hedge, r.timeout); w.timer == nil {
		w.timer = time.AfterFunc(d, func() { r.look(w) })
	} else {
		w.timer.Reset(d)
	}
}

// end notes that w waits no more, and reports whether a probe has ended it.
func (r *renewer) end(w *wait) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.timer.Stop()
	delete(r.waits, w)
	return w.superseded
}

// measure notes how long a round trip took.
func (r *renewer) measure(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rtt += (d - r.rtt) / 8
}

// look is called by w's timer, each hedge: it ends a wait that has lasted for
// too long, and probes beside a slow one.
func (r *renewer) look(w *wait) {
	r.mu.Lock()
	if _, waits := r.waits[w]; !waits || r.closed {
		r.mu.Unlock()
		return
	}
	now := time.Now()
	left := r.timeout - now.Sub(w.began)
	if left <= 0 {
		r.mu.Unlock()
		w.abort()
		return
	}
	w.timer.Reset(min(r.hedge, left))
	probe := now.Sub(w.began) >= r.hedge && now.Sub(r.probed) >= r.hedge && r.probes < maxProbes
	if probe {
		r.probes++
		r.probed = now
		r.probing.Add(1)
	}
	r.mu.Unlock()
	if probe {
		r.probe(now)
		r.probing.Done()
	}
}

// probe dials a connection and pings the server over it. If it is answered, all
// that has waited since long before is cut off, and goes on over this one.
func (r *renewer) probe(began time.Time) {
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	conn, epoch, err := r.node.connect(ctx)
	if err == nil {
		_, err = roundTrip(ctx, conn, "PING", nil)
		if _, answered := err.(redis.Error); answered {
			err = nil // it lives
		} else if err != nil {
			conn.Close()
		}
	}
	r.mu.Lock()
	r.probes--
	if err != nil || r.closed {
		r.mu.Unlock()
		if err == nil {
			conn.Close()
		}
		return
	}
	stale := r.idle // dead like those that wait, perhaps
	r.idle = []*renewConn{newRenewConn(r.node, conn, epoch)}
	var slow []*wait
	for w := range r.waits {
		if w.began.Before(began) && time.Since(w.began) >= r.hedge {
			w.superseded = true
			slow = append(slow, w)
		}
	}
	r.mu.Unlock()
	for _, w := range slow {
		w.abort()
	}
	for _, c := range stale {
		c.Close()
	}
	r.node.resumed()
}

// roundTrip sends one command and waits for its answer until ctx ends. A
// connection on which it returned anything but a redis.Error must be closed.
// Writing is bounded by closing the connection when ctx ends.
func roundTrip(ctx context.Context, conn redis.Conn, cmd string, args []any) (any, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.Send(cmd, args...); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	return redis.ReceiveWithTimeout(conn, max(time.Until(deadline), time.Millisecond))
}
