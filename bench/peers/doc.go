// Package peers measures wheellock's wheel beside time.AfterFunc and other timing wheels for Go, and its
// locks beside other Go clients. It is a module of its own, so that the rivals are no dependencies of
// wheellock, and asks for the Go version that they ask for.
//
//	go test -bench . -count 10          schedule, stop and reset, in ns
//	go run ./wheelbench                 CPU, memory, lateness and collector of whole processes
//	go run ./lockbench                  locks beside redsync, redislock and rueidislock
//
// Each rival is used as its documentation says; a timer with a tick of 10 ms. Every implementation keeps records
// of the caller's in one slice, arms them in random order, and its callbacks capture and write to
// their own record.
package peers
