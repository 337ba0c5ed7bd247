package lock

import "time"

// SlotOf is slotOf.
func SlotOf(key string) int { return slotOf(key) }

// CheckSlot is checkSlot.
func CheckSlot(name string) error { return checkSlot(name) }

// Derived is derived.
func Derived(prefix, name string) string { return derived(prefix, name) }

// PassLimit is passLimit.
func PassLimit(n int, lease time.Duration, members int) time.Duration {
	return passLimit(n, lease, members)
}
