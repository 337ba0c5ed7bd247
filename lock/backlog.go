package lock

import (
	"sync"

	"github.com/wheellock/wheellock/lock/internal/role"
)

// backlog does work that its callers must not wait for, one piece after the
// other, on a goroutine that it has while there is some.
type backlog[T any] struct {
	// immutable after init
	cast *role.Cast
	role string
	do   func(T)

	mu       sync.Mutex // guards what follows; never held while work is done
	queue    []T
	expected int // pieces that expect announced and that were not added yet
	running  bool
	idle     sync.Cond // on mu: running became false
}

func (b *backlog[T]) init(cast *role.Cast, role string, do func(T)) {
	b.cast, b.role, b.do = cast, role, do
	b.idle.L = &b.mu
}

// expect makes drain wait for a piece that addExpected brings soon.
func (b *backlog[T]) expect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected++
}

// add takes charge of x. It does not block.
func (b *backlog[T]) add(x T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(x)
}

// addExpected is add of what expect has announced.
func (b *backlog[T]) addExpected(x T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected--
	b.addLocked(x)
}

func (b *backlog[T]) addLocked(x T) {
	b.queue = append(b.queue, x)
	if !b.running {
		b.running = true
		go b.cast.As(b.role, b.run)()
	}
}

func (b *backlog[T]) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
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
}

// drain returns when all work so far is done, that which is expected too.
func (b *backlog[T]) drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running || b.expected > 0 {
		b.idle.Wait()
	}
}
