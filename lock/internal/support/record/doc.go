// Package record has one table of all records that a client writes to its log.
//
// A [Record] is a row of the table: text, level, attributes, advice and bound. The
// text of a record exists only there, and [Logger.Log] is the only way to write it.
// A Logger enforces the bound of every row, so no cause can fill a log. Its memory is
// bounded too. It calls the user's Handler on a goroutine of its own, so a Handler that
// blocks delays nothing else. A test makes the list in lock/SERVICE.md from the table,
// and another test fails if package lock or a package below it writes to a log in
// another way.
package record
