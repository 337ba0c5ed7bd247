// Package report holds what a run of bench has measured, and shows it: as a
// table, as remarks in words, as JSON, and as a page with charts.
//
// A Report has an Environment, which says where the rows were measured, and
// Rows. A Row is one driver at one number of locks. Its values are Numbers. A
// Number that could not be measured is n/a, null in JSON, and is never drawn or
// compared as 0.
//
// A Row is sound if its measurement is complete, no lock was missed and none
// was lost. A row that lost locks did less work than the others. So the remarks
// compare only sound rows, a chart draws a ring or a hollow bar for a row that is
// not sound, and Sound returns an error if there is one.
//
// The files:
//
//	report.go   Report, Environment, the JSON file
//	row.go      Row, the names of the drivers, the lost locks
//	number.go   Number, percentiles, numbers with their units
//	compare.go  the comparison with which a report begins: by hand, wheel, library
//	answer.go   the sentence that answers the question, and what each driver is
//	load.go     how busy the machine was with other programs
//	table.go    the text for a terminal, and the table
//	max.go      how many locks a driver keeps, and what reached its limit first
//	remarks.go  what the rows say, in words
//	dir.go      the directory of -out
//	page.go     index.html, which refers to no other file
//	chart.go    the charts, one SVG each; a driver has the same colour in all
//	bars.go     the charts of one number of locks
//
// The package measures nothing, connects to no server and imports nothing of
// this module. It starts no goroutines. A Dir is used by one goroutine;
// everything else is a value or a function of its arguments.
package report
