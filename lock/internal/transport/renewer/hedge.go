package renewer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// wait is a dial or a round trip of a Renewer that is not answered yet.
type wait struct {
	abort  func() // ends the wait; may be called again, and after the end
	isDial bool   // it is a dial, which limits its time itself

	// guarded by Renewer.mu
	isOverdue    bool      // checkWait has found it too long once
	isLate       bool      // it was ended because there was no answer in time
	began        time.Time // written by beginWait and continueWait, on the goroutine that waits
	timer        *time.Timer
	isSuperseded bool // it was or will be ended, because another connection answers or Drop was called
}

// beginWait records that w waits from now on.
func (r *Renewer) beginWait(w *wait, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.began, w.isSuperseded, w.isOverdue, w.isLate = time.Now(), false, false, false
	r.waits[w] = struct{}{}
	// A lease can wait for a thirtieth of its TTL. A slow link must not count as dead.
	r.hedgeAfter = max(ttl/30, 4*r.rtt)
	if d := min(r.hedgeAfter, r.cfg.Timeout); w.timer == nil {
		w.timer = time.AfterFunc(d, func() { r.checkWait(w) })
	} else {
		w.timer.Reset(d)
	}
}

// continueWait records that w waits for the next answers from now on. It returns false if w is
// superseded.
func (r *Renewer) continueWait(w *wait) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.began, w.isOverdue = time.Now(), false
	w.timer.Reset(min(r.hedgeAfter, r.cfg.Timeout))
	return !w.isSuperseded
}

// endWait records that w has ended. It reports whether w is superseded.
func (r *Renewer) endWait(w *wait) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.timer.Stop()
	delete(r.waits, w)
	return w.isSuperseded
}

// reportFailure reports that the wait w ended with err.
func (r *Renewer) reportFailure(w *wait, err error) {
	r.mu.Lock()
	if w.isLate { // err says only that the connection was closed
		err = pipe.ErrUnanswered
	}
	r.mu.Unlock()
	r.cfg.Failed(err)
}

// recordRTT records how long a round trip took.
func (r *Renewer) recordRTT(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rtt += (d - r.rtt) / 8
}

// checkWait is called by w's timer, once in every hedgeAfter. It runs a hedge for a slow wait. It ends a
// slow dial if a connection has become idle. It ends a wait that is too long at a second look: after a
// standstill of this process its timers run before it reads what has come.
func (r *Renewer) checkWait(w *wait) {
	r.mu.Lock()
	if _, waits := r.waits[w]; !waits || r.closed {
		r.mu.Unlock()
		return
	}
	now := time.Now()
	next := r.hedgeAfter
	if w.isDial {
		w.isSuperseded = w.isSuperseded || slices.ContainsFunc(r.idle, func(c *pipeline) bool { return !c.exchange.IsOld() })
	} else {
		next = min(next, r.cfg.Timeout-now.Sub(w.began))
		if next <= 0 {
			w.isOverdue, w.isLate, next = true, w.isOverdue, r.cfg.Timeout/16
		}
	}
	if w.isSuperseded || w.isLate {
		r.mu.Unlock()
		w.abort()
		return
	}
	w.timer.Reset(next)
	due := !w.isOverdue && now.Sub(w.began) >= r.hedgeAfter && now.Sub(r.lastHedge) >= r.hedgeAfter && r.hedgeCount < maxHedges
	if due {
		r.hedgeCount++
		r.lastHedge = now
		r.goroutines.Add(1)
	}
	r.mu.Unlock()
	if due {
		r.hedge(now)
		r.goroutines.Done()
	}
}

// hedge dials a connection and pings the server over it. If the ping is answered, all
// waits that began long before are ended, and their batches continue over this connection.
func (r *Renewer) hedge(began time.Time) {
	dialed, err := r.cfg.Dial(r.ctx, r.hedgeDials)
	if err == nil {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timeout)
		_, err = pipe.RoundTrip(ctx, dialed.Conn, "PING")
		cancel()
		if verdict, _ := pipe.VerdictOf(err, true, r.cfg.Server); verdict == pipe.Broken {
			dialed.Conn.Close()
		} else {
			err = nil // a refused ping also shows that the server works
		}
	}
	r.mu.Lock()
	r.hedgeCount--
	if err != nil || r.closed {
		r.mu.Unlock()
		if err == nil {
			dialed.Conn.Close()
		}
		return
	}
	stale := r.idle // perhaps dead, like the connections in use
	r.idle = []*pipeline{newPipeline(r, dialed)}
	var slow []*wait
	for w := range r.waits {
		if w.began.Before(began) && time.Since(w.began) >= r.hedgeAfter {
			w.isSuperseded = true
			slow = append(slow, w)
		}
	}
	r.mu.Unlock()
	abortAll(slow, stale)
	r.cfg.Resumed()
}

// abortAll ends waits and closes connections. Each close may take long, so they run at
// the same time, and abortAll waits for the slowest.
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
