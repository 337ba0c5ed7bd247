package wait

import (
	"math/rand/v2"
	"time"
)

// Random returns the random numbers of one client, from source or, if that is nil, from the
// source of math/rand/v2. They are safe for concurrent use if source is.
func Random(source rand.Source) *rand.Rand {
	if source == nil {
		source = global{}
	}
	return rand.New(source)
}

// global is the source of math/rand/v2, which has a random seed and is safe for concurrent use.
type global struct{}

func (global) Uint64() uint64 { return rand.Uint64() }

// Upto returns a random duration from 0 to below d, which is above 0.
func Upto(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
