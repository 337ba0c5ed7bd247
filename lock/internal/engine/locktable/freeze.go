package locktable

// Freeze locks all mutexes of the Table until thaw is called. Freeze and Locked are for
// tests of code that must not depend on the Table, or must not run under its mutexes.
func (t *Table[H]) Freeze() (thaw func()) {
	for i := range t.shards {
		t.shards[i].mu.Lock()
	}
	return func() {
		for i := range t.shards {
			t.shards[i].mu.Unlock()
		}
	}
}

// Locked reports whether a mutex of the Table is held. See Freeze.
func (t *Table[H]) Locked() bool {
	for i := range t.shards {
		if !t.shards[i].mu.TryLock() {
			return true
		}
		t.shards[i].mu.Unlock()
	}
	return false
}
