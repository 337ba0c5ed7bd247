package script

import "embed"

//go:embed *.lua
var files embed.FS

// all is every script of the table below, in its order.
var all []*Script

// The scripts. The header of each file lists KEYS, ARGV and every answer.
var (
	// Locks of one owner: Mutex, and with a token FencedMutex and the members of a RedLock.
	Acquire = define("acquire", "384be972b3addca54803b72113a6d9ea35d8c5ea", expires|mints|acquires)
	Reenter = define("reenter", "c30d09890e410712282cb9ce9cff1279b0c9fc02", expires|held)
	Release = define("release", "4e95e5f00349e31928aebab762328be9a8022974", publishes)
	Handoff = define("handoff", "2258a517eace0bf2ffec72a58792ad91e2ecb171", expires|mints|held)
	Force   = define("force", "fed30d7f9b6fa55e5bb8070a28a363a3ef7701eb", effects|publishes|forces|tells)
	Guard   = define("guard", "64f71eeb17d7a961496bf440738e022f12eb88e7", expires|large|held)
	Inspect = define("inspect", "5e043b7359e30be2291a17c5945ad858bca5b538", large|others)
	Renew   = define("renew", "501d4936d370df66281f8145e090bbdb7e651a64", expires)
	Token   = define("token", "d9c6e688ebf28e040e3839b412b7d520a0561df5", expires|mints)

	// FairMutex.
	FairTake    = define("fair_take", "6d2045f4ff44d72272a6e1209ddc488194cde3b1", expires|mints|acquires|others)
	FairSign    = define("fair_sign", "08a577dba29b00b4604b682ec952ecb33788c664", expires)
	FairRelease = define("fair_release", "0f14cebc5cf7e453c4fcaa702f36c6047f6aca1d", effects|publishes)
	FairForce   = define("fair_force", "b8c88a54e401f71f8d0fc9d3ec43d33e40c84636", effects|publishes|forces|tells)

	// RWMutex.
	RwRead         = define("rw_read", "a7be341bb653f1a2955084613c3fd391ac2216d0", expires|fields|acquires|concludes|others|takesRW)
	RwWrite        = define("rw_write", "d190aa9d80842bf10a6b03021b967d5167e95a8c", expires|fields|acquires|concludes|others|takesRW)
	RwReadReenter  = define("rw_read_reenter", "cc1a59e4617daccffe1df6fde9f26e4e09705da5", expires|held)
	RwReadRelease  = define("rw_read_release", "cadad7b3e6a330280683b16cc5b4c5b82c1ddc6a", effects|fields|concludes|publishes|held)
	RwWriteRelease = define("rw_write_release", "389a57008e0dd7cd3905b8194a4901244cc442b8", effects|fields|concludes|publishes|held)
	RwWithdraw     = define("rw_withdraw", "72fbaf0985641ab025e404274f3fb05a4cc06e99", publishes|tells)
	RwRenew        = define("rw_renew", "e44dd50e833b31d77ea706bfc82ced34063e6c66", expires)
	RwForce        = define("rw_force", "03e1a1c4591a815ea090fe1eaee6bab42942a00b", effects|fields|concludes|publishes)

	// Semaphore and CountDownLatch.
	SemaphoreSet     = define("semaphore_set", "3956a1e40b975774060e692334e230bb8af98e60", expires|publishes|once|tells)
	SemaphoreAdd     = define("semaphore_add", "90d471e5b8a72b55e7d363c1e5bf111d0b4ef062", expires|publishes|once|counts|tells|remembers)
	SemaphoreTake    = define("semaphore_take", "f0dbd24d33fc12e38f774e464554c4ef2251cf33", expires|counts|remembers)
	SemaphoreUndo    = define("semaphore_undo", "200e19ccb0eff4e596fbf7a42b62242f6ee7a9e7", expires|publishes|counts|tells)
	SemaphoreRelease = define("semaphore_release", "4279f9f3aaccbaedcdce82377acd052b3fc40a53", expires|publishes|once|counts|tells|remembers)
	SemaphoreDelete  = define("semaphore_delete", "c47579b23e2a627a01565bbbc1bdc996fdfaeb80", expires|once|counts|remembers)
	SemaphoreExpire  = define("semaphore_expire", "6d6847b9da0ab186685ac00e1dfdd51e87bb44ff", expires|once|counts|remembers)
	SemaphoreTTL     = define("semaphore_ttl", "5f335cce44add4d000e87e583d1279d01def951e", counts)
	LatchSet         = define("latch_set", "58ef0b77b872695165278829cb05bd6792ccebeb", expires|publishes|once|tells)
	LatchDown        = define("latch_down", "424eaa23b23ab104bad2c86c27a5fb72d33b517b", expires|publishes|once|tells|counts|remembers)
	LatchReset       = define("latch_reset", "c9952c633482eb0024a192cf094daa1d9cc5274f", expires|publishes|once|counts|tells|remembers)
	Count            = define("count", "24ab821ce14943ca042876346d173804a1718e1e", 0)

	// PermitSemaphore.
	PermitTake     = define("permit_take", "405943b6a20dccef95f7e73ec313032c8e069b80", expires|permits|acquires|counts)
	PermitRelease  = define("permit_release", "f2dd59f93215f7f3f4ea30947e8f1597ec665ce8", permits|publishes|counts|tells)
	PermitRenew    = define("permit_renew", "2e9e35a06cff2864dbe03b33265a559ca119c91a", expires|permits)
	PermitExtend   = define("permit_extend", "e4a5a27e4b1274c3bf395ca1cfda6b500586527a", expires|permits)
	PermitSet      = define("permit_set", "fa3a07a1864424a090b6b2788cf1e14e2cc48100", expires|publishes|once|counts|tells|remembers)
	PermitInspect  = define("permit_inspect", "15408897e7917877b057479da0e95ddf92451175", counts)
	PermitFree     = define("permit_free", "04d13521ec063592508c3436e517bdc7f921b22f", expires|publishes|permitIDs|counts|tells|remembers)
	PermitSetLease = define("permit_set_lease", "40ad5fd817f921594f2feb3b21f0f11e7aab7a83", expires|permitIDs|once|remembers)
	PermitDeadline = define("permit_deadline", "8f0f538cc0ceaf8bc3d1cc4f68ed6a99d3feec92", permitIDs)

	// Questions about the server.
	Uptime = define("uptime", "25f6559037ec41b5935bc081ef53d1c097afd6d6", 0)
	Check  = define("check", "5b152891939a80cee1431bf90de30e5a0b1d2eda", effects)
)
