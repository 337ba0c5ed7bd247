package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
)

// What the parent says to a process, a line each. The end of the lines ends the work.
const (
	sayRest = "rest %d" // give back what others want, and say so; the number is the round's
	sayGo   = "go"      // on
)

// breaks lets the turns of a process rest.
type breaks struct {
	mu    sync.Mutex    // guards what follows
	cond  sync.Cond     // on mu: turns is less
	turns int           // under way
	begun chan struct{} // closed when a rest begins
	over  chan struct{} // closed when it is over; nil: there is none
}

func newBreaks() *breaks {
	b := &breaks{begun: make(chan struct{})}
	b.cond.L = &b.mu
	return b
}

// turn waits for the end of a rest, and counts a turn that begins. The turn ends as
// soon as it can when rest is closed. ok is false if ctx ended before.
func (b *breaks) turn(ctx context.Context) (rest <-chan struct{}, ok bool) {
	for ctx.Err() == nil {
		b.mu.Lock()
		over := b.over
		if over == nil {
			b.turns++
			defer b.mu.Unlock()
			return b.begun, true
		}
		b.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
	return nil, false
}

func (b *breaks) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns--
	b.cond.Broadcast()
}

// rest returns when no turn is under way; none begins until resume.
func (b *breaks) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over == nil {
		b.over = make(chan struct{})
		close(b.begun)
	}
	for b.turns > 0 {
		b.cond.Wait()
	}
}

func (b *breaks) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over != nil {
		close(b.over)
		b.over, b.begun = nil, make(chan struct{})
	}
}

// obey does what the parent says, after the locker was made, until it says no more.
func (w *worker) obey(ctx context.Context, r io.Reader, made <-chan struct{}) {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		<-made
		var round int
		if n, _ := fmt.Sscanf(line, sayRest, &round); n == 1 {
			w.breaks.rest()
			w.rec.write(event{Op: opQuiet, Quiet: w.quiet(ctx, round)})
			continue
		}
		w.breaks.resume()
	}
}

// quiet is what this process counts when it holds only what it holds all the time.
// What it loses or takes again meanwhile may be counted on one side alone for a moment.
func (w *worker) quiet(ctx context.Context, round int) *Quiet {
	q := &Quiet{Round: round}
	eventually(ctx, patience/4, func() bool {
		q.Own = w.crowd.holds()
		s, ok := w.locker.numbers()
		q.Counts, q.Held, q.Waiting = ok, s.Held, s.Waiting
		return !ok || q.Held == q.Own && q.Waiting == 0
	})
	return q
}
