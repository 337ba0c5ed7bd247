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
	SemaphoreSet   = expiring("semaphore_set", semaphoreSetText, "f0437ccdf086f8d6fce40b2aa582582c44d30c65")
	SemaphoreAdd   = expiring("semaphore_add", semaphoreAddText, "c3894e85387075d024c8d898af458e42c217d648")
	SemaphoreTake  = expiring("semaphore_take", semaphoreTakeText, "cb9b0064a6bf455baa0c082813c8a0be68dc1497")
	SemaphoreUndo  = expiring("semaphore_undo", semaphoreUndoText, "95d07a4181037f4f495fff671063522f99d562ff")
	LatchSet       = expiring("latch_set", latchSetText, "e8ec74557968049bfc9c4f841b8a59c489acf7ce")
	LatchDown      = expiring("latch_down", latchDownText, "856e06e8b8f8ab844aafc09fb224f418abfef2b2")
	LatchReset     = expiring("latch_reset", latchResetText, "3f9ea838aa6778def5554f8e98d38e17f818f21f")
	Count          = &Script{"count", countText, "c6396d368e216de90cae2f155be25ad8a5b38c14", false}
	RwRead         = expiring("rw_read", rwReadText, "ff2fc871c79af4d86f59eff9faa81e18428e7aa1")
	RwWrite        = expiring("rw_write", rwWriteText, "0ca69d51c5864541154fbac39bc5d9ec6b9f3de6")
	RwReadReenter  = expiring("rw_read_reenter", rwReadReenterText, "54d19cb0b6252fed2221a6c9f8a6802dd11dc41e")
	RwReadRelease  = &Script{"rw_read_release", rwReadReleaseText, "768e6ccbd944ae4e485e9eceefe9d32b4ac9aac8", false}
	RwWriteRelease = &Script{"rw_write_release", rwWriteReleaseText, "c641d8c2583a74c9fb0ef8dd05eef3f52bac86da", false}
	RwWithdraw     = &Script{"rw_withdraw", rwWithdrawText, "13517e71e0dff53ffb70ea585a3a7894cae238df", false}
	RwRenew        = expiring("rw_renew", rwRenewText, "93942716070a690caa57bdaa4e4a89c3ff8fad71")
	RwForce        = &Script{"rw_force", rwForceText, "f1d3707df7bd8d659db4c5d7933c9172facd6fe4", false}
	PermitTake     = expiring("permit_take", permitTakeText, "ac5197b4e5d9b24fef055bd82e60f46858f9c2f3")
	PermitRelease  = &Script{"permit_release", permitReleaseText, "7d51734370fc2461f72cf0ee4237718d847344ca", false}
	PermitRenew    = expiring("permit_renew", permitRenewText, "cd680fac7c2896e91b5983109ccc631ba5462cd8")
	PermitExtend   = expiring("permit_extend", permitExtendText, "59bb713b2ac7587c11674baf145068f7820eb6c2")
	PermitSet      = expiring("permit_set", permitSetText, "e8166770de2ad89f192c41289aa4b6605b9c9832")
	PermitInspect  = &Script{"permit_inspect", permitInspectText, "719ea38b785ebdfa7187ab8c3372f75a8d87be9a", false}
	FairTake       = minting("fair_take", fairTakeText, "e7dd96e75d278bb4eeeab3994a5b8bad065a16c2")
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
