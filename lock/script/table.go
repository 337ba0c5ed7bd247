package script

import "embed"

//go:embed *.lua
var files embed.FS

// all is every script of the table below, in its order.
var all []*Script

// The scripts. The header of each file names KEYS, ARGV and every answer.
var (
	// A lock of one owner: Mutex, and with a token FencedMutex and RedLock's members.
	Acquire = define("acquire", "2a5dac2b1c71f98ae4bd8535772b0a69983129b0", expires|mints|acquires)
	Reenter = define("reenter", "27d19575e1c18df52ccf6485c9c2373549bb8442", expires|held)
	Release = define("release", "4e95e5f00349e31928aebab762328be9a8022974", publishes)
	Handoff = define("handoff", "3912c65fb98f5007feb79caed5b0c1104b7331dc", expires|mints|held)
	Force   = define("force", "169fe604c5e91535c19aa346f7040d65c7b124dd", publishes|forces|tells)
	Guard   = define("guard", "144c7658ca4a88451280f203366dae39cc4860ea", expires|large|held)
	Inspect = define("inspect", "5e043b7359e30be2291a17c5945ad858bca5b538", large|others)
	Renew   = define("renew", "daf37aa8273f52a3fda7015072a71ee04ce42ebe", expires)
	Token   = define("token", "d70499e12edb2194885c73b2856c8f80c51f26e0", expires|mints)

	// FairMutex.
	FairTake    = define("fair_take", "134ef3164215c02611570557403780a31ac8e35c", expires|mints|acquires|others)
	FairRelease = define("fair_release", "1c3680424c45d0d7c102af494fd436841f51ab45", publishes)
	FairForce   = define("fair_force", "950c88a1a8c918f242936ffaf34f6f242f8239f1", publishes|forces|tells)

	// RWMutex.
	RwRead         = define("rw_read", "6ee1f0f165887e723a7cf041ff9b0e071356de18", expires|fields|acquires|others|takesRW)
	RwWrite        = define("rw_write", "939770e897bb4b6f8d4124926ffa835da447a843", expires|fields|acquires|others|takesRW)
	RwReadReenter  = define("rw_read_reenter", "3fa61237f599d9d0e7ef915fa6af9c02a24987f1", expires|held)
	RwReadRelease  = define("rw_read_release", "309c435b04d6adf8fc11cbca8e8a3ad959a5f893", fields|concludes|publishes|held)
	RwWriteRelease = define("rw_write_release", "d10f8e254372ab28e14209d0381dad516f41afd8", fields|concludes|publishes|held)
	RwWithdraw     = define("rw_withdraw", "576357a106b17dcaded77125e0f1a7fa9cdcecd2", publishes|tells)
	RwRenew        = define("rw_renew", "325125fb6d12dd872ebb84ca8962bb0b3b49959a", expires)
	RwForce        = define("rw_force", "907c52f937fef4396272066523a19e635d9e3dcc", fields|publishes)

	// Semaphore and CountDownLatch.
	SemaphoreSet     = define("semaphore_set", "7b36df46c084980148ec29d78bd600badfed35a2", expires|publishes|once|tells)
	SemaphoreAdd     = define("semaphore_add", "01ea27b0a9244ec89d41eaa75833aed99481cec7", expires|publishes|once|counts|tells|remembers)
	SemaphoreTake    = define("semaphore_take", "3288c1ec504bc246245aae845f8ebf79bf268ffa", expires|counts|remembers)
	SemaphoreUndo    = define("semaphore_undo", "a42c878b486bda9d180e088a5454abace0ec15af", expires|publishes|counts|tells)
	SemaphoreRelease = define("semaphore_release", "bbad14211c462ba16cd2c22fb37a9bae17fb369c", expires|publishes|once|counts|tells|remembers)
	SemaphoreDelete  = define("semaphore_delete", "2d3d1da4519bae2f01de74f5c494b3eefa557d24", expires|once|counts|remembers)
	SemaphoreExpire  = define("semaphore_expire", "683bb4cbaf489cf4c3615be15048942fb80a5a11", expires|once|counts|remembers)
	SemaphoreTTL     = define("semaphore_ttl", "1fcf9ddad3d6f187632bc2b052b77dd8f2ba553a", counts)
	LatchSet         = define("latch_set", "997244bd6d1b5e6d8927eefd36981fdba7b1a81f", expires|publishes|once|tells)
	LatchDown        = define("latch_down", "c7d36bf34a80037e317ae909fc9474b08d9dc12f", expires|publishes|once|tells|counts|remembers)
	LatchReset       = define("latch_reset", "275a54d3ad180fa2bb0abf9a47001f97a118bea7", expires|publishes|once|counts|tells|remembers)
	Count            = define("count", "24ab821ce14943ca042876346d173804a1718e1e", 0)

	// PermitSemaphore.
	PermitTake     = define("permit_take", "0f586aac74fa0a8a12b10628b8226dd95a4d89d0", expires|permits|acquires|counts)
	PermitRelease  = define("permit_release", "0aec812ad8bd7672b3c51391664affc7e03629f6", permits|publishes|counts|tells)
	PermitRenew    = define("permit_renew", "62a111c66985ecce23632e9c8d3ee6efa43cd677", expires|permits)
	PermitExtend   = define("permit_extend", "851c1ddcf7fcc36ed9a728dacd17bf8134fbd316", expires|permits)
	PermitSet      = define("permit_set", "ec736a67945f0b008d7af3daf629c7f673706050", expires|publishes|once|counts|tells|remembers)
	PermitInspect  = define("permit_inspect", "8a28d34913aac0b5ad5924fd8b1a021a77a59034", counts)
	PermitFree     = define("permit_free", "159c8c2057fae0aa5e26ed27b21f61b004e781fb", expires|publishes|permitIDs|counts|tells|remembers)
	PermitSetLease = define("permit_set_lease", "9e6438f03b7a46277c8003152ef49d96c210c57e", expires|permitIDs|once|remembers)
	PermitDeadline = define("permit_deadline", "8f0f538cc0ceaf8bc3d1cc4f68ed6a99d3feec92", permitIDs)

	// What a client asks about the server.
	Uptime = define("uptime", "25f6559037ec41b5935bc081ef53d1c097afd6d6", 0)
	Check  = define("check", "bd0e22dc9f05b0e9d51b3dbdcb336af59a7d1c09", 0)
)
