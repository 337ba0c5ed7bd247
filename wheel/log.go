package wheel

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"sync"
	"time"
)

// A wheel logs two kinds of record. Of each kind it logs at most maxRecords in a recordPeriod, which begins with a record.
const (
	maxRecords   = 5
	recordPeriod = time.Minute
)

// limitedLog logs one kind of record by slog.Default, and counts what it leaves out. It has a goroutine
// while there is something to log, because a Handler that blocks must not block the driver.
type limitedLog struct {
	level slog.Level

	mu         sync.Mutex // guards what follows; never held while a Handler runs
	began      time.Time
	logged     int
	suppressed int           // since the last record that was logged
	queue      []slog.Record // at most maxRecords
	running    bool          // the goroutine
}

func (r *limitedLog) log(text string, attrs ...any) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logged == 0 || now.Sub(r.began) >= recordPeriod {
		r.began, r.logged = now, 0
	}
	if r.logged == maxRecords || len(r.queue) == maxRecords {
		r.suppressed++
		return
	}
	r.logged++
	rec := slog.NewRecord(now, r.level, text, 0)
	rec.Add(attrs...)
	if r.suppressed > 0 {
		rec.Add("suppressed", r.suppressed)
		r.suppressed = 0
	}
	r.queue = append(r.queue, rec)
	if !r.running {
		r.running = true
		go r.write()
	}
}

// write is the goroutine. A wheel does not wait for it. It defers no Unlock, so that a panic of the
// Handler shows as it is.
func (r *limitedLog) write() {
	pprof.SetGoroutineLabels(context.Background()) // instead of those of the callback
	r.mu.Lock()
	for len(r.queue) > 0 {
		rec := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		if h := slog.Default().Handler(); h.Enabled(context.Background(), rec.Level) {
			_ = h.Handle(context.Background(), rec) // nobody could be told
		}
		r.mu.Lock()
	}
	r.running = false
	r.mu.Unlock()
}

// logErrors returns the default of Config.OnError.
func logErrors() func(*CallbackError) {
	r := &limitedLog{level: slog.LevelError}
	return func(err *CallbackError) {
		r.log("wheel: a callback failed", "error", err.Error(), "stack", string(err.Stack))
	}
}

// logSlow returns the default of Config.OnSlow.
func logSlow() func(*Timer, time.Duration) {
	r := &limitedLog{level: slog.LevelWarn}
	return func(t *Timer, took time.Duration) {
		r.log("wheel: a callback was slow", "task", nameOf(t), "took", took)
	}
}
