// Package watch tells many goroutines at once that something has ended. It does so by a channel
// and by contexts that are derived from the contexts of callers.
//
// A Watch ends once, with a cause. Its channel is closed then, and its contexts end with that
// cause. A context of a Watch ends with its parent too, and keeps the parent's deadline and
// values.
//
// The contexts ask the subject of their Watch whenever Err, Done or context.Cause is called. So
// their answer is right even if the goroutine that should have ended the Watch is late. Contexts
// that are derived from these contexts do not ask the subject. They end when their parent is
// asked, or when the Watch ends.
//
// A Watch keeps one record for all parents with the same Done channel, and not one for each
// call of Context. So one long hold may derive a context for each of very many requests. The
// record keeps no values of a parent.
//
// It starts no goroutine. Watch.mu is held for a few instructions, and never while a function of
// a user runs.
package watch
