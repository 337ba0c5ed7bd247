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
	SemaphoreSet   = expiring("semaphore_set", semaphoreSetText, "5cd23cf70d3418926d85871cfafff10f7e2001b2")
	SemaphoreAdd   = expiring("semaphore_add", semaphoreAddText, "8539955e206b52aeb569e8da53b18fee5a00b720")
	SemaphoreTake  = expiring("semaphore_take", semaphoreTakeText, "234429ad4f0ec929d8e59199f79a7f565af61487")
	SemaphoreUndo  = expiring("semaphore_undo", semaphoreUndoText, "9228552970fb173db70a145da4e49c084fc7ebbb")
	LatchSet       = expiring("latch_set", latchSetText, "4aaccb9d964cd818ed934810fe380d4975af591c")
	LatchDown      = expiring("latch_down", latchDownText, "a3434da7eb79452ddcfe024bcfc68a849ee50208")
	LatchReset     = expiring("latch_reset", latchResetText, "4cd949d1c0c961c5f3b55876f977744d9e4c6c73")
	Count          = &Script{"count", countText, "c6396d368e216de90cae2f155be25ad8a5b38c14", false}
	RwRead         = expiring("rw_read", rwReadText, "c639fe4ddd6aaf43b1e698d437d168acb89dfbd6")
	RwWrite        = expiring("rw_write", rwWriteText, "9300124eef25618ccef027799f14d094ac711737")
	RwReadReenter  = expiring("rw_read_reenter", rwReadReenterText, "31bac551a4b571a271d36ea3d34bd4e6b7529d2f")
	RwReadRelease  = &Script{"rw_read_release", rwReadReleaseText, "768e6ccbd944ae4e485e9eceefe9d32b4ac9aac8", false}
	RwWriteRelease = &Script{"rw_write_release", rwWriteReleaseText, "c641d8c2583a74c9fb0ef8dd05eef3f52bac86da", false}
	RwWithdraw     = &Script{"rw_withdraw", rwWithdrawText, "13517e71e0dff53ffb70ea585a3a7894cae238df", false}
	RwRenew        = expiring("rw_renew", rwRenewText, "9554a9b61ce1e7627a839dec50468d59b1e7a316")
	RwForce        = &Script{"rw_force", rwForceText, "f1d3707df7bd8d659db4c5d7933c9172facd6fe4", false}
	PermitTake     = expiring("permit_take", permitTakeText, "8c2bc4c0e1bca1c871adf2102aeeeb0e5e8a95cf")
	PermitRelease  = &Script{"permit_release", permitReleaseText, "7d51734370fc2461f72cf0ee4237718d847344ca", false}
	PermitRenew    = expiring("permit_renew", permitRenewText, "e7021f0d30aa269d2f96661d98afb80e39b3209e")
	PermitExtend   = expiring("permit_extend", permitExtendText, "6128d04109306ec9eb2e41d71faf4465c6946082")
	PermitSet      = expiring("permit_set", permitSetText, "6e1645acf0969ebc0a6249a3de876b13d5cec7dd")
	PermitInspect  = &Script{"permit_inspect", permitInspectText, "719ea38b785ebdfa7187ab8c3372f75a8d87be9a", false}
	FairTake       = expiring("fair_take", fairTakeText, "4d67d82e1d3e75d330afec4d0a20eeda0ba3a5d4")
	FairRelease    = &Script{"fair_release", fairReleaseText, "7b143e2e8ba376dfca7e689583d02bd8359ebd32", false}
	FairForce      = &Script{"fair_force", fairForceText, "2656ff7a49c7fe44e04d2c37f7c6ab8d3a659519", false}
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
