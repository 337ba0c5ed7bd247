// Package run measures the rows of bench, each in a process of its own, so that
// no row inherits another's heap, goroutines or connections.
//
// A Plan says what is measured. A Parent, in the command's process, starts one
// row at a time with the command's own program, in which RowMain then takes over.
// The row acquires its locks with the Holder of its Driver, settles, holds them
// while the holder renews them, looks at every lock on the server with a
// connection that shares no code with the holder, and releases them all. What it
// has measured is a report.Row.
//
//	Parent                    row's process
//	  settings ──── stdin ───────▶ acquire, settle, hold, watch, check,
//	  Progress ◀─── stdout ─────── release, look
//	  Row      ◀─── stdout ───────
//
// Settings, events and the result are lines of JSON. Standard input stays open
// as long as the row is wanted. Its end, also by the parent's death, makes the row
// release its locks and leave. A row that shows no progress is killed, and its
// locks are left to their lease.
//
// A Holder is the engine, package lock as its users have it, or the sweep, which
// is bench's own. The sweep uses the same scripts and keeps the engine's rules.
// Where Redisson's sweep leaves a choice, this one has the better: our batch size,
// a fixed period instead of a pause after each sweep, arguments made once.
//
// The process of the parent also runs the control lock, which proves that the
// server lets go of what nobody renews, and samples the server's CPU while a row
// watches, after all else is measured.
//
// Goroutines: a row's Workers end with the phase in which they acquire or release.
// The sweep's one is ended by Close, the CPU sampler's by the end of the phase
// watch. Those that wait for the end of standard input or for SIGTERM end with the
// process.
package run
