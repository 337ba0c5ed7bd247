package lock

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/renewal"
	"github.com/wheellock/wheellock/wheel"
)

// telling counts how the calls of a client end, and calls its Hooks.
type telling struct {
	// immutable after New
	hooks  Hooks
	logger *record.Logger
	client string

	losses  work.Backlog[Event]               // for Lost
	reports work.Backlog[renewal.BatchReport] // for Renewed

	skipped uint64 // reports since the last one of reports; used only by renewed

	// atomic
	calls  [outcomes]atomic.Uint64
	waited wheel.Recorder
}

func newTelling(cfg Config, logger *record.Logger, client string, cast *work.Cast) *telling {
	t := &telling{hooks: cfg.Hooks, logger: logger, client: client}
	t.losses.Init(cast, "call Hooks.Lost", func(e Event) { t.call(t.hooks.Lost, e) })
	t.reports.Init(cast, "call Hooks.Renewed", func(r renewal.BatchReport) {
		defer logPanic(logger, "")
		t.hooks.Renewed(r)
	})
	return t
}

// call calls a hook that is not nil.
func (t *telling) call(hook func(Event), e Event) {
	defer logPanic(t.logger, e.Name)
	hook(e)
}

// maxReports is how many reports wait for a Hooks.Renewed that is slow.
const maxReports = 1024

// renewed passes a report of the watchdog to Hooks.Renewed. The watchdog calls it for one report
// after the other, and would wait without end for a hook that does not return.
func (t *telling) renewed(r renewal.BatchReport) {
	r.Skipped += t.skipped
	if t.skipped = 0; !t.reports.AddUpTo(maxReports, r) {
		t.skipped = r.Skipped + 1
	}
}

// blocked names the user's functions that have not returned.
func (t *telling) blocked() string {
	var names []string
	for _, f := range []struct {
		name string
		busy bool
	}{{"Hooks.Lost", t.losses.Busy()}, {"Hooks.Renewed", t.reports.Busy()}, {"Config.Logger", t.logger.Busy()}} {
		if f.busy {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		return "a hook"
	}
	return strings.Join(names, " and ")
}

// event returns an Event about h, or about no hold if h is nil.
func (t *telling) event(ctx context.Context, name string, h *hold.Hold, err error) Event {
	e := Event{Context: ctx, Client: t.client, Name: name, Err: err}
	if h != nil {
		e.Token, e.Hold = h.Token(), h.Seq()
	}
	return e
}

// ended counts the end of a call that took that long, and calls the hooks. Every call that takes a lock or permits calls it once.
func (t *telling) ended(ctx context.Context, name string, took waitqueue.Instant, x *hold.Held, err error) {
	o, hook := OutcomeReentered, (func(Event))(nil)
	var h *hold.Hold
	if err != nil {
		o, hook = outcomeOf(ctx, err), t.hooks.Failed
	} else if h = x.Hold(); h.MarkReturned() {
		o, hook = OutcomeAcquired, t.hooks.Acquired
		t.waited.Record(time.Duration(took))
	}
	t.calls[o].Add(1)
	if hook != nil {
		e := t.event(ctx, name, h, err)
		e.Waited, e.Outcome = time.Duration(took), o
		t.call(hook, e)
	}
	if o == OutcomeAcquired && t.hooks.Lost != nil {
		if lost := h.MarkReportable(); lost != nil {
			t.call(t.hooks.Lost, t.event(context.Background(), name, h, lost))
		}
	}
}

var _ hold.Observer = (*telling)(nil)

// Waited implements hold.Observer.
func (t *telling) Waited(ctx context.Context, name string, took time.Duration, h *hold.Hold, err error) {
	if t.hooks.Waited == nil {
		return
	}
	e := t.event(ctx, name, h, err)
	e.Waited, e.Outcome = took, outcomeOf(ctx, err)
	t.call(t.hooks.Waited, e)
}

// Lost implements hold.Observer. Another goroutine soon calls Hooks.Lost.
func (t *telling) Lost(h *hold.Hold, err error) {
	if t.hooks.Lost != nil {
		t.losses.Add(t.event(context.Background(), h.Name(), h, err))
	}
}

// Released implements hold.Observer.
func (t *telling) Released(ctx context.Context, h *hold.Hold, err error) {
	if t.hooks.Released != nil {
		t.call(t.hooks.Released, t.event(ctx, h.Name(), h, err))
	}
}
