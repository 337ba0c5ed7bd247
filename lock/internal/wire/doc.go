// Package wire is what goes to Redis and what comes back: each script of package script as a
// call that is built, and as an answer that is read. The header of each script says what its
// keys, arguments and answers are; here they have names and types. Nothing is sent here.
//
// A reader returns ok as false for an answer that its script does not give. Whoever has sent
// the call then does not know what became of it.
package wire
