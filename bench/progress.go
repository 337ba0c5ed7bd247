package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
)

// slowRow is how long a row takes before its phases are printed too, and how often
// they are printed then.
const slowRow = 10 * time.Second

// progress tells how far a run is. On a screen it draws one line at the end over
// and over. Elsewhere it prints one line for each row, and more if a row takes
// long. It has no clock of its own: it draws when the process of a row reports,
// which wakes up once a second anyway.
type progress struct {
	out    io.Writer // immutable
	screen *screen   // immutable; nil if out is no screen
	plan   run.Plan  // immutable

	todo  []int      // numbers of locks of the rows that have not begun
	all   int        // number of rows
	rows  int        // rows that have begun
	row   report.Row // the row that runs
	begun time.Time
	told  time.Time // when the last line was printed, without a screen

	spent           time.Duration // in rows that have ended
	needed, guessed time.Duration // what these rows took without holding their locks: measured, and by guess
}

func newProgress(out io.Writer, p run.Plan) *progress {
	s, _ := out.(*screen)
	return &progress{out: out, screen: s, plan: p}
}

// Start is called with the rows' numbers of locks, in the order in which they
// will run.
func (p *progress) Start(locks []int) { p.todo, p.all = locks, len(locks) }

// Begin is called before a row.
func (p *progress) Begin(r report.Row, now time.Time) {
	p.row, p.begun, p.told = r, now, now
	p.todo = p.todo[1:]
	p.rows++
	if p.screen == nil {
		fmt.Fprintf(p.out, "bench: %v\n", p.title())
		return
	}
	p.screen.draw(p.line("start", now))
}

// Step is called when the row's process reports.
func (p *progress) Step(phase string, done int, now time.Time) {
	what := phase
	switch {
	case phase == run.PhaseHold:
		what = fmt.Sprintf("hold %ds of %v", done, p.plan.Duration)
	case phase == run.PhaseWatch:
		what = fmt.Sprintf("watch %ds of %v", done, p.plan.Watch)
	case done > 0:
		what = fmt.Sprintf("%s %s of %s", phase, report.Count(done), report.Count(p.row.Locks))
	}
	if p.screen != nil {
		p.screen.draw(p.line(what, now))
		return
	}
	if now.Sub(p.begun) >= slowRow && now.Sub(p.told) >= slowRow {
		p.told = now
		fmt.Fprintf(p.out, "bench:   %v: %s\n", p.row, what)
	}
}

// End is called after a row.
func (p *progress) End(now time.Time) {
	took := now.Sub(p.begun)
	p.spent += took
	p.needed += max(took-p.waits(p.row.Locks), 0)
	p.guessed += guess(p.row.Locks)
	if p.screen != nil {
		p.screen.draw("")
	}
}

func (p *progress) title() string {
	if p.plan.Max {
		return fmt.Sprintf("try %d: %v", p.rows, p.row)
	}
	return fmt.Sprintf("row %d of %d: %v", p.all-len(p.todo), p.all, p.row)
}

const barWidth = 20

// line is one like
//
//	bench: row 3 of 10: sweep, 10,000 locks: hold 4s of 5s [######--------------] 42s left
func (p *progress) line(what string, now time.Time) string {
	done := p.spent + now.Sub(p.begun)
	left := p.left(now)
	full := barWidth
	if done+left > 0 {
		full = int(barWidth * done / (done + left))
	}
	return fmt.Sprintf("bench: %s: %s [%s%s] %v left", p.title(), what,
		strings.Repeat("#", full), strings.Repeat("-", barWidth-full), left.Round(time.Second))
}

// left returns how long the run will still take, if taking, checking and releasing
// locks goes on as fast as until now.
func (p *progress) left(now time.Time) time.Duration {
	slower := 1.0
	if p.guessed > 0 {
		slower = float64(p.needed) / float64(p.guessed)
	}
	row := func(locks int) time.Duration {
		return p.waits(locks) + time.Duration(slower*float64(guess(locks)))
	}
	left := max(row(p.row.Locks)-now.Sub(p.begun), 0)
	for _, locks := range p.todo {
		left += row(locks)
	}
	return left
}

// waits returns how long a row holds its locks.
func (p *progress) waits(locks int) time.Duration { return p.plan.Duration + p.plan.WatchOf(locks) }

// guess returns how long a row takes on a usual machine, without holding its locks.
func guess(locks int) time.Duration {
	return 500*time.Millisecond + time.Duration(locks)*40*time.Microsecond
}
