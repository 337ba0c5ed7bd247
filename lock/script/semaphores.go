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
	SemaphoreRelease = expiring("semaphore_release", semaphoreReleaseText, "718b6757ac4855c7ff647e3fc728f691de81c2cb")
	SemaphoreDelete  = expiring("semaphore_delete", semaphoreDeleteText, "a4f665673b6ffad1667d8ecff46d3b615193de2e")
	SemaphoreExpire  = expiring("semaphore_expire", semaphoreExpireText, "aec0c41c98058663478a019e7b9c7be5af0a2464")
	SemaphoreTTL     = &Script{"semaphore_ttl", semaphoreTTLText, "50effcbfbeddfabea74a222810426e1cb8e29e98", false}
	PermitFree       = expiring("permit_free", permitFreeText, "820a2c266ae7ddd21256fdc58ea15668defbf03a")
	PermitSetLease   = expiring("permit_set_lease", permitSetLeaseText, "19ae8732d3330a8bdf27320f4eb8b9f2a5949167")
	PermitDeadline   = &Script{"permit_deadline", permitDeadlineText, "e96012a9b22c583450155ec3fb07a47db9221731", false}
)
