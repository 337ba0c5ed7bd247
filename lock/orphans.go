package lock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// orphans gives back holds that nobody answers for: an acquisition whose answer
// was lost or came when its caller had left, a release that was never
// answered. It releases their fields until Redis gives a definite answer or
// their TTL is over, and names them to new attempts at the same lock, whose
// acquire script removes them.
type orphans struct {
	c *Client

	mu     sync.Mutex // guards what follows; never held during I/O
	closed bool
	owed   map[string][]*orphan // by lock name, until their TTL is over
	open   int                  // orphans that are neither paid nor given up
	clear  chan struct{}        // closed when open becomes 0, if close waits for that
	failed []*orphan            // to be tried again
	timer  *time.Timer          // runs retry; nil when nothing waits for it
	wg     sync.WaitGroup
}

// orphan is a script that is still to be carried out: mostly the release of a
// field that may stand in a lock's hash with nobody behind it. It may be sent
// more than once.
type orphan struct {
	command
	name  string
	kind  kind      // of the field
	field string    // named to new attempts at the lock; "" if there is no such
	until time.Time // by then Redis has expired it, or a copy would do harm
}

const (
	maxOwed     = 16 // fields named to one attempt
	orphanPause = 100 * time.Millisecond
)

func newOrphans(c *Client) *orphans {
	return &orphans{c: c, owed: make(map[string][]*orphan)}
}

// add takes charge of a field that stands in Redis for at most lease from now.
// It does not block.
func (o *orphans) add(k kind, name, field string, lease time.Duration) {
	o.send(&orphan{
		name: name, kind: k, field: field, command: k.rules().release(o.c, name, field, 0, o.c.cfg.Lease), until: time.Now().Add(lease),
	})
}

// send takes charge of d. It does not block.
func (o *orphans) send(d *orphan) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	if d.field != "" {
		o.owed[d.name] = append(o.owed[d.name], d) // stays when it is paid: its acquire may arrive late
	}
	o.open++
	o.armLocked()
	o.mu.Unlock()
	o.try(d)
}

// fields returns the fields that an attempt of kind k at name should remove.
func (o *orphans) fields(k kind, name string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.owed[name]
	var fields []string
	for i := len(list) - 1; i >= 0 && len(fields) < maxOwed; i-- {
		if list[i].kind.sharesKey(k) {
			fields = append(fields, list[i].field)
		}
	}
	return fields
}

// try sends d; nobody waits for it.
func (o *orphans) try(d *orphan) {
	o.c.post(d.name, d.script, d.keys, func(a pipe.Answer) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if a.Err == nil || pipe.Definite(a.Err) {
			o.paidLocked()
			return
		}
		o.failed = append(o.failed, d)
		o.armLocked()
	}, d.args...)
}

// armLocked makes retry run soon.
func (o *orphans) armLocked() {
	if o.timer != nil || o.closed || len(o.owed) == 0 && len(o.failed) == 0 {
		return
	}
	o.wg.Add(1)
	o.timer = time.AfterFunc(orphanPause+rand.N(orphanPause), func() {
		defer o.wg.Done()
		o.retry()
	})
}

// retry forgets orphans whose time is over and sends the failed ones again.
func (o *orphans) retry() {
	now := time.Now()
	o.mu.Lock()
	o.timer = nil
	for name, list := range o.owed {
		kept := list[:0]
		for _, d := range list {
			if now.Before(d.until) {
				kept = append(kept, d)
			}
		}
		clear(list[len(kept):])
		if len(kept) == 0 {
			delete(o.owed, name)
		} else {
			o.owed[name] = kept
		}
	}
	failed := o.failed
	o.failed = nil
	o.armLocked()
	o.mu.Unlock()
	for _, d := range failed {
		if now.Before(d.until) {
			o.try(d)
			continue
		}
		o.mu.Lock()
		o.paidLocked() // by Redis' own expiry
		o.mu.Unlock()
	}
}

func (o *orphans) paidLocked() {
	if o.open--; o.open == 0 && o.clear != nil {
		close(o.clear)
		o.clear = nil
	}
}

// close gives what is owed until ctx ends, at most Config.UnlockTimeout, to be
// paid; what is left then is left to its TTL.
func (o *orphans) close(ctx context.Context) {
	o.mu.Lock()
	if o.open > 0 && !o.closed {
		if o.clear == nil {
			o.clear = make(chan struct{})
		}
		paid := o.clear
		o.mu.Unlock()
		_ = pause(ctx, paid, o.c.cfg.UnlockTimeout)
		o.mu.Lock()
	}
	o.closed = true
	if o.timer != nil && o.timer.Stop() {
		o.wg.Done()
	}
	o.mu.Unlock()
	o.wg.Wait()
}
