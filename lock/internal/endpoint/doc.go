// Package endpoint reads the URLs of Redis servers, and dials as they say.
//
// [Parse] reads a URL. Its errors name the part that is wrong and quote only schemes and
// options that are known, because a password that is not percent-encoded can end anywhere:
// in the host, the database, or an option.
//
// A [Dialer] makes one connection: it asks for the credentials, connects, and logs in. All
// packages that dial servers use it, so that answers are bounded on each connection (package
// resp) and no error repeats a password (package dialing).
package endpoint
