package world_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// shared are the servers that the tests of this package share.
var shared fixture.Shared

func TestMain(m *testing.M) {
	if arg := os.Getenv(childEnv); arg != "" {
		if err := childMain(arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Parallel tests mostly wait. The command line may set another number.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(shared.Main(m))
}

// onRedis returns the server that all tests share, or skips the test without one.
func onRedis(t *testing.T) *redistest.Server {
	t.Helper()
	return shared.Server(t)
}

// fiveMasters returns the masters that all tests share.
func fiveMasters(t *testing.T) []*redistest.Server {
	t.Helper()
	return shared.Masters(t)
}

// redLease is the lease of RedLocks.
var redLease = fixture.RedLease()
