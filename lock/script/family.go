package script

import _ "embed"

//go:embed semaphore_set.lua
var semaphoreSetText string

//go:embed semaphore_add.lua
var semaphoreAddText string

//go:embed semaphore_take.lua
var semaphoreTakeText string

//go:embed semaphore_undo.lua
var semaphoreUndoText string

//go:embed latch_set.lua
var latchSetText string

//go:embed latch_down.lua
var latchDownText string

//go:embed latch_reset.lua
var latchResetText string

//go:embed count.lua
var countText string

//go:embed rw_read.lua
var rwReadText string

//go:embed rw_write.lua
var rwWriteText string

//go:embed rw_read_reenter.lua
var rwReadReenterText string

//go:embed rw_read_release.lua
var rwReadReleaseText string

//go:embed rw_write_release.lua
var rwWriteReleaseText string

//go:embed rw_withdraw.lua
var rwWithdrawText string

//go:embed rw_renew.lua
var rwRenewText string

//go:embed rw_force.lua
var rwForceText string

//go:embed permit_take.lua
var permitTakeText string

//go:embed permit_release.lua
var permitReleaseText string

//go:embed permit_renew.lua
var permitRenewText string

//go:embed permit_extend.lua
var permitExtendText string

//go:embed permit_set.lua
var permitSetText string

//go:embed permit_inspect.lua
var permitInspectText string

//go:embed fair_take.lua
var fairTakeText string

//go:embed fair_release.lua
var fairReleaseText string

//go:embed fair_force.lua
var fairForceText string

// The scripts of the objects beside Mutex.
var (
	SemaphoreSet   = &Script{"semaphore_set", semaphoreSetText, "19929559b03c9d7a2f3aad77b93fd388cfda0d70"}
	SemaphoreAdd   = &Script{"semaphore_add", semaphoreAddText, "66d26fb4c2a15f3b68f02b0a71f042585bad8801"}
	SemaphoreTake  = &Script{"semaphore_take", semaphoreTakeText, "9e4a9a9ca23966ce703a388da97d00c3abe8e39d"}
	SemaphoreUndo  = &Script{"semaphore_undo", semaphoreUndoText, "c347e8e74ba6936c8e0e7105302438c55d1efe33"}
	LatchSet       = &Script{"latch_set", latchSetText, "071770284c60673b566d6a29e1907874bf221b7c"}
	LatchDown      = &Script{"latch_down", latchDownText, "329977600bd9475484a6074445d8d70befd4a3fc"}
	LatchReset     = &Script{"latch_reset", latchResetText, "b9245606f33825d0139580bba6c084c048a197a5"}
	Count          = &Script{"count", countText, "c6396d368e216de90cae2f155be25ad8a5b38c14"}
	RwRead         = &Script{"rw_read", rwReadText, "287a6c0082f711455902b775a168e8e9ebc3fc59"}
	RwWrite        = &Script{"rw_write", rwWriteText, "042dbe8c0145c625dd14bfa336d21a09e6226f98"}
	RwReadReenter  = &Script{"rw_read_reenter", rwReadReenterText, "9c595229f169491e03e6123907e2319ef9a762cb"}
	RwReadRelease  = &Script{"rw_read_release", rwReadReleaseText, "80de46f119f54521db4857ac8af189ce54dd7638"}
	RwWriteRelease = &Script{"rw_write_release", rwWriteReleaseText, "0d0c40910aab8a8d2f3a0aaf70babc8fcc9f6d64"}
	RwWithdraw     = &Script{"rw_withdraw", rwWithdrawText, "13517e71e0dff53ffb70ea585a3a7894cae238df"}
	RwRenew        = &Script{"rw_renew", rwRenewText, "7fbf519cc74c3b787541d27518cc2101801b9248"}
	RwForce        = &Script{"rw_force", rwForceText, "f1d3707df7bd8d659db4c5d7933c9172facd6fe4"}
	PermitTake     = &Script{"permit_take", permitTakeText, "2437afb3afc02d75898b49926b380e067b40088c"}
	PermitRelease  = &Script{"permit_release", permitReleaseText, "b392fb633074795a6d0b072ae37beef33c2a13eb"}
	PermitRenew    = &Script{"permit_renew", permitRenewText, "b55bcc85f575bfa9ab73e91f5a2f08e4d5e640ba"}
	PermitExtend   = &Script{"permit_extend", permitExtendText, "18aff9e79479207885802275dcb1847ec916d487"}
	PermitSet      = &Script{"permit_set", permitSetText, "6f3ecd34bb2dd537ee8ce23eb7dc8f48f5d5036a"}
	PermitInspect  = &Script{"permit_inspect", permitInspectText, "719ea38b785ebdfa7187ab8c3372f75a8d87be9a"}
	FairTake       = &Script{"fair_take", fairTakeText, "602a1635724c25c5784d6ad6bc175be8ef09427c"}
	FairRelease    = &Script{"fair_release", fairReleaseText, "437b38bef699d65ed16258fb8c88550ac3907d39"}
	FairForce      = &Script{"fair_force", fairForceText, "cc827a397c33a61dcccff1b9ed23c861f3a873d0"}
)

func family() []*Script {
	return []*Script{
		SemaphoreSet,
		SemaphoreAdd,
		SemaphoreTake,
		SemaphoreUndo,
		SemaphoreRelease,
		SemaphoreDelete,
		SemaphoreExpire,
		SemaphoreTTL,
		LatchSet,
		LatchDown,
		LatchReset,
		Count,
		RwRead,
		RwWrite,
		RwReadReenter,
		RwReadRelease,
		RwWriteRelease,
		RwWithdraw,
		RwRenew,
		RwForce,
		PermitTake,
		PermitRelease,
		PermitRenew,
		PermitExtend,
		PermitSet,
		PermitInspect,
		PermitFree,
		PermitSetLease,
		PermitDeadline,
		FairTake,
		FairRelease,
		FairForce,
	}
}
