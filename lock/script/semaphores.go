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
	SemaphoreRelease = expiring("semaphore_release", semaphoreReleaseText, "834a614e31481f80f4542bd10b99a32e2b90546c")
	SemaphoreDelete  = expiring("semaphore_delete", semaphoreDeleteText, "9c22ab0ace2b99f41acc20bcda5db633309f17ba")
	SemaphoreExpire  = expiring("semaphore_expire", semaphoreExpireText, "abdfd01bc7c76b766e86a1a7409dda88dd263c6f")
	SemaphoreTTL     = &Script{"semaphore_ttl", semaphoreTTLText, "50effcbfbeddfabea74a222810426e1cb8e29e98", false}
	PermitFree       = expiring("permit_free", permitFreeText, "1fe75c197406d99e73ad3cf4afd55092825bfab9")
	PermitSetLease   = expiring("permit_set_lease", permitSetLeaseText, "32d9c5b8993da16415a31a232a0f00d14853c8ab")
	PermitDeadline   = &Script{"permit_deadline", permitDeadlineText, "e96012a9b22c583450155ec3fb07a47db9221731", false}
)
