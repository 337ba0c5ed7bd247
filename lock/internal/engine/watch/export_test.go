package watch

// BeginEnd does the first steps of End: Done is closed, but no context has ended.
func BeginEnd(w *Watch, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause, w.shared = cause, nil
	close(w.done)
}
