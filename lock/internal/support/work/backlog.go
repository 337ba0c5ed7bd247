package work

import "sync"

// Backlog does work that its callers must not wait for, one piece after the other. It has a
// goroutine while there is work. All methods are safe for concurrent use, after Init.
type Backlog[T any] struct {
	// immutable after Init
	labeler *Labeler
	role    string
	do      func(T)

	mu       sync.Mutex // guards the fields below; never held while work is done
	queue    []T
	expected int // pieces that Expect announced and that were not added yet
	running  bool
	idle     sync.Cond // on mu: running became false
}

// Init makes b call do for each piece of work, on a goroutine of that role.
func (b *Backlog[T]) Init(labeler *Labeler, role string, do func(T)) {
	b.labeler, b.role, b.do = labeler, role, do
	b.idle.L = &b.mu
}

// Expect makes Drain wait for a piece that AddExpected adds soon.
func (b *Backlog[T]) Expect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected++
}

// Add adds the piece of work x. It does not block.
func (b *Backlog[T]) Add(x T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(x)
}

// AddExpected is Add of a piece that Expect has announced.
func (b *Backlog[T]) AddExpected(x T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected--
	b.addLocked(x)
}

// AddUpTo is Add with a limit: it adds x only if fewer than most pieces wait in the queue. It
// reports whether it has added x. Pieces that the goroutine has taken out of the queue do not
// count; they are at most as many again.
func (b *Backlog[T]) AddUpTo(most int, x T) (added bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) >= most {
		return false
	}
	b.addLocked(x)
	return true
}

func (b *Backlog[T]) addLocked(x T) {
	b.queue = append(b.queue, x)
	if !b.running {
		b.running = true
		go b.labeler.Label(b.role, b.run)()
	}
}

// run does the work. It defers no Unlock, so that a panic of do shows as it is.
func (b *Backlog[T]) run() {
	b.mu.Lock()
	for len(b.queue) > 0 {
		queue := b.queue
		b.queue = nil
		b.mu.Unlock()
		for _, x := range queue {
			b.do(x)
		}
		b.mu.Lock()
	}
	b.running = false
	b.idle.Broadcast()
	b.mu.Unlock()
}

// Drain returns when all work so far is done, including the expected pieces.
func (b *Backlog[T]) Drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running || b.expected > 0 {
		b.idle.Wait()
	}
}

// Busy reports whether the goroutine runs.
func (b *Backlog[T]) Busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running
}

// Freeze keeps work that is added from starting until thaw is called. Call it while the Backlog is idle. It is
// for tests.
func (b *Backlog[T]) Freeze() (thaw func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = true
	return func() { go b.run() }
}
