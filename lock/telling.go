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

	skipped uint64 // reports that were dropped since the last one in reports; used only by passReport

	// atomic
	calls  [outcomes]atomic.Uint64
	waited wheel.Recorder
}

func newTelling(cfg Config, logger *record.Logger, client string, labeler *work.Labeler) *telling {
	t := &telling{hooks: cfg.Hooks, logger: logger, client: client}
	t.losses.Init(labeler, "call Hooks.Lost", func(e Event) { t.callHook(t.hooks.Lost, e) })
	t.reports.Init(labeler, "call Hooks.Renewed", func(r renewal.BatchReport) {
		defer logPanic(logger, "")
		t.hooks.Renewed(r)
	})
	return t
}

// callHook calls a hook that is not nil. If the hook panics, the log says so.
func (t *telling) callHook(hook func(Event), e Event) {
	defer logPanic(t.logger, e.Name)
	hook(e)
}

// maxReports is how many reports wait for a Hooks.Renewed that is slow.
const maxReports = 1024

// passReport queues a report of the watchdog for Hooks.Renewed. It does not wait for the hook, because
// the watchdog passes its reports one after the other, and would stop if the hook did not return.
func (t *telling) passReport(r renewal.BatchReport) {
	r.Skipped += t.skipped
	if t.skipped = 0; !t.reports.AddUpTo(maxReports, r) {
		t.skipped = r.Skipped + 1
	}
}

// namesOfBlocked names the hooks that have not returned, and the logger if its handler has not.
func (t *telling) namesOfBlocked() string {
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

// newEvent returns an Event about h, or about no hold if h is nil.
func (t *telling) newEvent(ctx context.Context, name string, h *hold.Hold, err error) Event {
	e := Event{Context: ctx, Client: t.client, Name: name, Err: err}
	if h != nil {
		e.Token, e.Hold = h.Token(), h.Seq()
	}
	return e
}

// recordCall counts a call by its outcome and calls the hooks. took is how long the call lasted, and
// waited says that it had to wait. Every call that takes a lock or permits calls recordCall once, at its end.
func (t *telling) recordCall(ctx context.Context, name string, took waitqueue.Instant, waited bool, x *hold.Held, err error) {
	o, hook := OutcomeReentered, (func(Event))(nil)
	var h *hold.Hold
	if err != nil {
		o, hook = outcomeOf(ctx, err), t.hooks.Failed
	} else if h = x.Hold(); h.MarkReturned() {
		o, hook = OutcomeAcquired, t.hooks.Acquired
		t.waited.Record(time.Duration(took))
	}
	t.calls[o].Add(1)
	if waited = waited && t.hooks.Waited != nil; waited || hook != nil {
		e := t.newEvent(ctx, name, h, err)
		e.Waited, e.Outcome = time.Duration(took), o
		if waited {
			t.callHook(t.hooks.Waited, e)
		}
		if hook != nil {
			t.callHook(hook, e)
		}
	}
	if o == OutcomeAcquired && t.hooks.Lost != nil {
		if lost := h.MarkReportable(); lost != nil {
			t.callHook(t.hooks.Lost, t.newEvent(context.Background(), name, h, lost))
		}
	}
}

var _ hold.Observer = (*telling)(nil)

// Lost implements hold.Observer. Another goroutine soon calls Hooks.Lost.
func (t *telling) Lost(h *hold.Hold, err error) {
	if t.hooks.Lost != nil {
		t.losses.Add(t.newEvent(context.Background(), h.Name(), h, err))
	}
}

// Released implements hold.Observer.
func (t *telling) Released(ctx context.Context, h *hold.Hold, err error) {
	if t.hooks.Released != nil {
		t.callHook(t.hooks.Released, t.newEvent(ctx, h.Name(), h, err))
	}
}
