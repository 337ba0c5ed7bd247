// Package diagnosis is Client.Check: it asks a server all that a client needs, and says
// what is missing, what is dangerous, and what to do about each.
//
// [Check] asks; a [Report] judges the answers of one server, without I/O. [Calls] are the commands that the
// scripts call, each in a form that changes nothing beside the scratch key; a test
// compares them with the scripts, and with the rights that README.md lists.
//
// # Problems and advice
//
// A problem is a right or a command that README.md says the client needs, a state in which
// no lock can be taken, or a setting by which locks get lost unnoticed. Advice is what only
// some users need, and what could not be found out.
//
// The rights have two groups: Core is what Mutex, MultiLock and RedLock need, Family what
// the other objects need beside it. Of a user who has no right to any command of Family,
// or to no key, it is believed that this is meant: that is advice.
package diagnosis
