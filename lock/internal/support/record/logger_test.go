package record_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/record"
)

// handler keeps the records that it gets.
type handler struct {
	slog.Handler
	mu   sync.Mutex // guards list
	list []slog.Record
}

func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, r)
	return nil
}

// taken waits until l has written all records, and returns those since the last call.
func (h *handler) taken(l *record.Logger) []slog.Record {
	l.Drain()
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.list
	h.list = nil
	return list
}

func attrs(r slog.Record) map[string]any {
	m := map[string]any{}
	r.Attrs(func(a slog.Attr) bool {
		m[a.Key] = a.Value.Any()
		return true
	})
	return m
}

// values returns values for the attributes of r. They are the same for the same text.
func values(r record.Record, text string) []any {
	var list []any
	for _, name := range r.Row().Attrs {
		list = append(list, name+text)
	}
	return list
}

// bubble runs f for every record that has a bound of its own.
func bubble(t *testing.T, f func(t *testing.T, r record.Record, row record.Row, h *handler, l *record.Logger)) {
	for _, r := range record.All() {
		if row := r.Row(); row.After == 0 {
			synctest.Test(t, func(t *testing.T) {
				h := &handler{}
				f(t, r, row, h, record.New(slog.New(h)))
			})
		}
	}
}

// TestNoRecordComesMoreOftenThanTheTableSays, whatever causes it and however often.
func TestNoRecordComesMoreOftenThanTheTableSays(t *testing.T) {
	for _, causes := range []int{1_000, 10_000} {
		bubble(t, func(t *testing.T, r record.Record, row record.Row, h *handler, l *record.Logger) {
			for range 3 {
				began := time.Now()
				for range causes {
					l.Log(r, values(r, "")...)
				}
				require.Len(t, h.taken(l), row.Most, row.Text)
				time.Sleep(row.Every - time.Since(began) - time.Nanosecond)
				require.False(t, l.Log(r, values(r, "")...), row.Text)
				time.Sleep(time.Nanosecond)
			}
			require.True(t, l.Log(r, values(r, "")...))
			require.EqualValues(t, causes+1-row.Most, attrs(h.taken(l)[0])[record.Suppressed], row.Text)
			require.True(t, row.Most == 1 || l.Log(r, values(r, "")...))
			for _, next := range h.taken(l) {
				require.NotContains(t, attrs(next), record.Suppressed, "they are counted once")
			}
		})
	}
}

func TestManyLocksOrServersMakeFewRecordsAndCostLittleMemory(t *testing.T) {
	causes := 10_000
	if testing.Short() {
		causes = 1_000
	}
	bubble(t, func(t *testing.T, r record.Record, row record.Row, h *handler, l *record.Logger) {
		most := row.Most
		if len(row.Each) > 0 {
			most *= record.Values
		}
		for period := range 2 {
			for i := range causes {
				for range 2 * row.Most {
					l.Log(r, values(r, fmt.Sprint(period, i))...)
				}
				if i%20 == 0 { // before the queue is full
					l.Drain()
				}
			}
			require.Len(t, h.taken(l), most, row.Text)
			require.LessOrEqual(t, record.Remembered(l, r), record.Values)
			time.Sleep(row.Every)
		}
		// Records that were not written still count, even if their periods are forgotten.
		require.True(t, l.Log(r, values(r, "last")...))
		require.EqualValues(t, 2*causes*row.Most-most, attrs(h.taken(l)[0])[record.Suppressed], row.Text)
	})
}

// TestGoodNewsComesOnlyAfterBadNews, and once.
func TestGoodNewsComesOnlyAfterBadNews(t *testing.T) {
	for _, r := range record.All() {
		row := r.Row()
		if row.After == 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			h := &handler{}
			l := record.New(slog.New(h))
			for range 3 {
				require.False(t, l.Log(r, values(r, "")...), row.Text)
				require.True(t, l.Log(row.After, values(row.After, "")...))
				require.True(t, l.Log(r, values(r, "")...), row.Text)
				require.False(t, l.Log(r, values(r, "")...), row.Text)
				time.Sleep(row.After.Row().Every)
			}
			require.Len(t, h.taken(l), 6)
		})
	}
}

func TestEachServerHasABoundOfItsOwn(t *testing.T) {
	h := &handler{}
	l := record.New(slog.New(h))
	for range 2 {
		for _, server := range []string{"a", "b"} {
			l.Log(record.TimeRefused, server, fmt.Errorf("no"))
		}
	}
	require.Len(t, h.taken(l), 2)
}

func TestWhatIsNotDueIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{}
		l := record.New(slog.New(h))
		r := record.WaitsForOther
		require.True(t, l.WouldLog(r))
		require.True(t, l.WouldLog(r), "it was not written")
		require.True(t, l.Log(r, values(r, "")...))
		require.False(t, l.WouldLog(r))
		require.False(t, l.WouldLog(r))
		time.Sleep(r.Row().Every)
		require.True(t, l.WouldLog(r))
		require.True(t, l.Log(r, values(r, "")...))
		require.EqualValues(t, 2, attrs(h.taken(l)[1])[record.Suppressed])
	})
}

// TestARecordSaysWhatTheTableSays, and where in the source it comes from.
func TestARecordSaysWhatTheTableSays(t *testing.T) {
	var out bytes.Buffer
	l := record.New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{AddSource: true})).With("app", "x"))
	l.Log(record.PublishRefused, "here", "NOPERM")
	l.Drain()
	require.Regexp(t, `source=\S+logger_test.go:\d+ msg="`+record.PublishRefused.Row().Text+`" app=x server=here error=NOPERM advice="`+
		record.PublishRefused.Row().Advice+`"\n$`, out.String())
}

// TestWhatTheHandlerDoesNotWantIsNotWritten, and counts as written.
func TestWhatTheHandlerDoesNotWantIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var level slog.LevelVar
		level.Set(slog.LevelError)
		l := record.New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: &level})))
		row := record.HeldDropped.Row()
		for range row.Most {
			require.True(t, l.Log(record.HeldDropped, "m"))
		}
		l.Drain()
		require.Empty(t, out.String())
		level.Set(slog.LevelInfo)
		require.False(t, l.Log(record.HeldDropped, "m"))
		time.Sleep(row.Every)
		require.True(t, l.Log(record.HeldDropped, "m"))
		l.Drain()
		require.Contains(t, out.String(), record.Suppressed+"=1")
	})
}

// blocking is a handler that keeps a record only when it gets a token.
type blocking struct {
	handler
	tokens chan struct{}
}

func (h *blocking) Handle(ctx context.Context, r slog.Record) error {
	<-h.tokens
	return h.handler.Handle(ctx, r)
}

// TestAHandlerThatBlocksCostsBoundedMemory, and the next record says how many it has cost. The
// records that it gets are in order.
func TestAHandlerThatBlocksCostsBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &blocking{tokens: make(chan struct{})}
		l := record.New(slog.New(h))
		r := record.NoConnection
		logged, queued := 0, 0
		for minute := range 200 { // far more than the queue holds, of few servers each minute
			for i := range 50 {
				if logged++; l.Log(r, fmt.Sprint("server", i), fmt.Errorf("minute %d", minute)) {
					queued++
				}
			}
			synctest.Wait()
			time.Sleep(r.Row().Every)
		}
		require.True(t, l.Busy())
		require.Less(t, queued, 2*record.Queued+2)
		require.EqualValues(t, logged-queued, l.Dropped())
		require.False(t, l.Log(record.TimeRefused, "a", "no"))
		require.False(t, l.Log(record.PubSubFailed, "a", "no"))
		close(h.tokens)
		list := h.taken(l)
		require.Len(t, list, queued)
		require.True(t, slices.IsSortedFunc(list, func(a, b slog.Record) int { return a.Time.Compare(b.Time) }))
		require.True(t, l.Log(r, "another", "error"))
		require.EqualValues(t, logged-queued, attrs(h.taken(l)[0])[record.Suppressed])
		require.False(t, l.Busy())
		require.True(t, l.Log(record.TimeRefused, "a", "no"), "the one that was dropped is not the one of this day")
		require.False(t, l.Log(record.PubSubWorks, "a"), "there was no bad news")
	})
}

func TestALoggerOfManyGoroutinesKeepsTheBound(t *testing.T) {
	h := &handler{}
	l := record.New(slog.New(h))
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 1_000 {
				l.Log(record.HeldDropped, strings.Repeat("m", 3))
				l.Log(record.TimeRefused, "here", "no")
			}
		})
	}
	callers.Wait()
	require.Len(t, h.taken(l), record.HeldDropped.Row().Most+record.TimeRefused.Row().Most)
}
