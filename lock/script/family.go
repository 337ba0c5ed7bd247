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

//go:embed rw_fields.lua
var rwFieldsText string

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
	SemaphoreSet   = expiring("semaphore_set", semaphoreSetText, "655b048b393c7e5a10fc6b601f4345d3695fa543")
	SemaphoreAdd   = expiring("semaphore_add", semaphoreAddText, "ef594591575f9373d2720a2862b8b54211e71fe5")
	SemaphoreTake  = expiring("semaphore_take", semaphoreTakeText, "2e3c671345516c1b3da7590dd05a9f7ff06adecf")
	SemaphoreUndo  = expiring("semaphore_undo", semaphoreUndoText, "15d36fc525df212a2056a531bcfb53e3b172c6a8")
	LatchSet       = expiring("latch_set", latchSetText, "9aeb78d714b7bf63a1789cd54710dd524492ccf2")
	LatchDown      = expiring("latch_down", latchDownText, "8a56807fae9c10638bc1ac74cb5198727ae98443")
	LatchReset     = expiring("latch_reset", latchResetText, "86a4504eceea1e0307b837f07442fbad28774f84")
	Count          = &Script{"count", countText, "c6396d368e216de90cae2f155be25ad8a5b38c14", false}
	RwRead         = expiring("rw_read", rwFieldsText+rwReadText, "5967eae7640c4cc690d933f06989ec266e3d07e4")
	RwWrite        = expiring("rw_write", rwFieldsText+rwWriteText, "41a437afce9705a65ba798488f42c507dd3393f0")
	RwReadReenter  = expiring("rw_read_reenter", rwReadReenterText, "84755a9f59967bdc4a737ff558f4c9defaada3cc")
	RwReadRelease  = &Script{"rw_read_release", rwFieldsText + rwReadReleaseText, "bdbe9088ef853721a1b939de75cb9901e53c22d4", false}
	RwWriteRelease = &Script{"rw_write_release", rwFieldsText + rwWriteReleaseText, "ee63acc7c005e70bbd305a6047af0a76fa22e2ba", false}
	RwWithdraw     = &Script{"rw_withdraw", rwWithdrawText, "13517e71e0dff53ffb70ea585a3a7894cae238df", false}
	RwRenew        = expiring("rw_renew", rwRenewText, "325125fb6d12dd872ebb84ca8962bb0b3b49959a")
	RwForce        = &Script{"rw_force", rwFieldsText + rwForceText, "668bab9b84ca4cfa4035c81158279c9a7905a3a9", false}
	PermitTake     = expiring("permit_take", permitTakeText, "800abda034301b126f0eb840c9f684ac069bf808")
	PermitRelease  = &Script{"permit_release", permitReleaseText, "7d51734370fc2461f72cf0ee4237718d847344ca", false}
	PermitRenew    = expiring("permit_renew", permitRenewText, "ff2dd04abc86793cd7bea2fa8d86691af7e51956")
	PermitExtend   = expiring("permit_extend", permitExtendText, "4cc1714f13882383feca6b25f97150c72308373f")
	PermitSet      = expiring("permit_set", permitSetText, "509a17418765afcdef290b4c4c3f7b1a5e0d604c")
	PermitInspect  = &Script{"permit_inspect", permitInspectText, "719ea38b785ebdfa7187ab8c3372f75a8d87be9a", false}
	FairTake       = minting("fair_take", fairTakeText, "844fe83764816601143feaae9ceb33f02be47667")
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
