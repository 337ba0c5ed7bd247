package lock_test

import (
	"testing"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// masters are five independent servers that the package's tests share.
var masters fixture.Masters

// fiveMasters returns them when they may vote on locks of redLease.
func fiveMasters(t *testing.T) []*redistest.Server {
	t.Helper()
	onRedis(t)
	return masters.Five(t)
}

// redLease is the lease of RedLocks.
var redLease = fixture.RedLease()
