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
	SemaphoreRelease = &Script{"semaphore_release", semaphoreReleaseText, "82361ad8eee2a7e34409b9aa0f9971aab55f322b"}
	SemaphoreDelete  = &Script{"semaphore_delete", semaphoreDeleteText, "68e040e2aec330e7f01d71a68d8bba2a00a41824"}
	SemaphoreExpire  = &Script{"semaphore_expire", semaphoreExpireText, "c71b26490b53ff4f7a00cc5cc389a50f92871d35"}
	SemaphoreTTL     = &Script{"semaphore_ttl", semaphoreTTLText, "50effcbfbeddfabea74a222810426e1cb8e29e98"}
	PermitFree       = &Script{"permit_free", permitFreeText, "d3e1a7cf662922a401ba3bc7b523ec0049d2e0c7"}
	PermitSetLease   = &Script{"permit_set_lease", permitSetLeaseText, "714d46346a9b874c8a80cc7c03ac758274404b09"}
	PermitDeadline   = &Script{"permit_deadline", permitDeadlineText, "e96012a9b22c583450155ec3fb07a47db9221731"}
)
