// Package wire builds the call and reads the answer of each script of package script. The header
// of each script describes its keys, arguments and answers. Here they have names and types. The
// package sends nothing.
//
// A reader returns ok as false for an answer that its script does not give. The outcome of the
// call is then unknown to its sender.
package wire
