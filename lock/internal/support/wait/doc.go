// Package wait has tools for waiting: pauses that a context or a channel can end, a channel
// that wakes one goroutine, the back-off between tries whose outcome is not known, a client's
// source of randomness, and deadlines that many calls share. It starts no goroutine. All its
// functions and types are safe for concurrent use.
package wait
