// Package peers measures wheellock's wheel beside time.AfterFunc and other timing wheels for Go. It is a
// module of its own, so that the rivals are no dependencies of wheellock.
//
//	go test -bench . -count 10          schedule, stop and reset, in ns
//	go run ./wheelbench                 CPU, memory, lateness and collector of whole processes
//
// Each rival is used as its documentation says, with a tick of 10 ms. Every implementation keeps records
// of the caller's in one slice, arms them in random order, and its callbacks capture and write to
// their own record.
package peers
