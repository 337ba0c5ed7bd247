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
	SemaphoreRelease = expiring("semaphore_release", semaphoreReleaseText, "3575b3f6be57afc4b6a9ff12885ad981ee571fa0")
	SemaphoreDelete  = expiring("semaphore_delete", semaphoreDeleteText, "1322df82ad35021f1512ee2924c766dbcf3af0ef")
	SemaphoreExpire  = expiring("semaphore_expire", semaphoreExpireText, "cc925a6212efb87d3345bf74cf3fbce8f1edb9cd")
	SemaphoreTTL     = &Script{"semaphore_ttl", semaphoreTTLText, "50effcbfbeddfabea74a222810426e1cb8e29e98", false}
	PermitFree       = expiring("permit_free", permitFreeText, "a3775bd3ba68dc519cf98d7afbce90de9a531463")
	PermitSetLease   = expiring("permit_set_lease", permitSetLeaseText, "2bfac1a68c358403b0ae5e884dd63acab7adee99")
	PermitDeadline   = &Script{"permit_deadline", permitDeadlineText, "e96012a9b22c583450155ec3fb07a47db9221731", false}
)
