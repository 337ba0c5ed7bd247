// Package faultproxy stands between clients and a Redis server, over TCP, and does
// to them what a network, a middlebox or a server in trouble can do. It is the one
// fault proxy of this module's tests; it does not link package testing, so that
// package faults may use it too.
//
// # What it can do
//
// To all connections, until Heal:
//
//	Requests, Replies  one direction holds back what comes, or loses it
//	Slow               each chunk of bytes takes longer
//	CutReplies         the next answers end in the middle
//	BlackHole          nothing arrives in either direction, and no Dial succeeds
//
// To the connections that there are: Reset breaks them and what is under way;
// HangUp ends the clients' side alone, so that what they have sent still arrives.
//
// To one connection, until Heal, while the others live: HoldFlowOf holds it back from
// the next call of a script on.
//
// To single commands, as Config.Decide says: a Fate passes a command on, loses it or
// its answer, sends it twice or late, replaces its answer, or answers it in the
// server's place. Keep holds back all calls of a script until LetGo.
//
// # What it keeps
//
// Answers reach a client in the order of its commands. A connection on which a
// command or an answer was lost gives no answer any more, because one that came
// after would be taken for the lost one; its commands still reach the server. What
// was held back is delivered late, even if its sender has left meanwhile: the
// connection to the server ends when the server has answered all that was sent.
//
// # Goroutines
//
// One accepts; a connection has two; a command that is sent late has one. All of
// them end in Close, if Decide does not wait for ever.
package faultproxy
