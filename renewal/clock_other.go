//go:build !linux

package renewal

import "time"

// suspensions returns nil, because this system has no clock that counts suspension and
// cannot be set, or none that is known here.
func suspensions() func() time.Duration { return nil }

// whySuspended is the text of Suspended.
const whySuspended = "this process, or its machine, was stopped for too long, or its clock was set forward"
