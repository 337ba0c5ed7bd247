package main

// promise is a sentence of the documents, and what proves it: a bug that breaks it, and the tests
// that find the bug. promises_test.go makes lock/PROMISES.md of them.
type promise struct {
	id   string // "P1"; the document has it in brackets behind the sentence. It is never given twice
	says string
	doc  string   // the document, from the root of the module
	bugs []string // names of bugs
}

// promises are chosen from the documents: what users would notice first if it were broken.
var promises = []promise{
	{"P1", "No two owners hold a lock at the same time, as long as Redis keeps its key.", "lock/doc.go", []string{"writer-joins-a-caller-that-writes", "run-is-not-timed", "handed-on-though-a-request-is-unsure"}},
	{"P2", "A holder is told of its loss before Redis lets the key expire, whatever the network does.", "lock/doc.go", []string{"trust-of-a-renewal-counts-from-the-answer", "trust-of-an-acquisition-counts-from-the-answer"}},
	{"P3", "An error says whether Redis refused, did not answer or was not asked.", "lock/doc.go", []string{"no-answer-is-a-no", "not-sent-is-unknown", "last-try-alone-is-told"}},
	{"P4", "A request that arrives late or twice does no harm.", "lock/doc.go", []string{"open-request-is-forgotten", "fair-copy-after-the-release-is-not-owed", "fair-kept-field-is-an-orphan"}},
	{"P5", "A lease is renewed whenever a third of it has passed.", "lock/doc.go", []string{"slot-is-late"}},
	{"P6", "Go and Java processes can share locks.", "lock/doc.go", []string{"channel-is-not-redissons"}},
	{"P7", "The token of a hold is higher than those of all holds before it.", "lock/held.go", []string{"run-token-is-the-last-ones"}},
	{"P8", "Tokens rise after Redis has lost its data, too.", "lock/held.go", []string{"lost-counter-begins-at-one", "mint-begins-too-low"}},
	{"P9", "Unlock returns ErrLost if the lock had been lost.", "lock/held.go", []string{"unlock-of-what-is-gone-says-nothing"}},
	{"P10", "Unlock wakes a waiter.", "lock/held.go", []string{"release-wakes-nobody"}},
	{"P11", "An attempt whose caller has left is given back.", "lock/close.go", []string{"left-attempt-is-kept", "who-leaves-drops-what-was-handed-to-it"}},
	{"P12", "After at most 64 hand-overs in memory other clients have their turn.", "lock/design.go", []string{"run-never-ends"}},
	{"P13", "A FairMutex passes over a waiter that has died within three of its periods.", "lock/mutex.go", []string{"fair-dead-waiter-is-passed-late", "fair-dead-waiter-is-not-passed"}},
	{"P14", "Waiters of a FairMutex keep their places over a stall of Redis of up to four of their periods, 8 s by default, and over a cut of the network of up to three that cuts off all of them.", "lock/mutex.go", []string{"fair-outage-kills", "fair-signs-go-one-by-one"}},
	{"P15", "While a writer waits, new readers of an RWMutex wait until it has had its turn or has stopped waiting.", "lock/rwmutex.go", []string{"reader-passes-a-writer", "writer-that-leaves-keeps-readers-out"}},
	{"P16", "With DropForgotten, a lock whose Held is unreachable ends with its lease.", "lock/config.go", []string{"forgotten-is-renewed"}},
	{"P17", "A Logger that blocks delays no renewal and no call.", "lock/config.go", []string{"log-is-written-by-its-cause"}},
	{"P18", "Close returns when its context ends, though a hook or the Logger blocks.", "lock/close.go", []string{"close-waits-for-a-stuck-logger"}},
	{"P19", "A server that falls silent costs UnlockMany two UnlockTimeouts, however many locks it has.", "lock/many.go", []string{"silent-server-is-waited-for"}},
	{"P20", "No error and no log has a password.", "lock/open.go", []string{"password-of-credentials-is-shown"}},
	{"P21", "Wait of a CountDownLatch returns nil only when the latch is open.", "lock/latch.go", []string{"latch-opens-early"}},
	{"P22", "A CountDown takes effect once, however often its request is sent.", "lock/latch.go", []string{"count-down-counts-twice"}},
	{"P23", "ForceUnlock deletes the lock, whoever holds it, and wakes waiters.", "lock/inspect.go", []string{"force-touches-what-it-has-deleted", "doubtful-hold-is-handed-on-in-memory"}},
	{"P24", "A holder of a RedLock is told of a loss before its servers release a quorum.", "lock/redlock.go", []string{"redlock-told-late-after-a-loss", "redlock-without-drift"}},
	{"P25", "A member of a RedLock that may have forgotten a hold has no vote.", "lock/redlock.go", []string{"redlock-asks-a-young-server"}},
	{"P26", "A member of a RedLock whose key was deleted is not taken again.", "lock/redlock.go", []string{"retake-of-a-deleted-member"}},
	{"P27", "Two calls of one owner never ask the members of a RedLock at the same time.", "lock/internal/engine/quorum/line.go", []string{"redlock-asks-twice-for-an-owner"}},
	{"P28", "Tokens rise from holder to holder while a slot of a Cluster moves.", "lock/cluster/doc.go", []string{"token-while-a-slot-moves-is-an-old-one", "ask-without-asking"}},
	{"P29", "An object of several keys is not taken before its slot has arrived, and a try leaves nothing behind.", "lock/cluster/doc.go", []string{"writer-follows-an-ask", "refused-by-a-moving-slot-is-owed"}},
	{"P30", "Redirections to ever new addresses cost 64 servers at most.", "lock/internal/transport/servers/router.go", []string{"redirections-open-any-number-of-servers"}},
	{"P31", "Sentinels without a majority leave the known master.", "lock/sentinel/doc.go", []string{"sentinel-minority-moves-the-master"}},
	{"P32", "A StreamingCredentialsProvider always has a subscriber.", "lock/lockgoredis/doc.go", []string{"provider-loses-its-last-subscriber"}},
	{"P33", "A StreamingCredentialsProvider that hangs does not hang the Client.", "lock/lockgoredis/doc.go", []string{"dials-wait-for-a-provider-that-hangs"}},
	{"P34", "The command wheellock does its work though nobody reads its lines.", "lock/cmd/wheellock/doc.go", []string{"line-is-waited-for"}},
	{"P35", "What comes on an idle connection is no answer to a later request.", "lock/internal/transport/pipe/doc.go", []string{"idle-connection-is-not-looked-at"}},
	{"P36", "A call that leaves a queue costs the same however many wait.", "lock/internal/engine/waitqueue/line.go", []string{"leave-looks-at-all"}},
	{"P37", "A timer never fires early.", "wheel/doc.go", []string{"timer-fires-a-tick-early"}},
	{"P38", "Every arming of a timer ends exactly once.", "wheel/doc.go", []string{"stopped-timer-fires"}},
	{"P39", "The wheel holds no reference to a timer that was stopped, or that has fired with all that were due with it.", "wheel/doc.go", []string{"fired-timers-are-held-on-to"}},
	{"P40", "A log that blocks delays no timer.", "wheel/doc.go", []string{"driver-writes-the-log"}},
	{"P41", "No lock of a shard is held while all timers of a far bucket are filed.", "wheel/ring.go", []string{"far-walk-has-no-bound"}},
	{"P42", "A name that a Keeper gives up is released after its functions have returned.", "lock/keeper/doc.go", []string{"keeper-releases-before-ended"}},
	{"P43", "A Keeper asks at once for a name that another owner releases.", "lock/keeper/doc.go", []string{"keeper-forgets-what-it-heard", "keeper-follows-nobody"}},
	{"P44", "While Redis is down a Keeper sends one try at a time.", "lock/keeper/doc.go", []string{"keeper-probes-with-all-names"}},
}
