package hold

import "time"

const (
	// fairGrace, and an IOTimeout, is how far ahead of the clock the score of a
	// waiter is after each sign of life, so how long Redisson waits for one that
	// died. It has room for a lost request and for clocks that differ by some
	// seconds, whatever MaxPoll is. To that comes the wait of each waiter of Redisson's
	// ahead, wire.FairPatience for most, because each of those takes as much away once,
	// when it gets the lock or leaves. Ours change the scores of others only upwards: those
	// behind one that lives stay at least wire.FairPatience behind it, if they are
	// Redisson's, so a long wait drops nobody.
	fairGrace = (fairMissed + 2) * fairPeriod
	// fairPeriod is the longest time between two signs of life, and what is
	// believed of a sign that names none.
	fairPeriod = 2 * time.Second
	// fairMissed is how many missing signs make a waiter dead.
	fairMissed = 3
)

// fairGraceOf is how far ahead of the clock a score is.
func fairGraceOf(ioTimeout time.Duration) time.Duration { return fairGrace + ioTimeout }

// fairQueueOf is how long the queue lives at least without a sign of life.
func fairQueueOf(cfg *Config) time.Duration {
	return (fairMissed+2)*fairNextSign(cfg) + cfg.IOTimeout
}

// fairSignEach is how long a waiter sleeps at most between two signs of life.
func fairSignEach(cfg *Config) time.Duration { return min(cfg.MaxPoll, fairPeriod) }

// fairNextSign is the period after which the other waiters, whose MaxPoll may differ, may miss
// the next sign. fairMissed of these periods leave room for a request that is lost.
func fairNextSign(cfg *Config) time.Duration {
	return max(min(fairSignEach(cfg)+cfg.IOTimeout/fairMissed, fairPeriod), time.Millisecond)
}
