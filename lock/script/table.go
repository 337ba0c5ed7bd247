package script

import "embed"

//go:embed *.lua
var files embed.FS

// all is every script of the table below, in its order.
var all []*Script

// The scripts. The header of each file lists KEYS, ARGV and every answer.
var (
	// Locks of one owner: Mutex, and with a token FencedMutex and the members of a RedLock.
	Acquire = define("acquire", "e0e8b7421d009d214ab5576a3c828a4a21011cb1", expires|mints|acquires)
	Reenter = define("reenter", "01b4fabe51ff43fd6a70fbd698e4295484ef1efc", expires|held)
	Release = define("release", "1e9c0ae2a44213417a8e11b73d8312b393ddf097", publishes)
	Handoff = define("handoff", "3795dcf4bc8d93dee3cbd441b5c2a028974581b2", expires|mints|held)
	Force   = define("force", "3db52b19a1a92bd0db0a2a8c3bdd7adc53ef64c6", effects|publishes|forces|tells)
	Guard   = define("guard", "b3c7f7c79a1034f887b39cf9873a94f9a5c92b85", expires|large|held)
	Inspect = define("inspect", "89d6066bb34a5227ab5b4c9945b635da510ff239", large|others)
	Renew   = define("renew", "0bf54ad377a21aa0023708753aa00de7d6e782ec", expires)
	Token   = define("token", "8fc75fd5ad95238144cfb1b1c24bb1081b49083c", expires|mints)

	// FairMutex.
	FairTake    = define("fair_take", "fec24f64bee0cb503bc4ec5036eb5e47f8da16a9", expires|clocks|mints|acquires|others)
	FairSign    = define("fair_sign", "c5b2037ae61fc7183ed15c195f0d60c1735e1b72", expires|clocks)
	FairRelease = define("fair_release", "7d780b4ab501050ffddfac7414c112971918b120", effects|publishes)
	FairForce   = define("fair_force", "1f6734cdda2e751ca68aceaebe6c10f8e4fd87c1", effects|publishes|forces|tells)

	// RWMutex.
	RwRead         = define("rw_read", "c44125fcece7a7ec9cb567483536bfcab94a14f9", expires|fields|acquires|concludes|others|takesRW)
	RwWrite        = define("rw_write", "cd3275bbabbc6b7f85da7d3756cde21f716dc0f7", expires|fields|acquires|concludes|others|takesRW)
	RwReadReenter  = define("rw_read_reenter", "75bd1dfdf4bd2fd54d38ecd2135644befa129f45", expires|held)
	RwReadRelease  = define("rw_read_release", "9c38f3fe32128c885b0147a9497caeabefe1fb56", effects|fields|concludes|publishes|held)
	RwWriteRelease = define("rw_write_release", "70b8ce78420c8626241b36d726a45c08c82494ee", effects|fields|concludes|publishes|held)
	RwWithdraw     = define("rw_withdraw", "f8d3464cba08575e412fbbd0406d5768840b9cc3", publishes|tells)
	RwRenew        = define("rw_renew", "cf69009cdb545a3db229490798ae959cf1de25db", expires)
	RwForce        = define("rw_force", "a00bfac500c1887b6bee54b7aca0ef2a43c4f61c", effects|fields|concludes|publishes)

	// Semaphore and CountDownLatch.
	SemaphoreSet     = define("semaphore_set", "ba27403e9e7998db537350ebcda6cbe36746f188", expires|publishes|once|tells)
	SemaphoreAdd     = define("semaphore_add", "dbda2198605e936c5c11913c8a1a0fe2b038607f", expires|publishes|once|counts|tells|remembers)
	SemaphoreTake    = define("semaphore_take", "003c1eceefd40ca7a1732ed3c6338ef9c49c41f4", expires|counts|remembers)
	SemaphoreUndo    = define("semaphore_undo", "30af81c820fe7821d7a22e0720a2d1f6202ba523", expires|publishes|counts|tells)
	SemaphoreRelease = define("semaphore_release", "b7637afff69bbac2aaaf39dc4516fc1b17f70ac7", expires|publishes|once|counts|tells|remembers)
	SemaphoreDelete  = define("semaphore_delete", "29c4946e77245e71cf81317e937e5fa24f0243df", expires|once|counts|remembers)
	SemaphoreExpire  = define("semaphore_expire", "5b8b829bccfe66c0356db1ff0018d1a5e29aa999", expires|once|counts|remembers)
	SemaphoreTTL     = define("semaphore_ttl", "afb60a20cba0f7d53664950d16ac917ec1de9eb9", counts)
	LatchSet         = define("latch_set", "3c7db971c896dfcd1d183fc3624f6f4b6476e1ea", expires|publishes|once|tells)
	LatchDown        = define("latch_down", "c9b355f9b759c44ecd94deb73d37c499642608fb", expires|publishes|once|tells|counts|remembers)
	LatchReset       = define("latch_reset", "24467fb6549af2b2e20213f8b90e751989da13b4", expires|publishes|once|counts|tells|remembers)
	Count            = define("count", "1400d027514481d3dce281d07eed770abd47730d", 0)

	// PermitSemaphore.
	PermitTake     = define("permit_take", "61c12a585ac55f3aabda6977c5f4d7368bbb7c90", expires|clocks|permits|acquires|counts)
	PermitRelease  = define("permit_release", "881a26c57c1e65f11648a397b0fbf1781dce6ac8", permits|publishes|counts|tells)
	PermitRenew    = define("permit_renew", "44da0e1d1a82a38325f393b5931c4197d01cd8d4", expires|clocks|permits)
	PermitExtend   = define("permit_extend", "a8b3fd9ab4601a35ae94547e60f7964abdd93470", expires|clocks|permits)
	PermitSet      = define("permit_set", "917a795b1727aa630f81e57377a5ffd385b1bdc1", expires|publishes|once|counts|tells|remembers)
	PermitInspect  = define("permit_inspect", "12698c3acf4ea9f82fe175e6b9a2b300ca59a0ed", counts)
	PermitFree     = define("permit_free", "2ece38601168e78548c06b37f632634b0b70d815", expires|clocks|publishes|permitIDs|large|counts|tells|remembers)
	PermitSetLease = define("permit_set_lease", "64732151c675fbb03565fd6c1a7fe6a648775bf7", expires|clocks|permitIDs|once|remembers)
	PermitDeadline = define("permit_deadline", "767cde461577ce4e5891c2f96cbe3b0c537aa41a", permitIDs)

	// Questions about the server.
	Uptime = define("uptime", "d1cfcbbed529431f7251b1050e79bd31917b3ec4", 0)
	TTL    = define("ttl", "3ead0669277336af9ff1072ab64f1c4de8848147", 0)
	Check  = define("check", "3a5e355b73cad92f8addef9f55384eef70ac116f", effects)
)
