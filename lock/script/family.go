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
	SemaphoreSet   = expiring("semaphore_set", semaphoreSetText, "73040b559e179a5648dbf8be7aea381cf5a9d8a6")
	SemaphoreAdd   = expiring("semaphore_add", semaphoreAddText, "ab4109080d6f08e4f46c0a23e3586ae9382d6d4c")
	SemaphoreTake  = expiring("semaphore_take", semaphoreTakeText, "3d7cdce61e77af6a3f4a0c9963393a38122d80c0")
	SemaphoreUndo  = expiring("semaphore_undo", semaphoreUndoText, "d4fc7faa5150e6318ed8326f98394b6a1a836e2f")
	LatchSet       = expiring("latch_set", latchSetText, "3facd6f9ff81fc1bc0197a86f8e9b769b87d6a09")
	LatchDown      = expiring("latch_down", latchDownText, "f1b77f6cdce042e5744ad61638f9be6f09b0a0c8")
	LatchReset     = expiring("latch_reset", latchResetText, "58e9d12de2345803b05d725658a957dafbca03b8")
	Count          = &Script{"count", countText, "c6396d368e216de90cae2f155be25ad8a5b38c14", false}
	RwRead         = expiring("rw_read", rwFieldsText+rwReadText, "92c5261ab0d77c22e5b60440c63c2b2d534f6c0c")
	RwWrite        = expiring("rw_write", rwFieldsText+rwWriteText, "b13f0c5005299fda9edd973c9ae4c5a1147748b0")
	RwReadReenter  = expiring("rw_read_reenter", rwReadReenterText, "01cd07236108a6000d468480a92ec7e6a0dda7d4")
	RwReadRelease  = &Script{"rw_read_release", rwFieldsText + rwReadReleaseText, "bdbe9088ef853721a1b939de75cb9901e53c22d4", false}
	RwWriteRelease = &Script{"rw_write_release", rwFieldsText + rwWriteReleaseText, "ee63acc7c005e70bbd305a6047af0a76fa22e2ba", false}
	RwWithdraw     = &Script{"rw_withdraw", rwWithdrawText, "13517e71e0dff53ffb70ea585a3a7894cae238df", false}
	RwRenew        = expiring("rw_renew", rwRenewText, "f21652d536af0fd282d6665f787516712de11ed4")
	RwForce        = &Script{"rw_force", rwFieldsText + rwForceText, "668bab9b84ca4cfa4035c81158279c9a7905a3a9", false}
	PermitTake     = expiring("permit_take", permitTakeText, "134c378cd29a6fdc43103be5186efa53310a1f13")
	PermitRelease  = &Script{"permit_release", permitReleaseText, "7d51734370fc2461f72cf0ee4237718d847344ca", false}
	PermitRenew    = expiring("permit_renew", permitRenewText, "051b1329db5a2c4bacd0b12be0ef0e2bfea42f54")
	PermitExtend   = expiring("permit_extend", permitExtendText, "413a883b89b5c6e4a7f3f56a23357c2d7e801355")
	PermitSet      = expiring("permit_set", permitSetText, "65d4632128d3fef8d782295e834e3c1a109ad503")
	PermitInspect  = &Script{"permit_inspect", permitInspectText, "719ea38b785ebdfa7187ab8c3372f75a8d87be9a", false}
	FairTake       = minting("fair_take", fairTakeText, "fca87fd95621180d4e24f84ed5ab13c0d5aa7959")
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
