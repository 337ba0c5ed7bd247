// Package wait has what package lock waits with: pauses that a context or a channel can end,
// a channel that wakes one goroutine, the back-off between tries whose outcome is not known,
// a client's source of randomness, and deadlines that many calls share. It starts no
// goroutine. Everything in it is safe for concurrent use.
package wait
