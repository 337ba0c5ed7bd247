package script

import "embed"

//go:embed *.lua
var files embed.FS

// all is every script of the table below, in its order.
var all []*Script

// The scripts. The header of each file names KEYS, ARGV and every answer.
var (
	// A lock of one owner: Mutex, and with a token FencedMutex and RedLock's members.
	Acquire = define("acquire", "9d749fc168ce8ec56a10eee9fddc6c935a29aefa", expires|mints|acquires)
	Reenter = define("reenter", "c99183d9fefbc2abc3251f7e939a1a14f8c48a3b", expires|held)
	Release = define("release", "4e95e5f00349e31928aebab762328be9a8022974", publishes)
	Handoff = define("handoff", "941fc0228762b7bbe4d54a0b5b22139c728b96bd", expires|mints|held)
	Force   = define("force", "169fe604c5e91535c19aa346f7040d65c7b124dd", publishes|forces|tells)
	Guard   = define("guard", "144c7658ca4a88451280f203366dae39cc4860ea", expires|large|held)
	Inspect = define("inspect", "5e043b7359e30be2291a17c5945ad858bca5b538", large|others)
	Renew   = define("renew", "daf37aa8273f52a3fda7015072a71ee04ce42ebe", expires)
	Token   = define("token", "d70499e12edb2194885c73b2856c8f80c51f26e0", expires|mints)

	// FairMutex.
	FairTake    = define("fair_take", "3c9f1933d27b7f84116129162e73c3d978dbc844", expires|mints|acquires|others)
	FairRelease = define("fair_release", "50f1c9b63e987ff930b7a9dcc58480c27fd15b37", publishes)
	FairForce   = define("fair_force", "950c88a1a8c918f242936ffaf34f6f242f8239f1", publishes|forces|tells)

	// RWMutex.
	RwRead         = define("rw_read", "be7d4d9eca4e43f63614b65cec45070ee9d13af8", expires|fields|acquires|others|takesRW)
	RwWrite        = define("rw_write", "5510c83d222c3fe3d44ba91af70747adb1bf2345", expires|fields|acquires|others|takesRW)
	RwReadReenter  = define("rw_read_reenter", "f5d7d8ed7cee7d2151797c8417815e8c75da1f18", expires|held)
	RwReadRelease  = define("rw_read_release", "1e4922efbad0d2932d9f7a6e0983f926ce4ed78b", fields|concludes|publishes|held)
	RwWriteRelease = define("rw_write_release", "5a0bd39a0df9c9a63d3ffe58d1508d6d0882859d", fields|concludes|publishes|held)
	RwWithdraw     = define("rw_withdraw", "576357a106b17dcaded77125e0f1a7fa9cdcecd2", publishes|tells)
	RwRenew        = define("rw_renew", "325125fb6d12dd872ebb84ca8962bb0b3b49959a", expires)
	RwForce        = define("rw_force", "947ff7dd405ff89c12f1be198cb7349ab35efc47", fields|publishes)

	// Semaphore and CountDownLatch.
	SemaphoreSet     = define("semaphore_set", "7b36df46c084980148ec29d78bd600badfed35a2", expires|publishes|once|tells)
	SemaphoreAdd     = define("semaphore_add", "69f6ed3a99c284018f86c1f141c27ea3283b5844", expires|publishes|once|counts|tells)
	SemaphoreTake    = define("semaphore_take", "f093bd69dd488468352f62f35384c56fe248a2e5", expires|counts)
	SemaphoreUndo    = define("semaphore_undo", "29ce7139ec2a8aad248a231203479f4a879c64ab", expires|publishes|tells)
	SemaphoreRelease = define("semaphore_release", "d4dd087848d89d7db9aa48dc3f10b8b6225e8aa7", expires|publishes|once|counts|tells)
	SemaphoreDelete  = define("semaphore_delete", "0504ae05db979e364a3d4abe4f41c0ee785e3f2c", expires|once|counts)
	SemaphoreExpire  = define("semaphore_expire", "07ac2127d208c90d8b578e4d9bbb2c06612b5c46", expires|once|counts)
	SemaphoreTTL     = define("semaphore_ttl", "1fcf9ddad3d6f187632bc2b052b77dd8f2ba553a", counts)
	LatchSet         = define("latch_set", "997244bd6d1b5e6d8927eefd36981fdba7b1a81f", expires|publishes|once|tells)
	LatchDown        = define("latch_down", "f078cfb08244b02f643a3cb4630770e741623d4e", expires|publishes|once|tells)
	LatchReset       = define("latch_reset", "ce4d4acc03fc2d3fed4442134b511d525c7fcbc8", expires|publishes|once|counts|tells)
	Count            = define("count", "24ab821ce14943ca042876346d173804a1718e1e", 0)

	// PermitSemaphore.
	PermitTake     = define("permit_take", "1f18022f49c25520726613a2869292795eefc3d4", expires|permits|acquires|counts)
	PermitRelease  = define("permit_release", "ef15fb06ac4de2092d485eb13aeb262717aa0c69", permits|publishes|counts|tells)
	PermitRenew    = define("permit_renew", "e0601c72bdfa41080b35995b09b06a8e1001435b", expires|permits)
	PermitExtend   = define("permit_extend", "d99ba327dcdd4606c1d2734e68cec880061beee9", expires|permits)
	PermitSet      = define("permit_set", "b368225e80d80282155dc2f23f255a6f4aa92c9b", expires|publishes|once|counts|tells)
	PermitInspect  = define("permit_inspect", "8a28d34913aac0b5ad5924fd8b1a021a77a59034", counts)
	PermitFree     = define("permit_free", "945e35ba51a222fb8e3f3eabf37f251b5a88a5de", expires|publishes|permitIDs|counts|tells)
	PermitSetLease = define("permit_set_lease", "f4e09a454d8951afcd1ceec82ecb17653608f51f", expires|permitIDs|once)
	PermitDeadline = define("permit_deadline", "8f0f538cc0ceaf8bc3d1cc4f68ed6a99d3feec92", permitIDs)

	// What a client asks about the server.
	Uptime = define("uptime", "25f6559037ec41b5935bc081ef53d1c097afd6d6", 0)
	Check  = define("check", "bd0e22dc9f05b0e9d51b3dbdcb336af59a7d1c09", 0)
)
