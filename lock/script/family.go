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
	SemaphoreSet   = &Script{"semaphore_set", semaphoreSetText, "e30150424094e0f0a8bcb55e049474892ccef9a3"}
	SemaphoreAdd   = &Script{"semaphore_add", semaphoreAddText, "de9d03d65a3d82115e0b759f89a44e114f294df9"}
	SemaphoreTake  = &Script{"semaphore_take", semaphoreTakeText, "3e78cb66fdbe58ff02461463f80e3243fa0836dd"}
	SemaphoreUndo  = &Script{"semaphore_undo", semaphoreUndoText, "9003b3c6b91f93f5d603ec1a21c3402cee46559d"}
	LatchSet       = &Script{"latch_set", latchSetText, "9cecd93804da26e5c21486e1a089eb6460ff8eca"}
	LatchDown      = &Script{"latch_down", latchDownText, "c4f512fb46acb4b09471475de37bd4652b79d54a"}
	LatchReset     = &Script{"latch_reset", latchResetText, "cc7500b854ab24837da710c9a0ab0a50ef15cd96"}
	Count          = &Script{"count", countText, "c6396d368e216de90cae2f155be25ad8a5b38c14"}
	RwRead         = &Script{"rw_read", rwReadText, "b0b5a07d2772c1e8402cd6636ed2861343f1e2fc"}
	RwWrite        = &Script{"rw_write", rwWriteText, "ccc287877389fa38c32cf09c45f29bb0d95a863f"}
	RwReadReenter  = &Script{"rw_read_reenter", rwReadReenterText, "91da688d993745d6b092d52504d87f4c971a6d62"}
	RwReadRelease  = &Script{"rw_read_release", rwReadReleaseText, "29dee2147edd00c26efc6b1bbe24da08f479358d"}
	RwWriteRelease = &Script{"rw_write_release", rwWriteReleaseText, "9434c7860c68ae65baffc7f9ed22977be1ef7c3f"}
	RwWithdraw     = &Script{"rw_withdraw", rwWithdrawText, "649eea9f56feb833f328f0e7c367999e526240d2"}
	RwRenew        = &Script{"rw_renew", rwRenewText, "a60d8adca53969e088329dbb4342bdddf8041392"}
	RwForce        = &Script{"rw_force", rwForceText, "e3873fb66213785c8d98b869d6dba255adebbeff"}
	PermitTake     = &Script{"permit_take", permitTakeText, "c8a2d6137183f1db135bf408467af9940fdfafbf"}
	PermitRelease  = &Script{"permit_release", permitReleaseText, "702076b68a33eae68f969e29f3333858e6b7b14f"}
	PermitRenew    = &Script{"permit_renew", permitRenewText, "fec8de6c46c9da1e0ca0c1aa942b04d5430c31fb"}
	PermitExtend   = &Script{"permit_extend", permitExtendText, "a6d23f8190fd34559fd310da13c714f785f84591"}
	PermitSet      = &Script{"permit_set", permitSetText, "2bae1705a89131dee75cc70d2d4415b4652d9da6"}
	PermitInspect  = &Script{"permit_inspect", permitInspectText, "021592435e3e47c9b0e99dfd653cc93e42481758"}
	FairTake       = &Script{"fair_take", fairTakeText, "e0073481306093a460d625c746f5919a0484c80f"}
	FairRelease    = &Script{"fair_release", fairReleaseText, "894ce0e5244b6d0d0b9665a7b7af234663255280"}
	FairForce      = &Script{"fair_force", fairForceText, "fb96ffdb6e2600a0bc79cd79adf133d9442ce6c1"}
)

func family() []*Script {
	return []*Script{
		SemaphoreSet,
		SemaphoreAdd,
		SemaphoreTake,
		SemaphoreUndo,
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
		FairTake,
		FairRelease,
		FairForce,
	}
}
