// Package orphans gives back holds that nobody answers for: an acquisition whose answer
// was lost or came when its caller had left, a release that was never answered.
//
// It releases their fields until Redis gives a definite answer or their TTL is over. It
// names them to new attempts at the same lock, whose scripts remove them. A field whose
// acquisition was not answered is released again when that can no longer be carried out:
// after the time that the request names, or after pauses that double.
package orphans
