package world_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// server is a real Redis for the package's tests, or nil without one.
var server *redistest.Server

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

func TestMain(m *testing.M) {
	if arg := os.Getenv(childEnv); arg != "" {
		if err := childMain(arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Those that are parallel wait, mostly. The command line may say otherwise.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	s, err := redistest.Start(context.Background(), redistest.Options{})
	switch {
	case err == nil:
		server = s
	case redistest.Required():
		fmt.Fprintln(os.Stderr, "world: the tests need a redis-server:", err)
		return 1
	}
	code := m.Run()
	if err := masters.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// onRedis returns the server that all tests share, or skips the test on a
// machine without redis-server (WHEELLOCK_REQUIRE_REDIS=1 makes that an error).
func onRedis(t *testing.T) *redistest.Server {
	t.Helper()
	if server == nil {
		fixture.Lack(t, "no redis-server on PATH")
	}
	return server
}
