// Package run measures the rows of bench. Each row runs in a process of its
// own, so that it inherits no heap, goroutines or connections from another row.
//
// A Plan lists the measurements, and a holders.Target names the Redis. A Parent,
// in the process of the command, starts the command's own program once per row,
// one row at a time. In that process RowMain takes over. The row acquires its
// locks with the holder of its driver, waits until the load is even, and holds
// them while the holder renews them. Package holders has the drivers and the
// meter that counts their renewals. Then the row looks at every lock on the
// server, over connections that share no code with the holder, and releases all
// locks. The result is a report.Row.
//
//	Parent                    row's process
//	  settings ──── stdin ───────▶ acquire, settle, hold, watch, check,
//	  Progress ◀─── stdout ─────── release, look
//	  Row      ◀─── stdout ───────
//	  log      ◀─── stderr ───────
//
// Settings, events and the result are lines of JSON. Standard input stays open
// as long as the row is wanted. When it ends, also because the parent died, the
// row releases its locks and exits. The parent kills a row that makes no
// progress, and its locks expire with their lease. Standard error has the library's
// log. The parent collects a bounded number of lines and shows them after the
// last row.
//
// # What the parent measures itself
//
// The parent runs the control lock, which proves that a lock expires on the server
// if it is not renewed. While a row is in the phase watch, after all other
// measurements, the parent samples the server's CPU. A Machine measures what other
// programs use of the processors during the rows.
//
// # Names in Redis
//
// All names begin with "wheellock:bench:" and a random id, so runs do not
// disturb each other. Only the library's counters of fencing tokens stay in
// Redis: "wheellock_token" and, in a Cluster, "wheellock_token:{n}".
//
// # Limits
//
// If slots of a Cluster move while a row runs, the locks in them count as
// missed or lost.
//
// # Goroutines
//
// The Workers of a row end with the phase in which they acquire or release.
// Close ends the goroutines of its holder. The CPU sampler ends with the phase watch. The
// goroutines that wait for the end of standard input or for SIGTERM end with
// the process.
package run
