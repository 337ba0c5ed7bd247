package record

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// Logger writes the records of one client, as often as the table allows. All methods are safe for
// concurrent use.
type Logger struct {
	to *slog.Logger // immutable

	mu      sync.Mutex // guards what follows; never held while a Handler runs
	written [records]written
}

// written is what a Logger remembers of a Record.
type written struct {
	total      uint64             // records that were written
	periods    map[string]*period // by Row.counted; at most Values
	full       time.Time          // until then none of Values periods ends
	suppressed uint64             // records whose period is forgotten
}

// period is what happened since the first record of a period.
type period struct {
	began      time.Time
	records    int
	suppressed uint64 // records that were not written; also those of an earlier period
}

// New returns a Logger that writes to l.
func New(l *slog.Logger) *Logger { return &Logger{to: l} }

// Log writes r with the values of its attributes, unless too many of r were written. It reports
// whether it has written r. What the handler does not want is not written and not counted.
func (l *Logger) Log(r Record, values ...any) bool {
	ctx, row := context.Background(), &table[r]
	if !l.to.Enabled(ctx, row.Level) {
		return false
	}
	now := time.Now()
	suppressed, ok := l.allow(r, row.counted(values), now)
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
	_ = l.to.Handler().Handle(ctx, rec) // nobody could be told
	return true
}

// WouldLog reports whether Log would write r now. If it would not because of the bound, r counts as
// suppressed. WouldLog is for a record whose values cost something, and which has no Row.Each.
func (l *Logger) WouldLog(r Record) bool {
	row := &table[r]
	if !l.to.Enabled(context.Background(), row.Level) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.written[r].periods[""]
	due := p == nil || p.records < row.Most || time.Since(p.began) >= row.Every
	if !due {
		p.suppressed++
	}
	return due
}

// allow reports whether r may be written, and how many were suppressed before.
func (l *Logger) allow(r Record, counted string, now time.Time) (suppressed uint64, ok bool) {
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

// period returns the period of what is counted by itself; nil if there are too many.
func (w *written) period(counted string, every time.Duration, now time.Time) *period {
	p := w.periods[counted]
	if p == nil {
		if len(w.periods) >= Values && !now.Before(w.full) {
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
func (w *written) forget(every time.Duration, now time.Time) {
	w.full = now.Add(every)
	for counted, p := range w.periods {
		end := p.began.Add(every)
		if !end.After(now) {
			w.suppressed += p.suppressed
			delete(w.periods, counted)
		} else if end.Before(w.full) {
			w.full = end
		}
	}
}
