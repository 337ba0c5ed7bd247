//go:build !linux

package renewal

import "time"

// findSuspensionClock returns nil, because this package knows no clock of this system that
// counts suspensions and cannot be set.
func findSuspensionClock() func() time.Duration { return nil }

// whySuspended is the text of the Reason Suspended.
const whySuspended = "this process, or its machine, was stopped for too long, or its clock was set forward"
