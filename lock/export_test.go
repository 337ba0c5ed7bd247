package lock

// SlotOf is slotOf.
func SlotOf(key string) int { return slotOf(key) }

// CheckSlot is checkSlot.
func CheckSlot(name string) error { return checkSlot(name) }

// Derived is derived.
func Derived(prefix, name string) string { return derived(prefix, name) }
