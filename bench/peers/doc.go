// Package peers compares wheellock's wheel with time.AfterFunc and with other
// timing wheels for Go, and its locks with other Go clients. It is a module of
// its own, so that wheellock does not depend on the other libraries and on the
// Go version that they need.
//
//	go test -bench . -count 10          schedule, stop and reset, in ns and in ns of CPU
//	go run ./wheelbench                 CPU, memory, lateness and garbage collection of whole processes
//	go run ./lockbench                  locks: redsync, redislock and rueidislock
//
// Each library is used as its documentation says. Timers have a tick of 10 ms
// where the library has ticks. In every implementation the caller's records are
// in one slice and are armed in random order, and each callback captures its
// record and writes to it. A timer of a library without a Reset is moved by
// stopping it and making another one. So is one of antlabs/timer, whose Reset
// deadlocks.
package peers
