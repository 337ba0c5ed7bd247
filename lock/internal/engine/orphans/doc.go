// Package orphans releases holds that no caller releases. Such a hold is left by an
// acquisition whose answer was lost or came after its caller had left, and by a release
// that was never answered.
//
// The package releases the fields of these holds until Redis gives a definite answer or
// their TTL is over. It also names the fields to new attempts at the same lock, and the
// scripts of these attempts remove them. It forgets a field when the release is answered
// and the acquisition can no longer be carried out. A field whose acquisition was not answered is
// released once more when the acquisition can no longer be carried out. That is after the
// time limit of the request. Without a limit the field is released after pauses that
// double.
package orphans
