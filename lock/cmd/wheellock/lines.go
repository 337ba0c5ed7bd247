package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/work"
)

const (
	// maxLines is how many lines may wait until they are written.
	maxLines = 100
	// flushTimeout is how long this process waits in all until its lines are written.
	flushTimeout = 2 * time.Second
)

// lines writes lines to the standard error, on a goroutine of its own. A pager that waits, a log
// driver that blocks, or Ctrl-S may keep a write from returning for ever. Nothing else waits for
// it: no signal for the command, no renewal and no release. After init, all methods but flush are
// safe for concurrent use.
type lines struct {
	queue work.Backlog[string]
	spent time.Duration // in flush; used only by the goroutine of main

	mu      sync.Mutex // guards dropped, and keeps it in step with the queue
	dropped int        // since the last line that was queued
}

func (l *lines) init(to io.Writer) {
	l.queue.Init(nil, "write lines", func(text string) { _, _ = io.WriteString(to, text) })
}

// add queues a text that ends in a newline. If too many wait, it drops the text, and the next text
// says how many were dropped.
func (l *lines) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.queue.AddUpTo(maxLines, l.missingLocked()+text) {
		l.dropped++
		return
	}
	l.dropped = 0
}

// missingLocked returns a line that says how many texts were dropped, or "" if none were.
func (l *lines) missingLocked() string {
	if l.dropped == 0 {
		return ""
	}
	return fmt.Sprintf("wheellock: %d lines are missing here, because nobody read them\n", l.dropped)
}

// addMissing queues missingLocked, because no further text may come.
func (l *lines) addMissing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.missingLocked(); line != "" {
		l.queue.Add(line)
		l.dropped = 0
	}
}

// flush waits until all lines so far are written, for d at most. All calls together wait for
// flushTimeout at most.
func (l *lines) flush(d time.Duration) {
	began := time.Now()
	defer func() { l.spent += time.Since(began) }()
	written := make(chan struct{})
	go func() {
		l.queue.Drain()
		l.addMissing()
		l.queue.Drain()
		close(written)
	}()
	timer := time.NewTimer(min(d, flushTimeout-l.spent))
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
}

// say queues one line for the standard error. It does not block.
func (p *program) say(format string, args ...any) {
	line := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "; ")
	p.lines.add("wheellock: " + line + "\n")
}
