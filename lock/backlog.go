package lock

import "sync"

// backlog does work that its callers must not wait for, one piece after the
// other, on a goroutine that it has while there is some.
type backlog[T any] struct {
	do func(T) // immutable after init

	mu      sync.Mutex // guards what follows; never held while work is done
	queue   []T
	running bool
	idle    sync.Cond // on mu: running became false
}

func (b *backlog[T]) init(do func(T)) {
	b.do = do
	b.idle.L = &b.mu
}

// add takes charge of x. It does not block.
func (b *backlog[T]) add(x T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, x)
	if !b.running {
		b.running = true
		go b.run()
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

// drain returns when all work so far is done.
func (b *backlog[T]) drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running {
		b.idle.Wait()
	}
}
