// Package diagnosis does the work of Client.Check. It tries on a server all that the client
// needs. It says which rights are missing, which settings are dangerous, and what to do about each.
//
// [Check] asks, and a [Report] judges the answers of one server, without I/O. [Calls] returns
// the commands that the scripts call, in a form that changes only the scratch key. A test
// compares them with the scripts, and with the rights that lock/SERVERS.md lists.
//
// # Problems and advice
//
// A problem is one of three things: a missing right or command that lock/SERVERS.md lists as
// needed, a state in which no lock can be taken, or a setting by which locks get lost unnoticed.
// Advice is for things that only some users need, and for things that could not be found out.
//
// The rights have two groups. Core has the rights for Mutex, MultiLock and RedLock. Family has
// the further rights for the other objects. If a user has no right to any command of Family, or
// to any key of Family, that is believed to be intended, and it is only advice.
package diagnosis
