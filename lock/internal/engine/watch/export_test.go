package watch

// BeginEnd ends w, by a goroutine that comes no further than to close Done.
func BeginEnd(w *Watch, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause, w.shared = cause, nil
	close(w.done)
}
