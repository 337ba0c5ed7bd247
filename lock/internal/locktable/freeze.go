package locktable

// Freeze lets nobody into the Table until thaw is called, and Locked reports whether
// somebody is in it. They are for tests of what must not depend on the Table, or must not
// be done there.
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
