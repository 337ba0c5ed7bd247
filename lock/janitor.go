package lock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// janitor gives back holds that nobody answers for: an acquisition whose answer
// was lost or came when its caller had left, a release that was never
// answered. It releases their fields until Redis gives a definite answer or
// their TTL is over, and names them to new attempts at the same lock, whose
// acquire script removes them.
type janitor struct {
	c *Client

	mu     sync.Mutex // guards what follows; never held during I/O
	closed bool
	owed   map[string][]*debt // by lock name, until their TTL is over
	open   int                // debts that are neither paid nor given up
	clear  chan struct{}      // closed when open becomes 0, if close waits for that
	failed []*debt            // to be tried again
	timer  *time.Timer        // runs retry; nil when nothing waits for it
	wg     sync.WaitGroup
}

// debt is a script that is still to be carried out: mostly the release of a
// field that may stand in a lock's hash with nobody behind it. It may be sent
// more than once.
type debt struct {
	command
	name  string
	kind  kind      // of the field
	field string    // named to new attempts at the lock; "" if there is no such
	until time.Time // by then Redis has expired it, or a copy would do harm
}

const (
	maxOwed      = 16 // fields named to one attempt
	janitorPause = 100 * time.Millisecond
)

func newJanitor(c *Client) *janitor {
	return &janitor{c: c, owed: make(map[string][]*debt)}
}

// owe takes charge of a field that stands in Redis for at most lease from now.
// It does not block.
func (j *janitor) owe(k kind, name, field string, lease time.Duration) {
	j.send(&debt{
		name: name, kind: k, field: field, command: k.rules().release(j.c, name, field, 0, j.c.cfg.Lease), until: time.Now().Add(lease),
	})
}

// send takes charge of d. It does not block.
func (j *janitor) send(d *debt) {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return
	}
	if d.field != "" {
		j.owed[d.name] = append(j.owed[d.name], d) // stays when it is paid: its acquire may arrive late
	}
	j.open++
	j.armLocked()
	j.mu.Unlock()
	j.try(d)
}

// fields returns the fields that an attempt of kind k at name should remove.
func (j *janitor) fields(k kind, name string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	debts := j.owed[name]
	var fields []string
	for i := len(debts) - 1; i >= 0 && len(fields) < maxOwed; i-- {
		if debts[i].kind.sharesKey(k) {
			fields = append(fields, debts[i].field)
		}
	}
	return fields
}

// try sends d; nobody waits for it.
func (j *janitor) try(d *debt) {
	j.c.post(d.name, d.script, d.keys, func(a pipe.Answer) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if a.Err == nil || pipe.Definite(a.Err) {
			j.paidLocked()
			return
		}
		j.failed = append(j.failed, d)
		j.armLocked()
	}, d.args...)
}

// armLocked makes retry run soon.
func (j *janitor) armLocked() {
	if j.timer != nil || j.closed || len(j.owed) == 0 && len(j.failed) == 0 {
		return
	}
	j.wg.Add(1)
	j.timer = time.AfterFunc(janitorPause+rand.N(janitorPause), func() {
		defer j.wg.Done()
		j.retry()
	})
}

// retry forgets debts whose time is over and sends the failed ones again.
func (j *janitor) retry() {
	now := time.Now()
	j.mu.Lock()
	j.timer = nil
	for name, debts := range j.owed {
		kept := debts[:0]
		for _, d := range debts {
			if now.Before(d.until) {
				kept = append(kept, d)
			}
		}
		clear(debts[len(kept):])
		if len(kept) == 0 {
			delete(j.owed, name)
		} else {
			j.owed[name] = kept
		}
	}
	failed := j.failed
	j.failed = nil
	j.armLocked()
	j.mu.Unlock()
	for _, d := range failed {
		if now.Before(d.until) {
			j.try(d)
			continue
		}
		j.mu.Lock()
		j.paidLocked() // by Redis' own expiry
		j.mu.Unlock()
	}
}

func (j *janitor) paidLocked() {
	if j.open--; j.open == 0 && j.clear != nil {
		close(j.clear)
		j.clear = nil
	}
}

// close gives what is owed until ctx ends, at most Config.UnlockTimeout, to be
// paid, and stops the janitor; the rest is left to its TTL.
func (j *janitor) close(ctx context.Context) {
	j.mu.Lock()
	if j.open > 0 && !j.closed {
		if j.clear == nil {
			j.clear = make(chan struct{})
		}
		paid := j.clear
		j.mu.Unlock()
		_ = pause(ctx, paid, j.c.cfg.UnlockTimeout)
		j.mu.Lock()
	}
	j.closed = true
	if j.timer != nil && j.timer.Stop() {
		j.wg.Done()
	}
	j.mu.Unlock()
	j.wg.Wait()
}
