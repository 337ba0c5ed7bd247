package script

import "embed"

//go:embed *.lua
var files embed.FS

// all is every script of the table below, in its order.
var all []*Script

// The scripts. The header of each file lists KEYS, ARGV and every answer.
var (
	// Locks of one owner: Mutex, and with a token FencedMutex and the members of a RedLock.
	Acquire = define("acquire", "2e4ba7f6f0cd8fd324fe7d1453a72bfce2c71a3c", expires|mints|acquires)
	Reenter = define("reenter", "c1a7598332ab42f15b9c3df495a50bf26316af45", expires|held)
	Release = define("release", "c84070f1a5cc7a515f87fb600532c98d38fe14ff", publishes)
	Handoff = define("handoff", "f1869c3f2543495482051337c9523051d18b94dd", expires|mints|held)
	Force   = define("force", "0d38c87ab0b2a6335d4478f086e8d506b1ebcd54", effects|publishes|forces|tells)
	Guard   = define("guard", "11f0742f7395c5c163b2963776acdf23c8c7c6c2", expires|large|held)
	Inspect = define("inspect", "2ddd40c72c1901afe23c2ee0f8ee86ede822da8d", large|others)
	Renew   = define("renew", "501d4936d370df66281f8145e090bbdb7e651a64", expires)
	Token   = define("token", "bd0465c71bdff13f556491072e53fb192fdbe6cc", expires|mints)

	// FairMutex.
	FairTake    = define("fair_take", "befe3ad7d58bbba3b4fc9aacebceafa3f7b056e3", expires|mints|acquires|others)
	FairSign    = define("fair_sign", "926d574ec7753cdd785c87f53376b935ad9d9de7", expires)
	FairRelease = define("fair_release", "2c29804f1c5dd0fd7214f9c417afdad48faef140", effects|publishes)
	FairForce   = define("fair_force", "a807019d051515cd9827078253031ebfda848ee8", effects|publishes|forces|tells)

	// RWMutex.
	RwRead         = define("rw_read", "130d6229341c6b2a1fc34522a115595ff64a5891", expires|fields|acquires|concludes|others|takesRW)
	RwWrite        = define("rw_write", "e79effecfff7bf7e24bb4a55d2a70c7743546335", expires|fields|acquires|concludes|others|takesRW)
	RwReadReenter  = define("rw_read_reenter", "0cb6d8ef024cb5fde7a371d6117287dd62e1316a", expires|held)
	RwReadRelease  = define("rw_read_release", "8f8bc5f021b0175598d0fd1249a1b265769f039a", effects|fields|concludes|publishes|held)
	RwWriteRelease = define("rw_write_release", "3b4a383c63412ea5d8ff1f7df1b43a735b046a14", effects|fields|concludes|publishes|held)
	RwWithdraw     = define("rw_withdraw", "996f0fd8dc82bcc012bcf4ac1a94fa84976197c6", publishes|tells)
	RwRenew        = define("rw_renew", "2ba227bd105048ab667fe570080859b363088274", expires)
	RwForce        = define("rw_force", "1379c67889902f5ba643bee7e766f1942d3176df", effects|fields|concludes|publishes)

	// Semaphore and CountDownLatch.
	SemaphoreSet     = define("semaphore_set", "d6b34ff49fcfc2488cdf3f8d1a60675194446e13", expires|publishes|once|tells)
	SemaphoreAdd     = define("semaphore_add", "9f4d8a2e75659667d291959635d75829ec2fc313", expires|publishes|once|counts|tells|remembers)
	SemaphoreTake    = define("semaphore_take", "85ea6a09725475a0c007ba70d38bad02cd6b0b3f", expires|counts|remembers)
	SemaphoreUndo    = define("semaphore_undo", "4f0b6fa44d21b5dc4c7a55413749d2d5b516df34", expires|publishes|counts|tells)
	SemaphoreRelease = define("semaphore_release", "9c4210c8df8d62e66272f2d0eea00ddd7751e04a", expires|publishes|once|counts|tells|remembers)
	SemaphoreDelete  = define("semaphore_delete", "ea45372811edc4847176114b7f8a5a1ee3878e47", expires|once|counts|remembers)
	SemaphoreExpire  = define("semaphore_expire", "12367bf2269f33ffe0f5c4168f1b91267bd0f75a", expires|once|counts|remembers)
	SemaphoreTTL     = define("semaphore_ttl", "c012744341dbdafa56c97fa71a415fcdf630eee2", counts)
	LatchSet         = define("latch_set", "b7c640295cc908165a7bd083070f48480ac02961", expires|publishes|once|tells)
	LatchDown        = define("latch_down", "a0e4c24cfa0d116334cf995e3feb31005e7001e2", expires|publishes|once|tells|counts|remembers)
	LatchReset       = define("latch_reset", "1c5a4de0c87ba99a6b5ec249ce644ed9a6b1ee99", expires|publishes|once|counts|tells|remembers)
	Count            = define("count", "970d8cdb48b1066bf3c34e779da6c9afd3786487", 0)

	// PermitSemaphore.
	PermitTake     = define("permit_take", "2e5bfcb0ae9acc840227d8e676d24596ab6d1145", expires|permits|acquires|counts)
	PermitRelease  = define("permit_release", "9b10b3000339010bfbc5b58dbed47f624775bfdd", permits|publishes|counts|tells)
	PermitRenew    = define("permit_renew", "254f1e0467ea94b8d12d44ef9c4d84af043014cc", expires|permits)
	PermitExtend   = define("permit_extend", "40efa652359861f06b4b3855a4f9da9535bd141b", expires|permits)
	PermitSet      = define("permit_set", "572fa1056c0f851d9aad417133e271f158e94b8d", expires|publishes|once|counts|tells|remembers)
	PermitInspect  = define("permit_inspect", "ad6846f38710a38e82a0d8e291795033cd091b55", counts)
	PermitFree     = define("permit_free", "9fadac06da3fb799b233a4e31de990a2ac66e71d", expires|publishes|permitIDs|counts|tells|remembers)
	PermitSetLease = define("permit_set_lease", "7f4efd64a949905f146244daafb7072c15fb72f1", expires|permitIDs|once|remembers)
	PermitDeadline = define("permit_deadline", "4aace926d9c87bd77d610dfcf2f1bf18f0dcf386", permitIDs)

	// Questions about the server.
	Uptime = define("uptime", "25f6559037ec41b5935bc081ef53d1c097afd6d6", 0)
	Check  = define("check", "dc9ba67d14dd11413712622b9370d8224e056f9d", effects)
)
