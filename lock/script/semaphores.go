package script

import _ "embed"

//go:embed semaphore_release.lua
var semaphoreReleaseText string

//go:embed semaphore_delete.lua
var semaphoreDeleteText string

//go:embed semaphore_expire.lua
var semaphoreExpireText string

//go:embed semaphore_ttl.lua
var semaphoreTTLText string

//go:embed permit_free.lua
var permitFreeText string

//go:embed permit_set_lease.lua
var permitSetLeaseText string

//go:embed permit_deadline.lua
var permitDeadlineText string

// The scripts of semaphores as a whole, and of permits that are known by their ids.
var (
	SemaphoreRelease = expiring("semaphore_release", semaphoreReleaseText, "dc804c32551995689eff5fcf8e477c10b0dc343f")
	SemaphoreDelete  = expiring("semaphore_delete", semaphoreDeleteText, "e9220372fb3ce1f4b22a2d706829cb74c773b5aa")
	SemaphoreExpire  = expiring("semaphore_expire", semaphoreExpireText, "01b37a8c50c6b3a614f993df305c0c0285758b43")
	SemaphoreTTL     = &Script{"semaphore_ttl", semaphoreTTLText, "50effcbfbeddfabea74a222810426e1cb8e29e98", false}
	PermitFree       = expiring("permit_free", permitFreeText, "e749a7caabf3ed7fe8774f747bf55ea8bc6e3043")
	PermitSetLease   = expiring("permit_set_lease", permitSetLeaseText, "54da32e5a90586181f796369e0d05e427a07d105")
	PermitDeadline   = &Script{"permit_deadline", permitDeadlineText, "e96012a9b22c583450155ec3fb07a47db9221731", false}
)
