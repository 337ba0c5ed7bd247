package script

import "embed"

//go:embed *.lua
var files embed.FS

// all is every script of the table below, in its order.
var all []*Script

// The scripts. The header of each file names KEYS, ARGV and every answer.
var (
	// A lock of one owner: Mutex, and with a token FencedMutex and RedLock's members.
	Acquire = define("acquire", "83873e4b717e578474459b5d846e64e9b61a6f81", expires|mints|acquires)
	Reenter = define("reenter", "698bee1d6be06712098d45015a2b71249b1a41f6", expires)
	Release = define("release", "4e95e5f00349e31928aebab762328be9a8022974", publishes)
	Handoff = define("handoff", "335835a3c5286da78ec8d9fa17464f445e303203", expires|mints)
	Force   = define("force", "85d96b640079a5d7df6b72b5f734867c0e944222", publishes)
	Guard   = define("guard", "e9ed204bbcfe44bc266eb4dafcc733ba68bd2100", expires|large)
	Inspect = define("inspect", "01525188bce2daa18c937e0d0a53459605e48a8f", large)
	Renew   = define("renew", "daf37aa8273f52a3fda7015072a71ee04ce42ebe", expires)
	Token   = define("token", "d70499e12edb2194885c73b2856c8f80c51f26e0", expires|mints)

	// FairMutex.
	FairTake    = define("fair_take", "322921eb382216ee46f1b812192973ed7ffe8531", expires|mints|acquires)
	FairRelease = define("fair_release", "50f1c9b63e987ff930b7a9dcc58480c27fd15b37", publishes)
	FairForce   = define("fair_force", "11e78acf97f233c25577b75e9ecbbeb40e8e961a", publishes)

	// RWMutex.
	RwRead         = define("rw_read", "77e5b934cb64c7f47c0c578eb4f0df4c34416ae8", expires|fields|acquires)
	RwWrite        = define("rw_write", "f1e4af17bff031f3aa9cc633328b7b6ea9c6e162", expires|fields|acquires)
	RwReadReenter  = define("rw_read_reenter", "84755a9f59967bdc4a737ff558f4c9defaada3cc", expires)
	RwReadRelease  = define("rw_read_release", "fee1cfe0b1a7afe5b67e87f718e58603070e0687", fields|concludes|publishes)
	RwWriteRelease = define("rw_write_release", "3746ae0b2798facd4123060400d1b21501ded6ee", fields|concludes|publishes)
	RwWithdraw     = define("rw_withdraw", "13517e71e0dff53ffb70ea585a3a7894cae238df", publishes)
	RwRenew        = define("rw_renew", "325125fb6d12dd872ebb84ca8962bb0b3b49959a", expires)
	RwForce        = define("rw_force", "947ff7dd405ff89c12f1be198cb7349ab35efc47", fields|publishes)

	// Semaphore and CountDownLatch.
	SemaphoreSet     = define("semaphore_set", "655b048b393c7e5a10fc6b601f4345d3695fa543", expires|publishes)
	SemaphoreAdd     = define("semaphore_add", "ef594591575f9373d2720a2862b8b54211e71fe5", expires|publishes)
	SemaphoreTake    = define("semaphore_take", "2e3c671345516c1b3da7590dd05a9f7ff06adecf", expires)
	SemaphoreUndo    = define("semaphore_undo", "15d36fc525df212a2056a531bcfb53e3b172c6a8", expires|publishes)
	SemaphoreRelease = define("semaphore_release", "dc804c32551995689eff5fcf8e477c10b0dc343f", expires|publishes)
	SemaphoreDelete  = define("semaphore_delete", "e9220372fb3ce1f4b22a2d706829cb74c773b5aa", expires)
	SemaphoreExpire  = define("semaphore_expire", "01b37a8c50c6b3a614f993df305c0c0285758b43", expires)
	SemaphoreTTL     = define("semaphore_ttl", "50effcbfbeddfabea74a222810426e1cb8e29e98", 0)
	LatchSet         = define("latch_set", "9aeb78d714b7bf63a1789cd54710dd524492ccf2", expires|publishes)
	LatchDown        = define("latch_down", "8a56807fae9c10638bc1ac74cb5198727ae98443", expires|publishes)
	LatchReset       = define("latch_reset", "86a4504eceea1e0307b837f07442fbad28774f84", expires|publishes)
	Count            = define("count", "24ab821ce14943ca042876346d173804a1718e1e", 0)

	// PermitSemaphore.
	PermitTake     = define("permit_take", "c3e59113973d2a8b9100c9ce093fde784812b7ab", expires|permits|acquires)
	PermitRelease  = define("permit_release", "9c9b9fdc1df029c3b1d364e682d1fbde616c2be5", permits|publishes)
	PermitRenew    = define("permit_renew", "e0601c72bdfa41080b35995b09b06a8e1001435b", expires|permits)
	PermitExtend   = define("permit_extend", "d99ba327dcdd4606c1d2734e68cec880061beee9", expires|permits)
	PermitSet      = define("permit_set", "509a17418765afcdef290b4c4c3f7b1a5e0d604c", expires|publishes)
	PermitInspect  = define("permit_inspect", "719ea38b785ebdfa7187ab8c3372f75a8d87be9a", 0)
	PermitFree     = define("permit_free", "e749a7caabf3ed7fe8774f747bf55ea8bc6e3043", expires|publishes)
	PermitSetLease = define("permit_set_lease", "54da32e5a90586181f796369e0d05e427a07d105", expires)
	PermitDeadline = define("permit_deadline", "e96012a9b22c583450155ec3fb07a47db9221731", 0)

	// What a client asks about the server.
	Uptime = define("uptime", "25f6559037ec41b5935bc081ef53d1c097afd6d6", 0)
	Check  = define("check", "bd0e22dc9f05b0e9d51b3dbdcb336af59a7d1c09", 0)
)
