// Package faultproxy is a TCP proxy between clients and a Redis server. It does
// to them what a network, a middlebox or a server in trouble can do. It is the
// one fault proxy of this module's tests. It does not import package testing,
// so package faults can use it too.
//
// # Faults
//
// To all connections, until Heal:
//
//	Requests, Replies  one direction is held back, or lost
//	BlackHole          nothing arrives in either direction, and no dial succeeds
//
// To the connections that exist: Reset breaks them, and data in flight is lost.
// HangUp closes only the clients' side, so data that they have sent still arrives.
//
// To one connection, until Heal: HoldFlowOf holds it back from the next call of
// a script on. The other connections work.
//
// To single commands, as Config.Decide says: a Fate passes a command on, loses
// it or its answer, sends it twice or late, replaces its answer, or answers it
// instead of the server. HoldBack holds back all calls of a script until LetThrough.
//
// # Guarantees
//
// A client gets answers in the order of its commands. After a command or an
// answer was lost, its connection gives no more answers, because the client
// would take the next one for the lost one. Its commands still reach the
// server. Data that was held back is delivered late, even if its sender has left,
// because the connection to the server ends only when the server has answered
// everything.
//
// # Goroutines
//
// One goroutine accepts. A connection has two. A command that is sent late has
// one. All of them end in Close, unless Decide waits for ever.
package faultproxy
