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
	FairTake    = define("fair_take", "3170f6f4cb15badbe035b1c2c2136f78809e9933", expires|mints|acquires|others)
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
	SemaphoreAdd     = define("semaphore_add", "7191b397c7d1ced2968e20ac09b92917f2631e7e", expires|publishes|once|counts|tells|remembers)
	SemaphoreTake    = define("semaphore_take", "68c78dadebbc2254c34f2e810d4d4bc7632a0b8b", expires|counts|remembers)
	SemaphoreUndo    = define("semaphore_undo", "a549a4726c2eccb22d1babdf6cb24f00ac8e032b", expires|publishes|counts|tells)
	SemaphoreRelease = define("semaphore_release", "65b27828b8052097d5db2cd77057932816695ce1", expires|publishes|once|counts|tells|remembers)
	SemaphoreDelete  = define("semaphore_delete", "2abf0410f622021261f087f89e9573ed60786f11", expires|once|counts|remembers)
	SemaphoreExpire  = define("semaphore_expire", "710f9c132038633293c6c983a7171baeaba9f453", expires|once|counts|remembers)
	SemaphoreTTL     = define("semaphore_ttl", "1fcf9ddad3d6f187632bc2b052b77dd8f2ba553a", counts)
	LatchSet         = define("latch_set", "58ef0b77b872695165278829cb05bd6792ccebeb", expires|publishes|once|tells)
	LatchDown        = define("latch_down", "3cbe8253558d706175ec03bfed11a1baf5d9e6b8", expires|publishes|once|tells|counts|remembers)
	LatchReset       = define("latch_reset", "c35a5eb49ef87cfea9f3a5232960bf056b67a2b8", expires|publishes|once|counts|tells|remembers)
	Count            = define("count", "24ab821ce14943ca042876346d173804a1718e1e", 0)

	// PermitSemaphore.
	PermitTake     = define("permit_take", "0345b395cc27a8ca97174eaa991d650df4cc9fff", expires|permits|acquires|counts)
	PermitRelease  = define("permit_release", "0aec812ad8bd7672b3c51391664affc7e03629f6", permits|publishes|counts|tells)
	PermitRenew    = define("permit_renew", "2e9e35a06cff2864dbe03b33265a559ca119c91a", expires|permits)
	PermitExtend   = define("permit_extend", "e4a5a27e4b1274c3bf395ca1cfda6b500586527a", expires|permits)
	PermitSet      = define("permit_set", "a84b87da667fb9da8367b60396fde88eaee7a23c", expires|publishes|once|counts|tells|remembers)
	PermitInspect  = define("permit_inspect", "8a28d34913aac0b5ad5924fd8b1a021a77a59034", counts)
	PermitFree     = define("permit_free", "460837f47aa118f07a598fd93a7052cf59c053d0", expires|publishes|permitIDs|counts|tells|remembers)
	PermitSetLease = define("permit_set_lease", "40ad5fd817f921594f2feb3b21f0f11e7aab7a83", expires|permitIDs|once|remembers)
	PermitDeadline = define("permit_deadline", "8f0f538cc0ceaf8bc3d1cc4f68ed6a99d3feec92", permitIDs)

	// Questions about the server.
	Uptime = define("uptime", "25f6559037ec41b5935bc081ef53d1c097afd6d6", 0)
	Check  = define("check", "5b152891939a80cee1431bf90de30e5a0b1d2eda", effects)
)
