package lockotel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockotel"
	"github.com/wheellock/wheellock/lock/locktest"
)

// telemetry is an SDK whose spans and metrics are read by the test.
type telemetry struct {
	spans  *tracetest.SpanRecorder
	traces *trace.TracerProvider
	reader *sdkmetric.ManualReader
	cfg    lockotel.Config
}

func newTelemetry() *telemetry {
	o := &telemetry{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	o.traces = trace.NewTracerProvider(trace.WithSpanProcessor(o.spans))
	o.cfg = lockotel.Config{TracerProvider: o.traces, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader))}
	return o
}

// hooks returns the hooks of package lockotel.
func (o *telemetry) hooks(t *testing.T) lock.Hooks {
	t.Helper()
	h, err := lockotel.Hooks(o.cfg)
	require.NoError(t, err)
	return h
}

// metrics reads the metrics and returns them by name.
func (o *telemetry) metrics(t *testing.T) map[string]metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(context.Background(), &all))
	byName := map[string]metricdata.Aggregation{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m.Data
		}
	}
	return byName
}

// seconds returns the histogram with this name, for one outcome if outcome is not "".
func (o *telemetry) seconds(t *testing.T, name, outcome string) metricdata.HistogramDataPoint[float64] {
	t.Helper()
	h, ok := o.metrics(t)[name].(metricdata.Histogram[float64])
	require.True(t, ok, "%s is no histogram", name)
	i := slices.IndexFunc(h.DataPoints, func(p metricdata.HistogramDataPoint[float64]) bool {
		v, _ := p.Attributes.Value("wheellock.outcome")
		return v.AsString() == outcome
	})
	require.GreaterOrEqual(t, i, 0, "%s %s", name, outcome)
	return h.DataPoints[i]
}

func valueOf(t *testing.T, s trace.ReadOnlySpan, key attribute.Key) attribute.Value {
	t.Helper()
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value
		}
	}
	require.Fail(t, "no attribute", "%s", key)
	return attribute.Value{}
}

func eventsOf(s trace.ReadOnlySpan) (names []string) {
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

func TestAHoldIsASpanFromTheCallToUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, srv := newTelemetry(), locktest.NewServer(t)
		c := srv.Client(lock.Config{Hooks: o.hooks(t)})
		first, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		go func() {
			time.Sleep(3 * time.Second)
			if err := first.Unlock(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		ctx, caller := o.traces.Tracer("test").Start(t.Context(), "caller")
		began := time.Now()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		again, err := c.Mutex("m").Lock(held.Context(ctx)) // no span
		require.NoError(t, err)
		require.NoError(t, again.Unlock(ctx))
		time.Sleep(5 * time.Second)
		require.Len(t, o.spans.Ended(), 1, "the first one's")
		require.NoError(t, held.Unlock(ctx))
		caller.End()

		spans := o.spans.Ended()
		require.Len(t, spans, 3)
		s := spans[1]
		require.Equal(t, "wheellock.lock", s.Name())
		require.Equal(t, caller.SpanContext().SpanID(), s.Parent().SpanID())
		require.Equal(t, caller.SpanContext().TraceID(), s.SpanContext().TraceID())
		require.Equal(t, began, s.StartTime())
		require.Equal(t, 8*time.Second, s.EndTime().Sub(began))
		require.Equal(t, []string{"acquired", "released"}, eventsOf(s))
		require.Equal(t, 3*time.Second, s.Events()[0].Time.Sub(began))
		require.Equal(t, codes.Unset, s.Status().Code)
		require.Equal(t, "m", valueOf(t, s, "wheellock.lock.name").AsString())
		require.Equal(t, held.Token(), valueOf(t, s, "wheellock.lock.token").AsInt64())
		require.Equal(t, c.ID(), valueOf(t, s, "wheellock.client.id").AsString())
		require.Equal(t, "acquired", valueOf(t, s, "wheellock.outcome").AsString())
		require.InDelta(t, 3, valueOf(t, s, "wheellock.wait").AsFloat64(), 1e-9)
		require.False(t, spans[0].Parent().IsValid(), "its caller had no span")

		took := o.seconds(t, "wheellock.acquire.duration", "acquired")
		require.EqualValues(t, 2, took.Count)
		require.InDelta(t, 3, took.Sum, 1e-9)
		lasted := o.seconds(t, "wheellock.hold.duration", "")
		require.EqualValues(t, 2, lasted.Count)
		require.InDelta(t, 3+5, lasted.Sum, 1e-9)
	})
}

func TestACallThatFailsIsASpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, srv := newTelemetry(), locktest.NewServer(t)
		c := srv.Client(lock.Config{Hooks: o.hooks(t)})
		held, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, late := c.Mutex("m").Lock(soon)
		cancel()
		srv.Pause()
		_, unknown := c.Mutex("other").TryLock(t.Context())
		require.True(t, errors.Is(unknown, lock.ErrUnknown) || errors.Is(unknown, lock.ErrNotSent), unknown)
		srv.Resume()
		require.NoError(t, held.Unlock(t.Context()))

		spans := o.spans.Ended()
		require.Len(t, spans, 4)
		for i, want := range []struct {
			outcome string
			err     error
		}{{"refused", nil}, {"ended", late}, {"unknown", unknown}} {
			s := spans[i]
			require.Equal(t, want.outcome, valueOf(t, s, "wheellock.outcome").AsString())
			if want.err == nil {
				require.Equal(t, codes.Unset, s.Status().Code, "to be refused is no error")
				require.Empty(t, s.Events())
				continue
			}
			require.Equal(t, trace.Status{Code: codes.Error, Description: want.err.Error()}, s.Status())
			require.Equal(t, []string{"exception"}, eventsOf(s))
		}
		require.Equal(t, 2*time.Second, spans[1].EndTime().Sub(spans[1].StartTime()))
		require.EqualValues(t, 1, o.seconds(t, "wheellock.acquire.duration", "refused").Count)
	})
}

func TestALostHoldEndsItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, srv := newTelemetry(), locktest.NewServer(t)
		c := srv.Client(lock.Config{Hooks: o.hooks(t)})
		held, err := c.RWMutex("m").Reader().LockFor(t.Context(), time.Second)
		require.NoError(t, err)
		<-held.Done()
		synctest.Wait()
		require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
		spans := o.spans.Ended()
		require.Len(t, spans, 1)
		s := spans[0]
		require.Equal(t, []string{"acquired", "lost"}, eventsOf(s))
		require.Equal(t, []attribute.KeyValue{attribute.String("wheellock.reason", "expired")}, s.Events()[1].Attributes)
		require.Equal(t, codes.Error, s.Status().Code)
		require.EqualValues(t, 1, o.seconds(t, "wheellock.hold.duration", "").Count)
	})
}

// TestAnUnlockThatIsNotAnsweredEndsTheSpan: the span does not stay in memory, and later
// events do not change it.
func TestAnUnlockThatIsNotAnsweredEndsTheSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, srv := newTelemetry(), locktest.NewServer(t)
		c := srv.Client(lock.Config{Hooks: o.hooks(t)})
		held, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		srv.Pause()
		unknown := held.Unlock(t.Context())
		require.ErrorIs(t, unknown, lock.ErrUnknown)
		srv.Resume()
		require.NoError(t, held.Unlock(t.Context()))
		require.Len(t, o.spans.Started(), 1)
		spans := o.spans.Ended()
		require.Len(t, spans, 1)
		require.Equal(t, []string{"acquired", "exception"}, eventsOf(spans[0]))
		require.Equal(t, unknown.Error(), spans[0].Status().Description)
		require.EqualValues(t, 1, o.seconds(t, "wheellock.hold.duration", "").Count)
	})
}

// TestHooksMayBeThoseOfSeveralClients: the members of a RedLock share hooks, have one name, and have
// no tokens.
func TestHooksMayBeThoseOfSeveralClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTelemetry()
		cfg := lock.Config{Hooks: o.hooks(t)}
		var members []*lock.Mutex
		for range 3 {
			members = append(members, locktest.NewServer(t).Client(cfg).RWMutex("m").Writer())
		}
		red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		ctx, caller := o.traces.Tracer("test").Start(t.Context(), "caller")
		held, err := red.Lock(ctx)
		require.NoError(t, err)
		require.Empty(t, o.spans.Ended())
		require.NoError(t, held.Unlock(ctx))
		spans := o.spans.Ended()
		require.Len(t, spans, 3)
		clients := map[string]bool{}
		for _, s := range spans {
			require.Equal(t, []string{"acquired", "released"}, eventsOf(s))
			require.Equal(t, caller.SpanContext().SpanID(), s.Parent().SpanID())
			clients[valueOf(t, s, "wheellock.client.id").AsString()] = true
		}
		require.Len(t, clients, 3)
	})
}

func TestLatenessOfRenewalIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTelemetry()
		c := locktest.NewServer(t).Client(lock.Config{Hooks: o.hooks(t)})
		held, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.NoError(t, held.Unlock(t.Context()))
		late := o.seconds(t, "wheellock.renewal.lateness", "")
		require.Equal(t, c.Stats().Renewal.Batches, late.Count)
		require.GreaterOrEqual(t, late.Count, uint64(29))
	})
}

// brokenMeters cannot make an instrument.
type brokenMeters struct{ noop.MeterProvider }

type brokenMeter struct{ noop.Meter }

var errBroken = errors.New("broken")

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

func (brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errBroken
}

func (brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errBroken
}

func TestErrorsOfTheMeterAreReturned(t *testing.T) {
	cfg := lockotel.Config{MeterProvider: brokenMeters{}}
	_, err := lockotel.Hooks(cfg)
	require.ErrorIs(t, err, errBroken)
	_, err = lockotel.Count(locktest.NewServer(t).Client(lock.Config{}), cfg)
	require.ErrorIs(t, err, errBroken)
}

// TestTextThatIsNotUTF8IsMadeSo: OTLP drops the whole batch for one such text, and with it
// the service's own spans.
func TestTextThatIsNotUTF8IsMadeSo(t *testing.T) {
	o := newTelemetry()
	h, ctx := o.hooks(t), context.Background()
	const name, want = "order:\xff:7", "order:\ufffd:7"
	bad := errors.New("ERR no such key: " + name)
	h.Failed(lock.Event{Context: ctx, Name: name, Outcome: lock.OutcomeUnknown, Err: bad})
	for hold, end := range []func(lock.Event){
		h.Lost,
		h.Released,
		func(e lock.Event) { e.Err = nil; h.Released(e) },
	} {
		e := lock.Event{Context: ctx, Name: name, Hold: uint64(hold), Err: bad}
		h.Acquired(e)
		end(e)
	}
	spans := o.spans.Ended()
	require.Len(t, spans, 4)
	for _, s := range spans {
		require.Equal(t, want, valueOf(t, s, "wheellock.lock.name").AsString())
		texts := []string{s.Name(), s.Status().Description}
		for _, e := range s.Events() {
			texts = append(texts, e.Name)
			for _, a := range e.Attributes {
				texts = append(texts, a.Value.String())
			}
		}
		for _, text := range texts {
			require.True(t, utf8.ValidString(text), "%q", text)
		}
	}
	require.Contains(t, spans[0].Status().Description, want)
}
