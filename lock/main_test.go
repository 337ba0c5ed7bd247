package lock_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// server is a real Redis for the package's tests, or nil without one.
var server *redistest.Server

func TestMain(m *testing.M) {
	// Those that are parallel wait, mostly. The command line may say otherwise.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// The seed that a failure prints repeats it. A file would make later runs fail too.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
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
		fmt.Fprintln(os.Stderr, "lock: the tests need a redis-server:", err)
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
			return 1
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

// miniAndRedis are a miniredis and, if there is one, the server that all share.
func miniAndRedis(t *testing.T) map[string]*redistest.Server {
	t.Helper()
	servers := map[string]*redistest.Server{"mini": fixture.Mini(t)}
	if server == nil {
		fixture.NoteLack(t)
	} else {
		servers["redis"] = server
	}
	return servers
}

// timesHeld is how often all holders hold a lock.
func timesHeld(info lock.Info) int {
	n := 0
	for _, h := range info.Holders {
		n += h.Count
	}
	return n
}
