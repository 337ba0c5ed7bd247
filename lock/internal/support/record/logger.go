package record

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/work"
)

// queued is how many records may wait for a slow Handler.
const queued = 256

// Logger writes the records of one client, as often as the table allows. It has a goroutine while
// there is something to write, and no other goroutine calls the user's Handler. So a Handler that
// blocks delays nothing but later records. All methods are safe for concurrent use.
type Logger struct {
	out     *slog.Logger // immutable
	queue   work.Backlog[slog.Record]
	dropped atomic.Uint64

	mu      sync.Mutex // guards what follows; never held while a Handler runs
	written [records]rowState
}

// rowState is the state of one row of the table.
type rowState struct {
	total      uint64             // records that were queued
	periods    map[string]*period // by Row.counted; at most Values
	nextEnd    time.Time          // if there are Values periods, none ends before this time
	suppressed uint64             // records whose period is forgotten
}

// period counts the records since the first record of a period.
type period struct {
	began      time.Time
	records    int
	suppressed uint64 // records that were not queued; also those of an earlier period
}

// New returns a Logger that writes to l.
func New(l *slog.Logger) *Logger {
	logger := &Logger{out: l}
	logger.queue.Init(nil, "write the log", logger.write)
	return logger
}

// Log queues r with the values of its attributes, unless too many of r were written or the queue is
// full. It reports whether it has queued r. Log does not ask the Handler whether it wants r, because
// that may block, too. So a record that the Handler does not want counts as written.
func (l *Logger) Log(r Record, values ...any) bool {
	row, now := &table[r], time.Now()
	counted := row.counted(values)
	suppressed, ok := l.countAllowed(r, counted, now)
	if !ok {
		return false
	}
	var caller [1]uintptr
	runtime.Callers(2, caller[:])
	rec := slog.NewRecord(now, row.Level, row.Text, caller[0])
	for i, value := range values {
		rec.AddAttrs(slog.Any(row.Attrs[i], value))
	}
	if row.Advice != "" {
		rec.AddAttrs(slog.String("advice", row.Advice))
	}
	if suppressed > 0 {
		rec.AddAttrs(slog.Uint64(Suppressed, suppressed))
	}
	if !l.queue.AddUpTo(queued, rec) {
		l.undoAllowed(r, counted, suppressed)
		return false
	}
	return true
}

// undoAllowed undoes countAllowed for a record that the queue did not take. The next record of r that
// is written counts it as suppressed, unless r has a Row.After. Such records do not tell how many were
// suppressed.
func (l *Logger) undoAllowed(r Record, counted string, suppressed uint64) {
	l.dropped.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.written[r]
	w.total--
	w.suppressed += suppressed + 1
	if p := w.periods[counted]; p != nil && p.records > 0 {
		p.records--
	}
}

// WouldLog reports whether Log would queue r now. If it would not because of the bound, r counts as
// suppressed. WouldLog is for a record whose values cost something, and which has no Row.Each.
func (l *Logger) WouldLog(r Record) bool {
	row := &table[r]
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.written[r].periods[""]
	due := p == nil || p.records < row.Most || time.Since(p.began) >= row.Every
	if !due {
		p.suppressed++
	}
	return due
}

// write is called on the goroutine of the queue.
func (l *Logger) write(rec slog.Record) {
	ctx := context.Background()
	if h := l.out.Handler(); h.Enabled(ctx, rec.Level) {
		_ = h.Handle(ctx, rec) // there is no other place to report an error
	}
}

// Dropped returns how many records were dropped because the queue was full.
func (l *Logger) Dropped() uint64 { return l.dropped.Load() }

// Drain returns when all records so far are written.
func (l *Logger) Drain() { l.queue.Drain() }

// Busy reports whether there are records that are not written.
func (l *Logger) Busy() bool { return l.queue.Busy() }

// countAllowed reports whether r may be written, and counts it as written or suppressed. It returns
// how many were suppressed since the last one that was written.
func (l *Logger) countAllowed(r Record, counted string, now time.Time) (suppressed uint64, ok bool) {
	row := &table[r]
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.written[r]
	if row.After != 0 {
		ok = w.total < l.written[row.After].total
	} else if p := w.period(counted, row.Every, now); p == nil {
		w.suppressed++
	} else if ok = p.records < row.Most; ok {
		p.records++
		suppressed = p.suppressed + w.suppressed
		p.suppressed, w.suppressed = 0, 0
	} else {
		p.suppressed++
	}
	if ok {
		w.total++
	}
	return suppressed, ok
}

// period returns the current period of these counted values; nil if there are too many periods.
func (w *rowState) period(counted string, every time.Duration, now time.Time) *period {
	p := w.periods[counted]
	if p == nil {
		if len(w.periods) >= Values && !now.Before(w.nextEnd) {
			w.forget(every, now)
		}
		if len(w.periods) >= Values {
			return nil
		}
		if w.periods == nil {
			w.periods = make(map[string]*period)
		}
		p = &period{began: now}
		w.periods[counted] = p
	}
	if now.Sub(p.began) >= every {
		p.began, p.records = now, 0
	}
	return p
}

// forget drops the periods that have ended, and notes when the next one ends.
func (w *rowState) forget(every time.Duration, now time.Time) {
	w.nextEnd = now.Add(every)
	for counted, p := range w.periods {
		end := p.began.Add(every)
		if !end.After(now) {
			w.suppressed += p.suppressed
			delete(w.periods, counted)
		} else if end.Before(w.nextEnd) {
			w.nextEnd = end
		}
	}
}
