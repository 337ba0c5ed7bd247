package renewal

import (
	"sync"
)

// maxReports is how many reports wait for a slow hook.
const maxReports = 1024

// hooks calls the user's hook on a goroutine of its own, so that the hook delays no
// renewal. A nil hooks does nothing.
type hooks struct {
	onBatch func(BatchReport) // immutable

	mu      sync.Mutex // guards what follows; not held while the hook runs
	queue   chan BatchReport
	skipped uint64
	closed  bool
	started bool
	wg      sync.WaitGroup
}

func newHooks(onBatch func(BatchReport)) *hooks {
	if onBatch == nil {
		return nil
	}
	return &hooks{onBatch: onBatch, queue: make(chan BatchReport, maxReports)}
}

// post queues r for the hook. It does not block.
func (h *hooks) post(r BatchReport) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if !h.started {
		h.started = true
		h.wg.Go(func() {
			label("call OnBatch")
			h.run()
		})
	}
	r.Skipped = h.skipped
	select {
	case h.queue <- r:
		h.skipped = 0
	default:
		h.skipped++
	}
}

func (h *hooks) run() {
	for r := range h.queue {
		h.onBatch(r)
	}
}

// close returns when the hook has had all queued reports.
func (h *hooks) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.queue)
	}
	h.mu.Unlock()
	h.wg.Wait()
}
