package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// notices prints what the client logs, one line each. It keeps the lines until open is
// called, because the error of a command that is not run already says why.
type notices struct {
	// immutable
	say   func(format string, args ...any)
	terse bool // no line before the first warning: an info line says that a fault has ended
	quiet bool // no line about the wait for another holder

	mu     sync.Mutex // guards the fields below
	opened bool
	warned bool
	kept   []string
}

var _ slog.Handler = (*notices)(nil)

func (n *notices) logger() *slog.Logger { return slog.New(n) }

// open prints the lines that were kept, and lets all later lines through.
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
	if n.quiet && strings.HasPrefix(line, "still waiting") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); text != "" {
			line += fmt.Sprintf(", %s: %s", a.Key, printable(text)) // any client of Redis may have written the text
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

func (n *notices) WithAttrs([]slog.Attr) slog.Handler { return n } // the client sets none

func (n *notices) WithGroup(string) slog.Handler { return n }
