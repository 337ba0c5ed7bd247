// Package wire builds the call and reads the answer of each script of package script. The header
// of each script describes its keys, arguments and answers. Here they have names and types. The
// package sends nothing.
//
// The readers of scripts that take something return an [Outcome]. It is Unknown for an answer that
// the script does not give. Other readers return ok as false for such an answer.
package wire
