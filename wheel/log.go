package wheel

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Of each of its two records a wheel logs at most mostRecords in recordsEach, counted from the first.
const (
	mostRecords = 5
	recordsEach = time.Minute
)

// records logs one kind of record by slog.Default, and counts what it leaves out.
type records struct {
	level slog.Level

	mu         sync.Mutex // guards what follows; never held while a Handler runs
	began      time.Time
	logged     int
	suppressed int // since the last record that was logged
}

func (r *records) log(text string, attrs ...any) {
	now := time.Now()
	r.mu.Lock()
	if r.logged == 0 || now.Sub(r.began) >= recordsEach {
		r.began, r.logged = now, 0
	}
	if r.logged == mostRecords {
		r.suppressed++
		r.mu.Unlock()
		return
	}
	r.logged++
	suppressed := r.suppressed
	r.suppressed = 0
	r.mu.Unlock()
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	slog.Log(context.Background(), r.level, text, attrs...)
}

// logErrors returns the default of Config.OnError.
func logErrors() func(*CallbackError) {
	r := &records{level: slog.LevelError}
	return func(err *CallbackError) { r.log("wheel: a callback failed", "error", err, "stack", string(err.Stack)) }
}

// logSlow returns the default of Config.OnSlow.
func logSlow() func(*Timer, time.Duration) {
	r := &records{level: slog.LevelWarn}
	return func(t *Timer, took time.Duration) {
		r.log("wheel: a callback was slow", "task", nameOf(t), "took", took)
	}
}
