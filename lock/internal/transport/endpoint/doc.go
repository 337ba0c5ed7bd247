// Package endpoint reads the URLs of Redis servers, and dials these servers.
//
// [Parse] reads a URL. Its errors name the part that is wrong. They quote only known schemes
// and options, because parts of a password that is not percent-encoded can be in the host, the
// database or an option.
//
// A [Dialer] makes one connection. It asks for the credentials, connects, and logs in. All
// packages that dial servers use it. So answers are bounded on each connection (package resp),
// and no error repeats a password (package dialing).
package endpoint
