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
	SemaphoreSet   = &Script{"semaphore_set", semaphoreSetText, "e6191cfb1ce04c9d513c1f53e89589b917d2288a"}
	SemaphoreAdd   = &Script{"semaphore_add", semaphoreAddText, "0cf29e0e8caeef8935273dfb9f28266cd7eb7978"}
	SemaphoreTake  = &Script{"semaphore_take", semaphoreTakeText, "9e4a9a9ca23966ce703a388da97d00c3abe8e39d"}
	SemaphoreUndo  = &Script{"semaphore_undo", semaphoreUndoText, "42dbc7d3d17e1b920276b35388651e25c0a40760"}
	LatchSet       = &Script{"latch_set", latchSetText, "99ef24e42ae9d5b753b112aa77c8227733f109e0"}
	LatchDown      = &Script{"latch_down", latchDownText, "e9e095f25be706447d20b167b803c409fd7ffdf5"}
	LatchReset     = &Script{"latch_reset", latchResetText, "43c0df34967c24e5b62c7154ed7457918de13649"}
	Count          = &Script{"count", countText, "c6396d368e216de90cae2f155be25ad8a5b38c14"}
	RwRead         = &Script{"rw_read", rwReadText, "cc504c5f76c6c9d2e9f90efffe9c9757e57d96ad"}
	RwWrite        = &Script{"rw_write", rwWriteText, "da077dcf7ea85e6a2784368a361e7d0b7fdd97bf"}
	RwReadReenter  = &Script{"rw_read_reenter", rwReadReenterText, "fc1335125ff132732a50d0518db40aa717119266"}
	RwReadRelease  = &Script{"rw_read_release", rwReadReleaseText, "287aded6b519121a0f64f7a82b5cf6c95bec8c8a"}
	RwWriteRelease = &Script{"rw_write_release", rwWriteReleaseText, "80337bd1ecb6cd82590e88cf00ad1c137a691fd4"}
	RwWithdraw     = &Script{"rw_withdraw", rwWithdrawText, "0b6c609eb653dbd5d9cd4221817050d8fc41efe2"}
	RwRenew        = &Script{"rw_renew", rwRenewText, "2580c761f6a7c3d3e50054b0338b56ef64214fe3"}
	RwForce        = &Script{"rw_force", rwForceText, "5476c4faf83562226af1730891e2407c5744c169"}
	PermitTake     = &Script{"permit_take", permitTakeText, "f6bfaf8c26ad39e93df8c57de3a0c52390539bd6"}
	PermitRelease  = &Script{"permit_release", permitReleaseText, "f6b1d9efa81786d36e9821e6245756092fadc0b9"}
	PermitRenew    = &Script{"permit_renew", permitRenewText, "cbb1452cc1d24de8ac99d3d13fe35c7a09439db6"}
	PermitExtend   = &Script{"permit_extend", permitExtendText, "a6d23f8190fd34559fd310da13c714f785f84591"}
	PermitSet      = &Script{"permit_set", permitSetText, "acbaa469f6b47b35d2229679d08c5a0881610b81"}
	PermitInspect  = &Script{"permit_inspect", permitInspectText, "719ea38b785ebdfa7187ab8c3372f75a8d87be9a"}
	FairTake       = &Script{"fair_take", fairTakeText, "2fb8df847fac5775dc543f7d4279186026a392ee"}
	FairRelease    = &Script{"fair_release", fairReleaseText, "327e42d73a177593fa63a4ebc1cc13282ac7d74f"}
	FairForce      = &Script{"fair_force", fairForceText, "a21e593da98fb8cef5aef248a37e65297a60b791"}
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
