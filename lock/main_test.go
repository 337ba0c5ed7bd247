package lock_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/redistest"
)

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
