package lockotel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// Hooks returns the lock.Hooks that make the spans and the histograms. Several clients may
// share them. An error comes from the MeterProvider.
func Hooks(cfg Config) (lock.Hooks, error) {
	cfg = cfg.withDefaults()
	m := meter{Meter: cfg.MeterProvider.Meter(scope)}
	w := &watcher{
		tracer:  cfg.TracerProvider.Tracer(scope),
		acquire: m.seconds("wheellock.acquire.duration", "How long calls that take a lock took."),
		hold:    m.seconds("wheellock.hold.duration", "How long locks were held."),
		late:    m.seconds("wheellock.renewal.lateness", "Time from when a batch's first renewal was due to its answers."),
	}
	if m.err != nil {
		return lock.Hooks{}, fmt.Errorf("lockotel: %w", m.err)
	}
	return lock.Hooks{Acquired: w.acquired, Failed: w.failed, Released: w.released, Lost: w.lost, Renewed: w.renewed}, nil
}

// seconds makes a histogram whose bounds suit a round trip as well as a wait.
func (m *meter) seconds(name, what string) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600))
	m.note(err)
	return h
}

// watcher is the state that the hooks share.
type watcher struct {
	// immutable
	tracer              trace.Tracer
	acquire, hold, late metric.Float64Histogram

	holds sync.Map // from hold to *held, until an event says that the hold has ended
}

// hold identifies the hold of an event.
type hold struct {
	client string
	number uint64
}

// held is a hold whose Acquired event has come.
type held struct {
	span  trace.Span
	since time.Time
}

// begin makes the span of a call that ends now. The span begins with the call.
func (w *watcher) begin(e lock.Event, now time.Time) trace.Span {
	attributes := []attribute.KeyValue{
		nameKey.String(valid(e.Name)), clientKey.String(e.Client), outcomeKey.String(e.Outcome.String()), waitKey.Float64(e.Waited.Seconds()),
	}
	if e.Token != 0 {
		attributes = append(attributes, tokenKey.Int64(e.Token))
	}
	_, span := w.tracer.Start(e.Context, "wheellock.lock", trace.WithTimestamp(now.Add(-e.Waited)), trace.WithAttributes(attributes...))
	w.acquire.Record(e.Context, e.Waited.Seconds(), metric.WithAttributes(outcomeKey.String(e.Outcome.String())))
	return span
}

func (w *watcher) acquired(e lock.Event) {
	now := time.Now()
	span := w.begin(e, now)
	span.AddEvent("acquired", trace.WithTimestamp(now))
	w.holds.Store(hold{e.Client, e.Hold}, &held{span, now})
}

func (w *watcher) failed(e lock.Event) {
	now := time.Now()
	span := w.begin(e, now)
	if e.Outcome != lock.OutcomeRefused {
		fail(span, e.Err, now)
	}
	span.End(trace.WithTimestamp(now))
}

func (w *watcher) released(e lock.Event) {
	w.end(e, func(span trace.Span, now time.Time) {
		if e.Err != nil {
			fail(span, e.Err, now)
			return
		}
		span.AddEvent("released", trace.WithTimestamp(now))
	})
}

func (w *watcher) lost(e lock.Event) {
	w.end(e, func(span trace.Span, now time.Time) {
		var cause *lock.LostError
		if errors.As(e.Err, &cause) {
			span.AddEvent("lost", trace.WithTimestamp(now), trace.WithAttributes(reasonKey.String(reasons[cause.Reason])))
		}
		span.SetStatus(codes.Error, valid(e.Err.Error()))
	})
}

// end ends the span of e's hold, after say has recorded how the hold ended. It does nothing if the span has
// already ended, as after an Unlock that was not answered.
func (w *watcher) end(e lock.Event, say func(span trace.Span, now time.Time)) {
	x, ok := w.holds.LoadAndDelete(hold{e.Client, e.Hold})
	if !ok {
		return
	}
	h, now := x.(*held), time.Now()
	w.hold.Record(trace.ContextWithSpan(e.Context, h.span), now.Sub(h.since).Seconds())
	say(h.span, now)
	h.span.End(trace.WithTimestamp(now))
}

func (w *watcher) renewed(r renewal.BatchReport) {
	if r.Renewed > 0 {
		w.late.Record(context.Background(), (r.Lag + r.Took).Seconds())
	}
}

func fail(span trace.Span, err error, now time.Time) {
	text := valid(err.Error())
	if text != err.Error() {
		err = errors.New(text)
	}
	span.RecordError(err, trace.WithTimestamp(now))
	span.SetStatus(codes.Error, text)
}

// valid makes a text valid UTF-8. The names of locks and the errors of Redis may be other bytes,
// and OTLP would drop the whole batch of such a span.
func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
