package carrier

import (
	"context"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// wait is a dial or a round trip of a Carrier that is not answered yet.
type wait struct {
	abort func() // ends it; may be called again, and too late

	// guarded by Carrier.mu
	began      time.Time // written by begin and goOn, by who waits
	timer      *time.Timer
	superseded bool
}

// begin notes that w waits from now on.
func (r *Carrier) begin(w *wait, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.began, w.superseded = time.Now(), false
	r.waits[w] = struct{}{}
	// A lease can wait for a thirtieth of its TTL; a slow link is no dead one.
	r.hedgeAfter = max(ttl/30, 4*r.rtt)
	if d := min(r.hedgeAfter, r.cfg.Timeout); w.timer == nil {
		w.timer = time.AfterFunc(d, func() { r.look(w) })
	} else {
		w.timer.Reset(d)
	}
}

// goOn notes that w waits for something else from now on. It returns false if a hedge has
// ended it.
func (r *Carrier) goOn(w *wait) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.began = time.Now()
	w.timer.Reset(min(r.hedgeAfter, r.cfg.Timeout))
	return !w.superseded
}

// end notes that w waits no more, and reports whether a hedge has ended it.
func (r *Carrier) end(w *wait) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.timer.Stop()
	delete(r.waits, w)
	return w.superseded
}

// measure notes how long a round trip took.
func (r *Carrier) measure(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rtt += (d - r.rtt) / 8
}

// look is called by w's timer, each hedgeAfter: it ends a wait that has lasted for
// too long, and hedges a slow one.
func (r *Carrier) look(w *wait) {
	r.mu.Lock()
	if _, waits := r.waits[w]; !waits || r.closed {
		r.mu.Unlock()
		return
	}
	now := time.Now()
	left := r.cfg.Timeout - now.Sub(w.began)
	if left <= 0 {
		r.mu.Unlock()
		w.abort()
		return
	}
	w.timer.Reset(min(r.hedgeAfter, left))
	due := now.Sub(w.began) >= r.hedgeAfter && now.Sub(r.hedged) >= r.hedgeAfter && r.hedges < maxHedges
	if due {
		r.hedges++
		r.hedged = now
		r.hedging.Add(1)
	}
	r.mu.Unlock()
	if due {
		r.hedge(now)
		r.hedging.Done()
	}
}

// hedge dials a connection and pings the server over it. If it is answered, all
// that has waited since long before is cut off, and goes on over this one.
func (r *Carrier) hedge(began time.Time) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timeout)
	defer cancel()
	dialed, err := r.cfg.Dial(ctx, r.beside)
	if err == nil {
		_, err = pipe.RoundTrip(ctx, dialed.Conn, "PING")
		if verdict, _ := pipe.VerdictOf(err, true, r.cfg.Server); verdict == pipe.Broken {
			dialed.Conn.Close()
		} else {
			err = nil // it lives, if it refuses too
		}
	}
	r.mu.Lock()
	r.hedges--
	if err != nil || r.closed {
		r.mu.Unlock()
		if err == nil {
			dialed.Conn.Close()
		}
		return
	}
	stale := r.idle // dead like those that wait, perhaps
	r.idle = []*pipeline{newPipeline(r, dialed)}
	var slow []*wait
	for w := range r.waits {
		if w.began.Before(began) && time.Since(w.began) >= r.hedgeAfter {
			w.superseded = true
			slow = append(slow, w)
		}
	}
	r.mu.Unlock()
	abortAll(slow, stale)
	r.cfg.Resumed()
}

// abortAll ends waits and closes connections, which may take each of them long:
// it waits for the slowest, and no other waits for it.
func abortAll(waits []*wait, conns []*pipeline) {
	var wg sync.WaitGroup
	for _, w := range waits {
		wg.Go(w.abort)
	}
	for _, c := range conns {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}
