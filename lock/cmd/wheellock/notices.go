package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// notices are what the client logs, one line each. What comes before open waits for
// it, because a command that is not run says why by itself.
type notices struct {
	// immutable
	say   func(format string, args ...any)
	terse bool // no line before the first warning: only the end of what went wrong is told

	mu     sync.Mutex // guards what follows
	opened bool
	warned bool
	kept   []string
}

var _ slog.Handler = (*notices)(nil)

func (n *notices) logger() *slog.Logger { return slog.New(n) }

// open lets all through from now on.
func (n *notices) open() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened = true
	for _, line := range n.kept {
		n.say("%s", line)
	}
	n.kept = nil
}

func (n *notices) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (n *notices) Handle(_ context.Context, r slog.Record) error {
	line := strings.TrimPrefix(r.Message, "lock: ")
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); text != "" {
			line += fmt.Sprintf(", %s: %s", a.Key, text)
		}
		return true
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.warned = n.warned || r.Level >= slog.LevelWarn
	if n.terse && !n.warned {
		return nil
	}
	if n.opened {
		n.say("%s", line)
	} else {
		n.kept = append(n.kept, line)
	}
	return nil
}

func (n *notices) WithAttrs([]slog.Attr) slog.Handler { return n } // the client has none

func (n *notices) WithGroup(string) slog.Handler { return n }
